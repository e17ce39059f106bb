/* Calls that proxy.c keeps back for long, until a `release` or their time, or loses. */
#ifndef FAULT_HELD_H
#define FAULT_HELD_H

#include "connections.h"

/* The client gave the connection up: from now on the held call is one that comes late. */
void held_abandoned(struct held *held);
void held_discard(struct held *held);

/* Is this call the one to be kept? */
bool hold(struct connection *c, struct message *m, const struct call *call);

/*
 * A server that has queued a call knows it again by xid, address and port, when it comes a second
 * time: it is executed once.
 */
void recognise(const struct connection *c, const struct call *call);
uint64_t helds_due(uint64_t now);

#endif
