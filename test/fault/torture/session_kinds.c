/* See session_kinds.h. */
#include "session_kinds.h"

void plan_forget(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 5, 190), TO_POWER, "forget");
}

void plan_slots(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 4); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 190), TO_POWER, "slots %u", plan_pick(p, 1, 40));
}

void plan_grace(struct plan *p)
{
    unsigned at = plan_pick(p, 10, 100);
    plan_loss(p, at, any_survivors(p));
    plan_add(p, at, TO_POWER, "grace 1");
    plan_up(p, at, 40);
    plan_add(p, at + plan_pick(p, 40, 120), TO_POWER, "grace 0");
}
