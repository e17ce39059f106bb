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

static unsigned plan_pick(struct plan *p, unsigned least, unsigned most)
{
    return least + (unsigned)(random_next(&p->random) >> 16) % (most - least + 1);
}

__attribute__((format(printf, 4, 5))) static struct event *
plan_add(struct plan *p, unsigned at_ms, enum target target, const char *format, ...)
{
    va_list arguments;
    if (p->count == EVENTS_MOST)
        die("a plan of more than %d events", EVENTS_MOST);
    unsigned i = p->count++;
    for (; i > 0 && p->events[i - 1].at_ms > at_ms; i--)
        p->events[i] = p->events[i - 1];
    p->events[i] = (struct event){.at_ms = at_ms, .target = target};
    va_start(arguments, format);
    vsnprintf(p->events[i].command, sizeof p->events[i].command, format, arguments);
    va_end(arguments);
    if (at_ms + 30 > p->length_ms)
        p->length_ms = at_ms + 30;
    return &p->events[i];
}

/* So many per cent of the changed pages survive. */
static void plan_loss(struct plan *p, unsigned at, unsigned survive)
{
    plan_add(p, at, TO_POWER, "power-loss %u", survive)->loses = true;
}

static unsigned any_survivors(struct plan *p)
{
    return plan_pick(p, 0, 1) ? plan_pick(p, 0, 90) : 0;
}

/* It is up again after a time of at most `most` ms. */
static void plan_up(struct plan *p, unsigned at, unsigned most)
{
    plan_add(p, at + plan_pick(p, 1, most), TO_POWER, "up");
}

#endif
