/*
 * Ranges of unknown fate. A request may still be carried out after its connection died. So no
 * process may write over its range for a while. Also tells which process is in the way of a write.
 */
#ifndef LEDGER_HOLD_H
#define LEDGER_HOLD_H

#include "ledger/store/entry.h"

/* How long this process holds a range; set once, before all else. */
void ledger_hold_set(uint64_t length_ns);
uint64_t ledger_hold_ns(void);
/* Waits as long as a range is held. Call it before ledger_file_truncate_end() when the server may
 * carry out the change of size again. */
void ledger_hold_wait(void);

/* ---- under the stripe's lock ---- */

/* Holds the range of a linked record: no process may write over it for a while. */
void ledger_record_hold(uint32_t record);
/* Ends the holds that are over, and frees their ghosts. Where such a write may have made the file
 * longer, the size must be asked for. Looks for them once a second at most. */
void ledger_stripe_expire(uint32_t stripe);
/* As ledger_stripe_expire(), but always looks, if a record is held. */
static inline void ledger_stripe_expire_now(uint32_t stripe)
{
    _Atomic uint64_t *check = &ledger_map.shared->stripes[stripe].held_check;
    if (atomic_load_explicit(check, memory_order_relaxed) == 0)
        return;
    atomic_store_explicit(check, 1, memory_order_relaxed);
    ledger_stripe_expire(stripe);
}

/*
 * The process to wait for before the size may be changed, or bytes beyond `truncate.size` be
 * written. A process slot; LEDGER_TRUNCATOR_HELD: only time must pass; 0: no process.
 */
uint32_t ledger_entry_truncator_slowly(struct ledger_entry *entry);
static inline uint32_t ledger_entry_truncator(struct ledger_entry *entry)
{
    uint32_t slot = atomic_load_explicit(&entry->truncator, memory_order_relaxed);
    return slot == LEDGER_TRUNCATOR_HELD ? ledger_entry_truncator_slowly(entry) : slot;
}
/* The process that changed the size is dead: holds the size, or cuts in its place. */
void ledger_entry_hold_size(struct ledger_entry *entry, struct ledger_garbage *garbage);

/* The process to wait for before [start, end) may be written. Its slot; 0: only time must pass;
 * UINT32_MAX: nothing is in the way. `own`: the record that is replayed there, or 0. */
uint32_t ledger_range_user(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                           uint32_t own);
/* As ledger_range_user(). A process that changes the size, or appends, is in the way as well. */
uint32_t ledger_range_in_the_way(struct ledger_entry *entry, uint64_t start, uint64_t end,
                                 uint32_t own);

#endif
