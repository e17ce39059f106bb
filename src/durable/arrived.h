/*
 * Strays that the server has all the same: a killed process had sent them, and did not live to hear
 * the answer. Inside the engine only.
 */
#ifndef DURABLE_ARRIVED_H
#define DURABLE_ARRIVED_H

#include "durable/committing.h"
#include "ledger/strays.h"

/*
 * Drops those strays of a set that are at the server byte for byte, and stable there: nothing of
 * them is lost, whatever changed the file. Waits for what is on its way, as long as it may arrive.
 * Returns the mark of the others; 0: there are none.
 */
uint64_t durable_strays_not_arrived(struct committing *c, enum ledger_stray_set set);

#endif
