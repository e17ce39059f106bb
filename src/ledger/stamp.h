/*
 * Has any process of this host begun to change a piece of a file since it was looked at? So that
 * bytes that were read before they are wanted are given out only while they are what a READ would
 * bring now, as far as this host goes. And has any of them opened or locked the file since, or seen
 * that others changed it? What another host wrote is not read by one process and then not by the
 * next.
 */
#ifndef LEDGER_QUIET_H
#define LEDGER_QUIET_H

#include "ledger/cache.h"
#include "ledger/entries.h"

enum {
    LEDGER_QUIET_MAX = 1 << 20,
    LEDGER_QUIET_UNITS = (LEDGER_QUIET_MAX >> LEDGER_UNIT_SHIFT) + 1
};

/* What was seen. In the caller's memory. */
struct ledger_quiet {
    uint64_t generation, truncations, freshness, frames;
    uint64_t unit; /* the first; the counts of writes are from there on */
    uint32_t starts[LEDGER_QUIET_UNITS];
};

/* Before [start, end) is asked for, at most LEDGER_QUIET_MAX bytes. False: something of this host
 * is in flight there, or may still be executed, or the ledger is not at hand. Takes a lock. */
bool ledger_quiet_begin(struct ledger_file *file, uint64_t start, uint64_t end,
                        struct ledger_quiet *quiet);

/* Has nothing of this host begun in [start, end), a part of that, since, and is it not old by
 * ledger_file_refresh()? A few loads. */
bool ledger_quiet_lasts(const struct ledger_file *file, const struct ledger_quiet *quiet,
                        uint64_t start, uint64_t end);

/* A sum that differs from an earlier one if a write of this host began in [start, end) since, or
 * the entry is used for another file; it may differ without that. Who sees that a write began sees
 * that bytes are dirty, too. A load for each 64 KiB. */
uint64_t ledger_quiet_begun(const struct ledger_file *file, uint64_t start, uint64_t end);

/* A file before a READ of its end was sent. The end that the READ met is still its end while the
 * file has that size, as far as this host goes: all of `ledger_sight_lasts`. A few loads each. */
struct ledger_sight {
    uint64_t generation, truncations, freshness;
};
struct ledger_sight ledger_sight(const struct ledger_file *file);
bool ledger_sight_lasts(const struct ledger_file *file, const struct ledger_sight *sight,
                        uint64_t size);

/* The file was opened or locked: who does that sees what others wrote before, and what any process
 * of this host read of it until now is old. */
void ledger_file_refresh(struct ledger_file *file);

/*
 * The server told `now` with an answer that brought data: asked for at `asked_ns`, when
 * ledger_file_asking() was `epoch`. If somebody who does not use the ledger changed the file it is
 * as ledger_file_learned(). One load if nothing changed.
 */
void ledger_file_saw(struct ledger_file *file, uint64_t epoch, const struct ledger_attributes *now,
                     uint64_t asked_ns);

static inline _Atomic uint64_t *ledger_entry_freshness(const struct ledger_entry *entry)
{
    return &ledger_map.shared->freshness[ledger_entry_index(entry) / LEDGER_SET_SIZE];
}

/* Under the stripe's lock: what is so of [start, end), whatever is in flight there. */
void ledger_quiet_look(struct ledger_entry *entry, uint64_t start, uint64_t end,
                       struct ledger_quiet *quiet);

/* Under the stripe's lock: there is a write in this place of the hash table. */
static inline void ledger_quiet_count(struct ledger_bucket *bucket)
{
    uint32_t starts = atomic_load_explicit(&bucket->starts, memory_order_relaxed);
    atomic_store_explicit(&bucket->starts, starts + 1, memory_order_release);
}

/* Under the stripe's lock: a write of this record was announced. */
static inline void ledger_quiet_broken(const struct ledger_entry *entry,
                                       const struct ledger_record *record)
{
    if (atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_CACHED)
        ledger_cache_broken(entry, ledger_record_start(record), ledger_record_end(record));
    ledger_quiet_count(ledger_bucket(ledger_entry_index(entry), record->base));
}

#endif
