/*
 * Entries of files in the registry.
 */
#ifndef LEDGER_ENTRIES_H
#define LEDGER_ENTRIES_H

#include "ledger/attributes.h"
#include "ledger/records.h"
#include "ledger/stripes.h"
#include "sys/test_switch.h"

/*
 * Finds the entry again if it was recycled, making it if `make`, and returns it with its stripe
 * locked; NULL, with nothing locked, if there is none: in *result (may be NULL) -ESTALE if there is
 * one with another handle that may be of the same file, so that this one must be looked up again;
 * -ENOSPC if there is no room; -ENOENT.
 */
struct ledger_entry *ledger_entry_lock(struct ledger_file *file, bool make, int *result);
void ledger_entry_unlock(const struct ledger_file *file);
/* The entry without a lock, for single atomic loads; NULL: there is none. */
struct ledger_entry *ledger_entry_peek(struct ledger_file *file);
/* The stripe of a file's entry, whether there is one or not. */
uint32_t ledger_stripe_of_inode(uint64_t device, uint64_t inode);
static inline uint32_t ledger_stripe_of_file(const struct ledger_file *file)
{
    return ledger_stripe_of_inode(file->key.device, file->key.inode);
}
/* The entries with this device and inode, which may be of several files: the next after `last`, or
 * the first if that is NULL; NULL: no more. They stay only under the stripe's lock. */
struct ledger_entry *ledger_entry_next(uint64_t device, uint64_t inode,
                                       const struct ledger_entry *last);
/* Under the stripe's lock: the entry that has this key, by its handle; NULL: none. */
struct ledger_entry *ledger_entry_find(const struct ledger_file_key *key);
/* Under the stripe's lock: the entry of a file, remembered or by its key; NULL: none. */
struct ledger_entry *ledger_entry_of(const struct ledger_file *file);
/* The entry that a process remembers, if it still is of the same file. Generations are unique in a
 * stripe, so a torn pair of index and generation matches nothing. No lock. */
struct ledger_entry *ledger_entry_remembered(const struct ledger_file *file);
static inline uint32_t ledger_entry_index(const struct ledger_entry *entry)
{
    return (uint32_t)(entry - ledger_map.entries);
}
static inline struct ledger_stripe *ledger_entry_stripe(const struct ledger_entry *entry)
{
    return &ledger_map.shared->stripes[ledger_stripe_of(ledger_entry_index(entry))];
}

/* Under the stripe's lock: frees an entry, with all that it has. Writes in flight go on, but leave
 * nothing here. */
void ledger_entry_retire(struct ledger_entry *entry, struct ledger_garbage *garbage);

/* Under the stripe's lock: gives the entry its new name, by who began that or found him dead. */
void ledger_entry_end_rename(struct ledger_entry *entry);

/* Fills in whose entry it is. Under the stripe's lock. */
void ledger_entry_name(const struct ledger_entry *entry, struct ledger_file *file);

/* Bracket changes that readers without the lock may see half. */
void ledger_entry_change(struct ledger_entry *entry);
void ledger_entry_changed(struct ledger_entry *entry);
/* Under the stripe's lock: the size must be asked for. */
void ledger_entry_forget_size(struct ledger_entry *entry);
/* Under the stripe's lock: the size is what a truncation made it; what the ledger has beyond it is
 * cut off. */
void ledger_entry_set_size(struct ledger_entry *entry, uint64_t size,
                           struct ledger_garbage *garbage);
/* Under the stripe's lock: what ledger_file_learned() does. `own`: from the answer to a write. */
void ledger_entry_learn(struct ledger_entry *entry, uint64_t epoch,
                        const struct ledger_attributes *attributes, uint64_t now_ns, bool own);
/* Under the stripe's lock: this host may have changed the file, and no answer tells its times. */
static inline void ledger_entry_untold(struct ledger_entry *entry)
{
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_UNTOLD);
}
/* Under the stripe's lock: it is sent with DATA_SYNC or FILE_SYNC. */
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
/* Under the stripe's lock: dirty data of the file is lost. Until a write succeeds each goes out at
 * once, so that a program hears from write(2) that there is no space. */
static inline void ledger_entry_lose(struct ledger_entry *entry, int error)
{
    entry->loss_error = error;
    atomic_fetch_add(&entry->losses, 1);
    atomic_fetch_add(&ledger_map.shared->losses, 1);
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_REFUSED);
}
/* Under the stripe's lock: what was asked of the file before is no news, and what was read of it
 * ahead of its use is old. */
static inline void ledger_entry_outdate(struct ledger_entry *entry)
{
    atomic_store(&entry->truncations, ++ledger_entry_stripe(entry)->births);
}
/* What ledger_file_asking() returns. */
enum { LEDGER_TRUNCATION_BITS = 24 };
static inline uint64_t ledger_epoch(uint64_t changes, uint64_t truncations)
{
    return changes << LEDGER_TRUNCATION_BITS | (truncations & ((1u << LEDGER_TRUNCATION_BITS) - 1));
}
uint64_t ledger_entry_epoch(const struct ledger_entry *entry);
/* Under the stripe's lock: a write of the file began or ended. */
static inline void ledger_entry_count_change(struct ledger_entry *entry)
{
    uint32_t changes = atomic_load_explicit(&entry->changes, memory_order_relaxed);
    atomic_store_explicit(&entry->changes, changes + 1, memory_order_release);
}

/*
 * Under the stripe's lock: who must be waited for before the size may be changed, or bytes beyond
 * `truncate_size` be written: a process slot, LEDGER_TRUNCATOR_HELD (only time), 0: nobody.
 */
uint32_t ledger_entry_truncator_slowly(struct ledger_entry *entry);
static inline uint32_t ledger_entry_truncator(struct ledger_entry *entry)
{
    uint32_t slot = atomic_load_explicit(&entry->truncator, memory_order_relaxed);
    return slot == LEDGER_TRUNCATOR_HELD ? ledger_entry_truncator_slowly(entry) : slot;
}
/* Under the stripe's lock: the process that changed the size is dead. */
void ledger_entry_hold_size(struct ledger_entry *entry, struct ledger_garbage *garbage);

static inline bool ledger_entry_is_kernel(const struct ledger_entry *entry)
{
    return (atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_KERNEL) &&
           !sys_test_unsafe(SYS_TEST_WORLDS);
}
static inline bool ledger_entry_is_appending(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_APPENDING;
}
/* The turn is over. */
void ledger_entry_append_end(struct ledger_entry *entry);

/* Under the stripe's lock: the process that must be waited for before [start, end) may be
 * written: its slot; 0: only time must pass; UINT32_MAX: nothing is in the way. `own`: the
 * record that is replayed there, or 0. */
uint32_t ledger_range_user(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                           uint32_t own);
/* The same, where a process that changes the size or appends is in the way, too. */
uint32_t ledger_range_in_the_way(struct ledger_entry *entry, uint64_t start, uint64_t end,
                                 uint32_t own);

#endif
