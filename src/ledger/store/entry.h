/*
 * One entry of the registry: where it is, and what happens to its fields.
 */
#ifndef LEDGER_ENTRY_H
#define LEDGER_ENTRY_H

#include "ledger/store/record.h"
#include "sys/test_switch.h"

enum { LEDGER_TRUNCATION_BITS = 24 }; /* of ledger_entry_epoch() */

static inline uint32_t ledger_entry_index(const struct ledger_entry *entry)
{
    return (uint32_t)(entry - ledger_map.entries);
}
static inline struct ledger_stripe *ledger_entry_stripe(const struct ledger_entry *entry)
{
    return &ledger_map.shared->stripes[ledger_stripe_of(ledger_entry_index(entry))];
}
static inline bool ledger_entry_is_kernel(const struct ledger_entry *entry)
{
    return (atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_KERNEL) &&
           !sys_test_unsafe(SYS_TEST_WORLDS);
}
static inline bool ledger_entry_is_appending(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_APPENDING;
}

/*
 * These two bracket changes that readers without the lock may see half done. Stores between them
 * are stores with release. A reader that loads such a value, with acquire, also sees the odd
 * `sequence`. All fields are written under the stripe's lock, so no counter needs an atomic
 * addition.
 */
static inline void ledger_entry_change(struct ledger_entry *entry)
{
    uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
    atomic_store_explicit(&entry->sequence, sequence + 1, memory_order_relaxed);
}
static inline void ledger_entry_changed(struct ledger_entry *entry)
{
    uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
    atomic_store_explicit(&entry->sequence, sequence + 1, memory_order_release);
}

/* What ledger_file_asking() returns. */
static inline uint64_t ledger_epoch(uint64_t changes, uint64_t truncations)
{
    return changes << LEDGER_TRUNCATION_BITS | (truncations & ((1u << LEDGER_TRUNCATION_BITS) - 1));
}
static inline uint64_t ledger_entry_epoch(const struct ledger_entry *entry)
{
    uint64_t changes = atomic_load(&entry->changes);
    return ledger_epoch(changes, atomic_load(&entry->truncations));
}

/* ---- under the stripe's lock ---- */

/* This host may have changed the file, and no answer tells its times. */
static inline void ledger_entry_untold(struct ledger_entry *entry)
{
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_UNTOLD);
}
/* The record is sent with DATA_SYNC or FILE_SYNC. */
static inline void ledger_record_goes_to_disk(struct ledger_entry *entry,
                                              struct ledger_record *record)
{
    record->began = ++ledger_entry_stripe(entry)->commits;
    record->to_disk = LEDGER_TO_DISK;
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_TO_DISK);
}
static inline void ledger_entry_clear(struct ledger_entry *entry, uint32_t flag)
{
    if (atomic_load_explicit(&entry->flags, memory_order_relaxed) & flag)
        atomic_fetch_and(&entry->flags, ~flag);
}
/* Dirty data of the file is lost. Until a write succeeds, each write is sent at once, so that the
 * program hears from write(2) that there is no space. */
static inline void ledger_entry_lose(struct ledger_entry *entry, int error)
{
    entry->losses.error = error;
    atomic_fetch_add(&entry->losses.count, 1);
    atomic_fetch_add(&ledger_map.shared->losses, 1);
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_REFUSED);
}
/* The size may have changed. Answers to questions that were asked before count no more, and what
 * was read ahead is old. */
static inline void ledger_entry_outdate(struct ledger_entry *entry)
{
    atomic_store(&entry->truncations, ++ledger_entry_stripe(entry)->births);
}
/* The kernel may have to be told of it: see ledger_number_written(). */
static inline void ledger_entry_is_written(struct ledger_entry *entry)
{
    if (!(atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_WRITTEN))
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_WRITTEN);
}
/* The place is to be another file's, or free. */
static inline void ledger_entry_forget_written(const struct ledger_entry *entry)
{
    if (atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_WRITTEN)
        atomic_store(&ledger_entry_stripe(entry)->forgets_written, true);
}
/* A write of the file began or ended. */
static inline void ledger_entry_count_change(struct ledger_entry *entry)
{
    uint32_t changes = atomic_load_explicit(&entry->changes, memory_order_relaxed);
    atomic_store_explicit(&entry->changes, changes + 1, memory_order_release);
    ledger_entry_is_written(entry);
}
/* The turn to append is over: see append.c. */
static inline void ledger_entry_append_end(struct ledger_entry *entry)
{
    atomic_store(&entry->truncator, 0);
    atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_APPENDING);
}
/* The hold of a record is over. The write may have been executed at any time until now. */
static inline void ledger_record_hold_over(struct ledger_record *record)
{
    struct ledger_entry *entry =
        &ledger_map.entries[atomic_load_explicit(&record->file, memory_order_relaxed)];
    record->held_until = 0;
    ledger_entry_untold(entry);
    ledger_entry_count_change(entry);
}

/* The size is not known any more: the server must be asked. forget_size: nor what this host did. */
void ledger_entry_doubt_size(struct ledger_entry *entry);
void ledger_entry_forget_size(struct ledger_entry *entry);
/* A truncation made the size this. Data of the ledger beyond it is cut off. */
void ledger_entry_set_size(struct ledger_entry *entry, uint64_t size,
                           struct ledger_garbage *garbage);
/* Finds the end of the acknowledged data, which the server may not have reported yet. Also stores
 * it as `uncommitted_end`. */
uint64_t ledger_entry_uncommitted_end(struct ledger_entry *entry);
/* Frees an entry and all that it has. Writes in flight go on, but leave nothing here. */
void ledger_entry_retire(struct ledger_entry *entry, struct ledger_garbage *garbage);
/* Gives the entry its new name. Called by the process that began the change, or by one that found
 * it dead. */
void ledger_entry_end_rename(struct ledger_entry *entry);
/* Gives the entry the handle, the server and the root of `key`. */
void ledger_entry_set_name(struct ledger_entry *entry, const struct ledger_file_key *key);

#endif
