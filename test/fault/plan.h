/*
 * What is done to paths and servers in one round: a list of commands to the proxy and to the server
 * with their times, all from the seed.
 */
#ifndef FAULT_PLAN_H
#define FAULT_PLAN_H

#include "control.h"
#include "journal.h"

/* HOLD_MS is less than failover_hold of lab.sh. STUCK_MS: a process is looked for that hangs. */
enum { EVENTS_MOST = 48, PLAN_MS = 220, HOLD_MS = 300, STUCK_MS = 60 };

enum target { TO_PROXY, TO_POWER, TO_RESTART, TO_WORKER };

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

static unsigned any_path(struct plan *p)
{
    return plan_pick(p, 1, p->paths);
}

/* A path that is bad from some moment on, and good again. */
static void plan_period(struct plan *p, unsigned path, const char *bad, unsigned least,
                        unsigned most)
{
    unsigned from = plan_pick(p, 5, 80), to = from + plan_pick(p, least, most);
    plan_add(p, from, TO_PROXY, "%u %s", path, bad);
    plan_add(p, to, TO_PROXY, "%u pass", path);
}

static void plan_calm(struct plan *p)
{
    (void)p;
}

static void plan_reset(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 5); i > 0; i--)
        plan_add(p, plan_pick(p, 0, PLAN_MS - 30), TO_PROXY, "%u reset", any_path(p));
}

static void plan_reset_all(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 0, PLAN_MS - 30), TO_PROXY, "all reset");
}

/* Shorter than what is taken for dead: what was under way arrives late. */
static void plan_freeze(struct plan *p)
{
    plan_period(p, any_path(p), "blackhole", 40, 150);
}

/* Longer than that. */
static void plan_blackhole(struct plan *p)
{
    static const char *const kinds[] = {"blackhole", "blackhole calls", "blackhole replies"};
    unsigned path = any_path(p);
    plan_period(p, path, kinds[plan_pick(p, 0, 2)], 700, 1300);
}

static void plan_refuse(struct plan *p)
{
    unsigned path = any_path(p), from = plan_pick(p, 5, 80);
    plan_add(p, from, TO_PROXY, "%u refuse", path);
    plan_add(p, from + 1, TO_PROXY, "%u reset", path);
    plan_add(p, from + plan_pick(p, 20, 200), TO_PROXY, "%u pass", path);
}

static void plan_refuse_all(struct plan *p)
{
    unsigned from = plan_pick(p, 5, 80);
    plan_add(p, from, TO_PROXY, "all refuse");
    plan_add(p, from + 1, TO_PROXY, "all reset");
    plan_add(p, from + plan_pick(p, 20, 200), TO_PROXY, "all pass");
}

static void plan_mess(struct plan *p)
{
    unsigned path = any_path(p);
    plan_add(p, 0, TO_PROXY, "%u delay %u %u", path, plan_pick(p, 0, 4), plan_pick(p, 0, 8));
    plan_add(p, 0, TO_PROXY, "%u reorder calls %u", path, plan_pick(p, 0, 60));
    plan_add(p, 0, TO_PROXY, "%u reorder replies %u", path, plan_pick(p, 0, 60));
    plan_add(p, 0, TO_PROXY, "%u duplicate calls %u", path, plan_pick(p, 0, 30));
    plan_add(p, plan_pick(p, 1, 100), TO_PROXY, "%u reset", path);
    if (plan_pick(p, 0, 1))
        plan_add(p, 1, TO_PROXY, "%u split %u", path, plan_pick(p, 200, 9000));
}

static void plan_stall(struct plan *p)
{
    unsigned path = any_path(p);
    plan_add(p, 0, TO_PROXY, "%u stall %u %s 10", path, plan_pick(p, 5, 40),
             plan_pick(p, 0, 1) ? "calls" : "replies");
    plan_add(p, plan_pick(p, 60, 180), TO_PROXY, "%u reset", path);
}

static void plan_split(struct plan *p)
{
    plan_add(p, 0, TO_PROXY, "%u split %u", any_path(p), plan_pick(p, 20, 1500));
}

static void plan_dropafter(struct plan *p)
{
    plan_add(p, 0, TO_PROXY, "%u dropafter %u", any_path(p), plan_pick(p, 3, 60));
}

