/*
 * The stripes of the registry: their locks, waiting for a range, the sweep of what is over.
 */
#ifndef LEDGER_STRIPES_H
#define LEDGER_STRIPES_H

#include "ledger/store/map.h"

/* Takes a stripe's lock. If its owner died, puts the stripe in order first. Also ends holds that
 * are over. */
void ledger_stripe_lock(uint32_t stripe);
void ledger_stripe_unlock(uint32_t stripe);
/* Wakes the threads that wait for a range of the stripe, if there are any. Call it without the
 * lock. */
void ledger_stripe_wake(uint32_t stripe);

/* Waits until something of the stripe becomes free, or for a tenth of a second (LEDGER_WAIT_NS).
 * The lock is free meanwhile. `owner`: the slot of the process that is in the way. If that process
 * is dead, what it had is given back. A thread looks for that once in a tenth of a second at most,
 * even if it is woken more often. */
void ledger_stripe_wait(uint32_t stripe, uint32_t owner);

/* A thread that does not wait looks for dead processes once in this time, at most. */
#define LEDGER_SWEEP_NS UINT64_C(1000000000)
/* Looks for dead processes (ledger_process_check_all()), and ends the holds that are over in all
 * stripes. At most once in `interval_ns`, for all processes together. */
void ledger_process_sweep(uint64_t interval_ns);

/* If it is set, a thread that waits calls it. It receives answers to writes of this process in
 * flight, for a moment, as no other thread may do so. False, at once: there are no such writes. */
extern bool (*_Atomic ledger_wait_help)(void);

#endif
