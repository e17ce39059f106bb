/*
 * The agent as the processes of a run directory see it, in shared memory. It is the process that
 * sends what another wrote behind and did not live to send (`directnfs agent`, file/care.h).
 *
 * A write may return before it is sent only if an agent lives that watches the process and is in
 * contact with the server. Each agent has a number, never given out again, so that what one agent
 * promised is not taken for a promise of the next.
 *
 * When a process dies its dirty data becomes the agent's that watched it: the file's `carer`. If
 * that agent is dead as well the data is a stray (strays.h).
 */
#ifndef LEDGER_AGENT_H
#define LEDGER_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/* The number of the agent that lives, and is ready; 0: there is none. Two loads. */
uint32_t ledger_agent_number(void);
/* Has somebody become the agent who is not dead? It may not be ready yet. A load. */
bool ledger_agent_is_there(void);
/* Its process; 0: there is none, or it is of other namespaces than the caller. */
uint32_t ledger_agent_pid(void);
/* Does this agent watch the calling process? Two loads. */
bool ledger_agent_watches(uint32_t number);
/* Is this agent in contact with the server of this key, which has, or had, this place? Some loads.
 */
bool ledger_agent_serves(uint32_t number, unsigned place, uint64_t key);

/* Would this agent send as this user (users.h)? A load. */
bool ledger_agent_vouches(uint32_t number, uint32_t user);

/*
 * Asks the agent to watch this process, which gets a slot for that, and to serve the files of this
 * device with this server's key. Asking again does no harm. Returns the server's place; -ENOSPC:
 * there is no slot or no place left. The answer is in the functions above, a while later.
 */
int ledger_agent_ask(uint64_t key, uint64_t device);

/* May the caller start an agent? Only one process does at a time, and another one only when that
 * took too long, or came to nothing. */
bool ledger_agent_may_start(void);
void ledger_agent_not_started(void);

/* Something is dirty after nothing of this process was: wakes an agent that sleeps. A load, for
 * most. */
void ledger_agent_stir(void);
/* Something that a dead process left was sent by this one, and is not committed: that is the
 * agent's, if there is one. Takes no lock. */
void ledger_agent_owes(void);

/* Notes why this process cannot leave writes behind, for who looks; with a positive errno, or 0. */
enum ledger_agent_lack {
    LEDGER_AGENT_LACKS_NOTHING,
    LEDGER_AGENT_LACKS_COMMAND, /* there is none beside the library */
    LEDGER_AGENT_LACKS_PROCESS, /* none can be started */
    LEDGER_AGENT_LACKS_REASON,  /* it ended at once, and its log says why */
    LEDGER_AGENT_LACKS_READY,   /* one has begun, and is not ready for long */
    LEDGER_AGENT_LACKS_ANSWER,  /* it does not answer, or is not in contact with a server */
    LEDGER_AGENT_LACKS_PLACE,   /* there are too many servers, or processes */
    LEDGER_AGENT_LACKS_VOUCHER  /* it does not know that it may send as this user and groups */
};
void ledger_agent_lack(enum ledger_agent_lack what, int error);

/* The number of the agent that this process is; 0: it is none. What is in shared memory may have
 * been changed by who should not. */
extern uint32_t ledger_agent_self;

#endif
