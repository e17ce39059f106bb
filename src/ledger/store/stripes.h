/*
 * The stripes of the registry: their locks, waiting for a range, the sweep of what is over.
 */
#ifndef LEDGER_STRIPES_H
#define LEDGER_STRIPES_H

#include "ledger/store/map.h"

/* Takes a stripe's lock, after putting in order what a dead owner left. */
void ledger_stripe_lock(uint32_t stripe);
void ledger_stripe_unlock(uint32_t stripe);
/* Wakes those who wait for a range of the stripe; call without the lock if `waiting` was set. */
void ledger_stripe_wake(uint32_t stripe);

/* Waits until something of the stripe became free, or for a tenth of a second; unlocks
 * meanwhile. If the process `owner` is dead, what it held is given back. A thread looks for that
 * every tenth of a second, even if it is woken more often. */
void ledger_stripe_wait(uint32_t stripe, uint32_t owner);

/* A thread that does not wait looks for dead processes this often, at most. */
#define LEDGER_SWEEP_NS UINT64_C(1000000000)
/* ledger_process_check_all(), and frees the ghosts of all stripes whose time is over; not more
 * often than once in `interval_ns`. */
void ledger_process_sweep(uint64_t interval_ns);

/* Called by a thread that waits, if it is set: does for a moment what nobody else does for writes
 * of this process in flight. False, at once: there are none. */
extern bool (*_Atomic ledger_wait_help)(void);

#endif
