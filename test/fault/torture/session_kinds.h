/* Kinds of faults, see kinds.h, that only sessions suffer from: those of NFSv4.1. */
#ifndef FAULT_SESSION_KINDS_H
#define FAULT_SESSION_KINDS_H

#include "plan.h"

/* Leases end: sessions are gone, and nothing else. */
void plan_forget(struct plan *p);

/* Fewer slots, and more again. */
void plan_slots(struct plan *p);

/* It restarts, and gives no data for a while. */
void plan_grace(struct plan *p);

#endif
