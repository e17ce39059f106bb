/* What is done to paths and servers in one round: a list of commands to the proxy and to the server
 * with their times, all from the seed. Of what kinds they are: kinds.h. */
#ifndef FAULT_PLAN_H
#define FAULT_PLAN_H

#include <stdarg.h>

#include "control.h"

/* HOLD_MS is less than failover_hold of lab.sh. STUCK_MS: a process is looked for that hangs. */
enum { EVENTS_MOST = 48, PLAN_MS = 220, HOLD_MS = 300, STUCK_MS = 60 };

enum target { TO_PROXY, TO_POWER, TO_RESTART, TO_WORKER, TO_COMMAND, TO_FILE, TO_VISITOR };

struct event {
    unsigned at_ms;
    enum target target;
    bool loses; /* what was not stable before it may be gone from the server */
    char command[80];
};

struct plan {
    uint64_t random;
    unsigned paths;
    unsigned length_ms; /* of the round, at least */
    unsigned effects;   /* of enum effect */
    unsigned count;
    struct event events[EVENTS_MOST];
    char names[80];
};

unsigned plan_pick(struct plan *p, unsigned least, unsigned most);
__attribute__((format(printf, 4, 5))) struct event *
plan_add(struct plan *p, unsigned at_ms, enum target target, const char *format, ...);

/* So many per cent of the changed pages survive. */
void plan_loss(struct plan *p, unsigned at, unsigned survive);
unsigned any_survivors(struct plan *p);

/* It is up again after a time of at most `most` ms. */
void plan_up(struct plan *p, unsigned at, unsigned most);

#endif
