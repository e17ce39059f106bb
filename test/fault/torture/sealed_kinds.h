/* Kinds of faults, see kinds.h, of connections under TLS and of calls under Kerberos. */
#ifndef FAULT_SEALED_KINDS_H
#define FAULT_SEALED_KINDS_H

#include "plan.h"

/* Bytes of calls and replies change on the way. */
void plan_tamper(struct plan *p);

/* Keys are made anew, again and again. */
void plan_rekey(struct plan *p);

/* Who connects again is told that there is no TLS. */
void plan_deny(struct plan *p);

/* The cache of tickets is gone when contexts are to be made, and comes back. */
void plan_ticket_away(struct plan *p);

/* The ticket ends under load, and there is another one later. */
void plan_ticket_ends(struct plan *p);

/* The KDC is away when a ticket for the server is to be had. */
void plan_kdc_away(struct plan *p);

#endif
