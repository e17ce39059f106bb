/*
 * Has a file changed since it was looked at, as far as this host knows? A stamp is what the
 * counters of the file were then. The caller names the counters that matter. HACKING has a table of
 * what they count, and of what looks at them.
 */
#ifndef LEDGER_STAMP_H
#define LEDGER_STAMP_H

#include "ledger/cache.h"
#include "ledger/entries.h"

enum {
    LEDGER_STAMP_MAX = 1 << 20,
    LEDGER_STAMP_UNITS = (LEDGER_STAMP_MAX >> LEDGER_UNIT_SHIFT) + 1
};

/* What may have happened to the file. It is always checked that the entry is still of this file. */
enum ledger_stamp_of {
    LEDGER_STAMP_SIZE = 1,      /* its size was changed, or must be asked for */
    LEDGER_STAMP_FRESH = 2,     /* a process opened or locked it, or another host has changed it */
    LEDGER_STAMP_FRAMES = 4,    /* what the cache has of it was dropped */
    LEDGER_STAMP_REWRITTEN = 8, /* what the server may have lost was written again, or cut off */
    LEDGER_STAMP_GIVEN = LEDGER_STAMP_SIZE | LEDGER_STAMP_FRESH | LEDGER_STAMP_REWRITTEN
};

/* In the caller's memory. */
struct ledger_stamp {
    uint64_t generation; /* 0: the file had no entry */
    uint64_t truncations, freshness, frames, replays, cuts, changes;
    uint64_t size; /* of the file, as the host knows it; 0: not at all */
    uint64_t unit; /* the first unit (64 KiB) of `starts` */
    uint32_t starts[LEDGER_STAMP_UNITS];
};

static inline _Atomic uint64_t *ledger_entry_freshness(const struct ledger_entry *entry)
{
    return &ledger_map.shared->freshness[ledger_entry_index(entry) / LEDGER_SET_SIZE];
}

/* Takes a stamp of the file, and of the writes in [start, end): at most LEDGER_STAMP_MAX bytes, or
 * none. Makes the entry if there is none and there is room. A few loads, one for each 64 KiB. */
void ledger_stamp_take(struct ledger_file *file, uint64_t start, uint64_t end,
                       struct ledger_stamp *stamp);
/* Takes a stamp before [start, end) is read so that its bytes can be given out later. False: they
 * cannot. Something of this host is in flight or dirty there, or may still be executed; the file is
 * the kernel's, or several have its number; or there is no entry. Takes a lock. */
bool ledger_stamp_take_quiet(struct ledger_file *file, uint64_t start, uint64_t end,
                             struct ledger_stamp *stamp);

/* ledger_stamp_look(): as ledger_stamp_take(), for an entry that the caller is sure of.
 * ledger_starts_last(): as ledger_stamp_is(), for the writes alone. */
void ledger_stamp_look(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                       struct ledger_stamp *stamp);
bool ledger_starts_last(const struct ledger_entry *entry, const struct ledger_stamp *stamp,
                        uint64_t start, uint64_t end);
static inline bool ledger_stamp_is(const struct ledger_entry *entry,
                                   const struct ledger_stamp *stamp, unsigned what, uint64_t start,
                                   uint64_t end)
{
    if (atomic_load(&entry->generation) != stamp->generation ||
        (what & LEDGER_STAMP_SIZE && atomic_load(&entry->truncations) != stamp->truncations) ||
        (what & LEDGER_STAMP_FRESH &&
         atomic_load(ledger_entry_freshness(entry)) != stamp->freshness) ||
        (what & LEDGER_STAMP_FRAMES && atomic_load(&entry->frames) != stamp->frames) ||
        (what & LEDGER_STAMP_REWRITTEN && (atomic_load(&entry->replays) != stamp->replays ||
                                           atomic_load(&entry->cuts) != stamp->cuts)))
        return false;
    return start == end || ledger_starts_last(entry, stamp, start, end);
}

/* Has nothing of `what` (enum ledger_stamp_of) happened since, and has no write begun in [start,
 * end)? That must be a part of what was looked at. A caller that sees that a write behind began
 * also sees its bytes dirty. A few loads. */
static inline bool ledger_stamp_lasts(const struct ledger_file *file,
                                      const struct ledger_stamp *stamp, unsigned what,
                                      uint64_t start, uint64_t end)
{
    const struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    return entry ? ledger_stamp_is(entry, stamp, what, start, end) : stamp->generation == 0;
}
/* A READ that was sent after the stamp was taken met the end of the file, at `size`. Is that still
 * its end, as far as this host goes? */
bool ledger_stamp_end_lasts(const struct ledger_file *file, const struct ledger_stamp *stamp,
                            uint64_t size);

/* The file was opened or locked. The caller must see what others wrote before. So what any process
 * of this host read of it until now is old. */
void ledger_file_refresh(struct ledger_file *file);

/*
 * The server told `now` with an answer that brought data. The question was asked at `asked_ns`,
 * when ledger_file_asking() was `epoch`. If a host or program that does not use the ledger changed
 * the file, this is as ledger_file_learned(). One load if nothing changed.
 */
void ledger_file_saw(struct ledger_file *file, uint64_t epoch, const struct ledger_attributes *now,
                     uint64_t asked_ns);

/* Counts a write in this bucket, before or after it is made. Under the stripe's lock. */
static inline void ledger_starts_count(struct ledger_bucket *bucket)
{
    uint32_t starts = atomic_load_explicit(&bucket->starts, memory_order_relaxed);
    atomic_store_explicit(&bucket->starts, starts + 1, memory_order_release);
}

/* A write of this record is announced: drops its frames, and counts it. Under the stripe's lock. */
static inline void ledger_record_starts(const struct ledger_entry *entry,
                                        const struct ledger_record *record)
{
    if (atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_CACHED)
        ledger_cache_broken(entry, ledger_record_start(record), ledger_record_end(record));
    ledger_starts_count(ledger_bucket(ledger_entry_index(entry), record->base));
}

#endif
