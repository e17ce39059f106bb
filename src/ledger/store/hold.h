/*
 * Ranges of unknown fate: a request whose connection died may still be carried out, so nobody may
 * write over its range for a while. And whoever else is in the way of a write.
 */
#ifndef LEDGER_HOLD_H
#define LEDGER_HOLD_H

#include "ledger/store/entry.h"

/* How long this process holds a range; set once, before all else. */
void ledger_hold_set(uint64_t length_ns);
uint64_t ledger_hold_ns(void);
/* Waits as long as a range is held: before ledger_file_truncate_end(), when the change of size may
 * yet be carried out again. */
void ledger_hold_wait(void);

/* ---- under the stripe's lock ---- */

/* Nobody may write over a linked record for a while. */
void ledger_record_hold(uint32_t record);
/* Frees ghosts whose time is over. The size of a file that such a write
 * may have made longer must be asked for. */
void ledger_stripe_expire(uint32_t stripe);
/* The same at once; the first looks for them no more often than once a second. */
static inline void ledger_stripe_expire_now(uint32_t stripe)
{
    _Atomic uint64_t *check = &ledger_map.shared->stripes[stripe].held_check;
    if (atomic_load_explicit(check, memory_order_relaxed) == 0)
        return;
    atomic_store_explicit(check, 1, memory_order_relaxed);
    ledger_stripe_expire(stripe);
}

/*
 * Who must be waited for before the size may be changed, or bytes beyond
 * `truncate.size` be written: a process slot, LEDGER_TRUNCATOR_HELD (only time), 0: nobody.
 */
uint32_t ledger_entry_truncator_slowly(struct ledger_entry *entry);
static inline uint32_t ledger_entry_truncator(struct ledger_entry *entry)
{
    uint32_t slot = atomic_load_explicit(&entry->truncator, memory_order_relaxed);
    return slot == LEDGER_TRUNCATOR_HELD ? ledger_entry_truncator_slowly(entry) : slot;
}
/* The process that changed the size is dead. */
void ledger_entry_hold_size(struct ledger_entry *entry, struct ledger_garbage *garbage);

/* The process that must be waited for before [start, end) may be
 * written: its slot; 0: only time must pass; UINT32_MAX: nothing is in the way. `own`: the
 * record that is replayed there, or 0. */
uint32_t ledger_range_user(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                           uint32_t own);
/* The same, where a process that changes the size or appends is in the way, too. */
uint32_t ledger_range_in_the_way(struct ledger_entry *entry, uint64_t start, uint64_t end,
                                 uint32_t own);

#endif
