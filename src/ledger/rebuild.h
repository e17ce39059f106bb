/*
 * Putting a stripe in order after the death of a process that held its lock.
 */
#ifndef LEDGER_REBUILD_H
#define LEDGER_REBUILD_H

#include <stdint.h>

/* Under the stripe's lock: makes its buckets, lists and counters again from the records. */
void ledger_stripe_rebuild(uint32_t stripe);

#endif
