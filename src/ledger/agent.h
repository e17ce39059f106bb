/*
 * The agent as the processes of a run directory see it, in shared memory. The agent is the process
 * that sends what others wrote behind and did not live to send (`directnfs agent`, fd/care.h).
 *
 * A write may return before it is sent only if an agent lives. The agent must watch the process,
 * and be in contact with the server. Each agent has a number, which is never given out again. So a
 * promise of one agent is not taken for a promise of the next.
 *
 * When a process dies, its dirty data is in the care of the agent that watched it: the file's
 * `carer`. If that agent is dead as well, the data is a stray (strays.h).
 */
#ifndef LEDGER_AGENT_H
#define LEDGER_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/* The number of the agent, if it lives and is ready; 0: there is none. Two loads. */
uint32_t ledger_agent_number(void);
/* Is there an agent that lives? It may not be ready yet. A load. */
bool ledger_agent_is_there(void);
/* The process of the agent; 0: there is none, or it is in other namespaces than the caller. */
uint32_t ledger_agent_pid(void);
/* Does this agent watch the calling process? Two loads. */
bool ledger_agent_watches(uint32_t number);
/* Does it, or has this process asked it? Then it learns of the process's death: at once, or as it
 * comes to answer. A load. */
bool ledger_agent_knows(uint32_t number);
/* Is this agent in contact with the server of this key? `place`: the server's place, as
 * ledger_agent_ask() returned it; another server may have it by now. Some loads. */
bool ledger_agent_serves(uint32_t number, unsigned place, uint64_t key);
/* The same for who does not know the place: looks for it. */
bool ledger_agent_serves_key(uint32_t number, uint64_t key);

/* Would this agent send as this user (users.h)? A load. */
bool ledger_agent_vouches(uint32_t number, uint32_t user);

/*
 * Asks the agent to watch this process, which gets a slot for that. Also asks it to serve the files
 * of this device, of the server with this key. Asking again does no harm. Returns the server's
 * place; -ENOSPC: there is no slot or no place left. The agent answers later: see the functions
 * above.
 */
int ledger_agent_ask(uint64_t key, uint64_t device);

/* May the caller start an agent? Only one process does so at a time. Another one may when the first
 * took longer than a second, or has failed (ledger_agent_not_started()). */
bool ledger_agent_may_start(void);
void ledger_agent_not_started(void);

/* This process has something dirty, and had nothing dirty before: wakes an agent that sleeps.
 * Mostly a load. */
void ledger_agent_stir(void);
/* This process sent what a dead process left, and it is not committed: the agent, if there is one,
 * must commit it. Takes no lock. */
void ledger_agent_owes(void);

/* Notes why this process cannot leave writes behind, for the commands that show it; with a positive
 * errno, or 0. */
enum ledger_agent_lack {
    LEDGER_AGENT_LACKS_NOTHING,
    LEDGER_AGENT_LACKS_COMMAND, /* there is no command beside the library */
    LEDGER_AGENT_LACKS_PROCESS, /* no process can be started */
    LEDGER_AGENT_LACKS_REASON,  /* the agent ended at once, and its log says why */
    LEDGER_AGENT_LACKS_READY,   /* an agent has begun, and takes long to be ready */
    LEDGER_AGENT_LACKS_ANSWER,  /* the agent does not answer, or is not in contact with a server */
    LEDGER_AGENT_LACKS_PLACE,   /* there are too many servers, or processes */
    LEDGER_AGENT_LACKS_VOUCHER  /* it does not know that it may send as this user and groups */
};
void ledger_agent_lack(enum ledger_agent_lack what, int error);

/* The number of the agent, if this process is the agent; else 0. It is not in shared memory, which
 * other processes may have changed without right. */
extern uint32_t ledger_agent_self;

#endif