/* A call or a reply that is lost although the connection lives: it is sent again in the end. */
static void plan_drop(struct plan *p)
{
    plan_add(p, plan_pick(p, 0, 100), TO_PROXY, "%u drop %s 20 %u", any_path(p),
             plan_pick(p, 0, 1) ? "calls" : "replies", plan_pick(p, 1, 3));
}

static void plan_corrupt(struct plan *p)
{
    plan_add(p, plan_pick(p, 0, 100), TO_PROXY, "%u corrupt %s 20 %u", any_path(p),
             plan_pick(p, 0, 1) ? "xid" : "mark", plan_pick(p, 1, 2));
}

static void plan_jukebox(struct plan *p)
{
    static const unsigned procedures[] = {NFS_READ, NFS_WRITE, NFS_COMMIT, NFS_GETATTR};
    plan_add(p, 0, TO_PROXY, "%u jukebox %u 30 %u", any_path(p), procedures[plan_pick(p, 0, 3)],
             plan_pick(p, 1, 3));
}

/* The server says that it restarted, though it did not. */
static void plan_verifier(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 190), TO_PROXY, "all verifier %u", plan_pick(p, 0, 9));
}

static void plan_halfclose(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 3); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 190), TO_PROXY, "%u halfclose", any_path(p));
}

static void plan_limit(struct plan *p)
{
    unsigned path = any_path(p);
    plan_add(p, 0, TO_PROXY, "%u limit %u", path, plan_pick(p, 1, 2));
    plan_add(p, 20, TO_PROXY, "%u reset", path);
}

/*
 * A path goes black with one WRITE in the network. The client leaves the path, the same bytes are
 * written again over another one, and then the WRITE comes to the server after all.
 */
static void plan_hold(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u blackhole after %u", path, plan_pick(p, 1, 20),
             plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + 1500, TO_PROXY, "%u pass", path);
}

/* The same, but the server has queued the WRITE when the path dies with a reset. */
static void plan_late(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u %s late after %u", path, plan_pick(p, 1, 20),
             plan_pick(p, 0, 3) ? "refuse" : "reset", plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + HOLD_MS + 150, TO_PROXY, "%u pass", path);
}

static void plan_power_loss(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 2); i > 0; i--) {
        unsigned at = plan_pick(p, 10, 180);
        plan_add(p, at, TO_POWER, "power-loss %u", plan_pick(p, 0, 1) ? plan_pick(p, 0, 90) : 0)
            ->loses = true;
        plan_add(p, at + plan_pick(p, 1, 40), TO_POWER, "up");
    }
}

/* The server exports again, with other handles of the same files. */
static void plan_rehandle(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 2); i > 0; i--) {
        if (plan_pick(p, 0, 1))
            plan_add(p, plan_pick(p, 10, 180), TO_POWER, "rehandle same %u", plan_pick(p, 1, 20));
        else
            plan_add(p, plan_pick(p, 10, 180), TO_POWER, "rehandle same");
    }
}

/* And as part of a restart. */
static void plan_rehandle_loss(struct plan *p)
{
    unsigned at = plan_pick(p, 10, 180);
    plan_add(p, at, TO_POWER, "power-loss %u", plan_pick(p, 0, 90))->loses = true;
    plan_add(p, at, TO_POWER, "rehandle same");
    plan_add(p, at + plan_pick(p, 1, 40), TO_POWER, "up");
}

static void plan_server_reset(struct plan *p)
{
    for (unsigned i = plan_pick(p, 1, 4); i > 0; i--)
        plan_add(p, plan_pick(p, 0, 190), TO_POWER, "reset");
}

static void plan_slow(struct plan *p)
{
    plan_add(p, 0, TO_POWER, "slow %u", plan_pick(p, 1, 40));
    plan_add(p, plan_pick(p, 50, 200), TO_POWER, "slow 0");
}

/* The disk hangs in one WRITE, and the connection is lost meanwhile. */
static void plan_park(struct plan *p)
{
    plan_add(p, plan_pick(p, 5, 60), TO_POWER, "park %u %u reset", plan_pick(p, 1, 10),
             plan_pick(p, 100, 300));
    p->length_ms = 500;
}

static void plan_restart(struct plan *p)
{
    plan_add(p, plan_pick(p, 10, 100), TO_RESTART, "restart");
}

/* As hold and late, with a change of size. */
static void plan_hold_size(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u setattr blackhole after %u", path, plan_pick(p, 1, 6),
             plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + 1500, TO_PROXY, "%u pass", path);
}

