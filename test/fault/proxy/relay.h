/*
 * What proxy.c makes of its connections: what comes in on one side goes out on the other, record by
 * record, and suffers what the path's faults say.
 */
#ifndef FAULT_RELAY_H
#define FAULT_RELAY_H

#include "held.h"

/* ---- records ---- */

/* The place of the status, of the count of a READ, and of the verifier; 0: none. */
void corrupt(struct connection *c, struct message *m);

/* ---- what is due ---- */

/* Moves all that can be moved. Says when more is to be done. */
uint64_t relay_due(uint64_t now);

#endif
