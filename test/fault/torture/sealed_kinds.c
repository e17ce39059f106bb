/* See sealed_kinds.h. */
#include "sealed_kinds.h"

enum { TICKET_MS = 2000 }; /* as of "ticket short" */

void plan_tamper(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 150), TO_PROXY, "%u tamper %s %u %u", plan_pick(p, 1, p->paths),
                 plan_pick(p, 0, 2) ? "replies" : "calls", plan_pick(p, 1, 20), plan_pick(p, 1, 4));
}

void plan_rekey(struct plan *p)
{
    plan_add(p, 0, TO_PROXY, "all rekey %u", plan_pick(p, 5, 100));
    if (plan_pick(p, 0, 1))
        plan_add(p, plan_pick(p, 50, 150), TO_PROXY, "%u reset", plan_pick(p, 1, p->paths));
}

void plan_deny(struct plan *p)
{
    unsigned from = plan_pick(p, 5, 80), path = plan_pick(p, 1, p->paths);
    bool all = plan_pick(p, 0, 1);
    for (unsigned i = 1; i <= p->paths; i++) {
        if (!all && i != path)
            continue;
        plan_add(p, from, TO_PROXY, "%u deny", i);
        plan_add(p, from + 1, TO_PROXY, "%u reset", i);
    }
    plan_add(p, from + plan_pick(p, 20, 200), TO_PROXY, "all pass");
}

/* With a new connection contexts are made anew. */
void plan_ticket_away(struct plan *p)
{
    unsigned at = plan_pick(p, 5, 80);
    plan_add(p, at, TO_COMMAND, "ticket away");
    plan_add(p, at, TO_PROXY, "all reset");
    if (plan_pick(p, 0, 2) == 0)
        plan_add(p, at, TO_RESTART, "restart");
    plan_add(p, at + plan_pick(p, 10, 300), TO_COMMAND, "ticket back");
}

void plan_ticket_ends(struct plan *p)
{
    unsigned at = plan_pick(p, 0, 50), after = TICKET_MS + plan_pick(p, 0, 1200);
    plan_add(p, at, TO_COMMAND, "ticket short");
    plan_add(p, at, TO_PROXY, "all reset");
    plan_add(p, at + after, TO_COMMAND, "ticket new");
    p->length_ms = at + after + 300;
}

void plan_kdc_away(struct plan *p)
{
    unsigned at = plan_pick(p, 5, 80);
    plan_add(p, at, TO_COMMAND, "kdc away");
    plan_add(p, at, TO_PROXY, "all reset");
    if (plan_pick(p, 0, 1))
        plan_add(p, at, TO_RESTART, "restart");
    plan_add(p, at + plan_pick(p, 10, 300), TO_COMMAND, "kdc back");
}