static void plan_late_size(struct plan *p)
{
    unsigned path = any_path(p), at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u setattr %s late after %u", path, plan_pick(p, 1, 6),
             plan_pick(p, 0, 3) ? "refuse" : "reset", plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + HOLD_MS + 150, TO_PROXY, "%u pass", path);
}

/* A process is killed in the midst of its calls. */
static void plan_kill(struct plan *p)
{
    plan_add(p, plan_pick(p, 30, 180), TO_WORKER, "kill");
}

/* And one of its calls comes to the server when others write there: it hangs when it is killed. */
static void plan_killed(struct plan *p, unsigned most, const char *what)
{
    unsigned at = plan_pick(p, 5, 60);
    plan_add(p, at, TO_PROXY, "%u hold %u %slate after %u", any_path(p), plan_pick(p, 1, most),
             what, plan_pick(p, 20, HOLD_MS));
    plan_add(p, at + plan_pick(p, 10, 60), TO_WORKER, "kill stuck");
    p->length_ms = 100 + STUCK_MS + HOLD_MS + 150;
}

static void plan_kill_late(struct plan *p)
{
    plan_killed(p, 20, "");
}

static void plan_kill_size(struct plan *p)
{
    plan_killed(p, 6, "setattr ");
}

static const struct kind {
    const char *name;
    void (*plan)(struct plan *);
    enum target target;
    unsigned weight;
} kinds[] = {
    {"calm", plan_calm, TO_PROXY, 2},
    {"reset", plan_reset, TO_PROXY, 6},
    {"reset-all", plan_reset_all, TO_PROXY, 4},
    {"freeze", plan_freeze, TO_PROXY, 6},
    {"blackhole", plan_blackhole, TO_PROXY, 2},
    {"refuse", plan_refuse, TO_PROXY, 5},
    {"refuse-all", plan_refuse_all, TO_PROXY, 3},
    {"mess", plan_mess, TO_PROXY, 6},
    {"stall", plan_stall, TO_PROXY, 4},
    {"split", plan_split, TO_PROXY, 3},
    {"dropafter", plan_dropafter, TO_PROXY, 4},
    {"drop", plan_drop, TO_PROXY, 1},
    {"corrupt", plan_corrupt, TO_PROXY, 2},
    {"jukebox", plan_jukebox, TO_PROXY, 2},
    {"verifier", plan_verifier, TO_PROXY, 5},
    {"halfclose", plan_halfclose, TO_PROXY, 3},
    {"limit", plan_limit, TO_PROXY, 3},
    {"hold", plan_hold, TO_PROXY, 2},
    {"late", plan_late, TO_PROXY, 5},
    {"power-loss", plan_power_loss, TO_POWER, 14},
    {"rehandle", plan_rehandle, TO_POWER, 3},
    {"rehandle-loss", plan_rehandle_loss, TO_POWER, 3},
    {"server-reset", plan_server_reset, TO_POWER, 3},
    {"slow", plan_slow, TO_POWER, 3},
    {"park", plan_park, TO_POWER, 3},
    {"restart", plan_restart, TO_RESTART, 8},
    {"kill", plan_kill, TO_WORKER, 4},
    {"kill-late", plan_kill_late, TO_PROXY, 3},
    {"hold-size", plan_hold_size, TO_PROXY, 2},
    {"late-size", plan_late_size, TO_PROXY, 4},
    {"kill-size", plan_kill_size, TO_PROXY, 3},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* Of the kinds in `allowed`, one, or in every third round two at once. */
static void plan_make(struct plan *p, uint64_t seed, unsigned round, unsigned paths,
                      const bool allowed[KINDS])
{
    unsigned total = 0;
    *p = (struct plan){.random = mix(seed * 31 + round) | 1, .paths = paths, .length_ms = PLAN_MS};
    for (unsigned i = 0; i < KINDS; i++)
        total += allowed[i] ? kinds[i].weight : 0;
    for (unsigned n = plan_pick(p, 0, 2) == 0 ? 2 : 1; n > 0 && total > 0; n--) {
        unsigned at = plan_pick(p, 1, total), i = 0;
        for (;; i++) {
            unsigned weight = allowed[i] ? kinds[i].weight : 0;
            if (at <= weight)
                break;
            at -= weight;
        }
        strcat(strcat(p->names, p->names[0] ? "+" : ""), kinds[i].name);
        kinds[i].plan(p);
    }
}

#endif
