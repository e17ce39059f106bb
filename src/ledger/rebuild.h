/*
 * Putting a stripe in order after the death of a process that held its lock.
 */
#ifndef LEDGER_REBUILD_H
#define LEDGER_REBUILD_H

#include <stdint.h>

/* Makes the buckets, lists and counters of a stripe again from the records. Under the stripe's
 * lock. */
void ledger_stripe_rebuild(uint32_t stripe);

#endif
