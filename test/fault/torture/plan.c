/* See plan.h. */
#include "plan.h"

unsigned plan_pick(struct plan *p, unsigned least, unsigned most)
{
    return least + (unsigned)(random_next(&p->random) >> 16) % (most - least + 1);
}

struct event *plan_add(struct plan *p, unsigned at_ms, enum target target, const char *format, ...)
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

void plan_loss(struct plan *p, unsigned at, unsigned survive)
{
    plan_add(p, at, TO_POWER, "power-loss %u", survive)->loses = true;
}

unsigned any_survivors(struct plan *p)
{
    return plan_pick(p, 0, 1) ? plan_pick(p, 0, 90) : 0;
}

void plan_up(struct plan *p, unsigned at, unsigned most)
{
    plan_add(p, at + plan_pick(p, 1, most), TO_POWER, "up");
}
