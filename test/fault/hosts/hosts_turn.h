/*
 * A turn of a host, as the driver of hosts.c plans it, does it, and judges what came of it: the
 * programs work, faults come in the midst, and at last what the dead left is sent by an agent that
 * lives, or is owed (hosts_strays.h).
 */
#ifndef FAULT_HOSTS_TURN_H
#define FAULT_HOSTS_TURN_H

#include "hosts_ledger.h"
#include "hosts_program.h"
#include "hosts_strays.h"

enum {
    TURNS = 5, /* of a round */
    ACTIONS_MOST = 8,
    OPERATIONS_MOST = 60,
    TRIGGER_MS = 2000, /* that an action waits for its operation */
    STALL_MS = 1500    /* that somebody stopped may keep others waiting */
};

/* How a turn ends. */
#define ENDS           \
    X(calm)            \
    X(program)         \
    X(programs)        \
    X(agent)           \
    X(agent_program)   \
    X(agent_first)     \
    X(programs_first)  \
    X(host)            \
    X(stop_agent)      \
    X(stop_agent_kill) \
    X(stop_agent_end)  \
    X(stop_program)    \
    X(stop_program_kill)

enum end {
#define X(name) END_##name,
    ENDS
#undef X
        END_COUNT
};

extern const char *const end_names[END_COUNT];

/* When a host comes back that died. */
enum come_back { BACK_SELF, BACK_BEFORE, BACK_DURING, BACK_AFTER, BACK_COUNT };

enum act { ACT_END, ACT_POWER, ACT_RESET, ACT_FREEZE, ACT_VISIT };

struct action {
    unsigned at; /* operations of the host's programs, or all and then */
    enum act act;
};

struct plan {
    uint64_t random;
    enum end end;
    enum come_back back; /* of this host, if it dies */
    unsigned count;
    struct action actions[ACTIONS_MOST];
};

struct options {
    uint64_t seed;
    unsigned rounds, first, hosts, directories, logs;
    const char *proxy, *power;
    bool losses, verbose, allowed[END_COUNT];
};
extern struct options options;

extern struct plan plan;

extern struct turn *turn; /* this one */

extern enum come_back backs[HOSTS]; /* that are due: BACK_SELF, or when */

extern bool agent_died, lost_power, disturbed;

extern unsigned losses, stalls, checks, arrivals, visits, ends_done[END_COUNT];

unsigned choose(unsigned least, unsigned most);

/* ---- what the kernel sees ---- */

bool check_now(const char *when);

/* ---- faults ---- */

bool power_loss(const char *when);

/* ---- a turn ---- */

bool turn_run(unsigned number, unsigned host);

#endif
