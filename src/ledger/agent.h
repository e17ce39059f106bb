/*
 * The agent as the processes of a run directory see it, in shared memory. It is the process that
 * sends what another wrote behind and did not live to send (`directnfs agent`, fd/care.h).
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

/* ---- the writer ---- */

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

/* ---- the agent ---- */

/* Makes the calling thread the agent, as long as it lives. 0; -EBUSY: there is one. */
int ledger_agent_become(void);
/* It is ready: what is asked for from now on will be answered. */
void ledger_agent_ready(void);
/* It is no agent any more. Nothing is unsent that is in its care. */
void ledger_agent_resign(void);

/*
 * Is nothing dirty in any file? Then the agent may sleep until somebody rings, as
 * ledger_agent_stir() does. Else this is a moment: what was dirty at the moment before it, and
 * still is, is old. ledger_file_moment() is the last sequence of such data in a file.
 */
enum { LEDGER_MOMENTS = 64 }; /* one for each stripe */
struct ledger_moments {
    uint64_t now[LEDGER_MOMENTS];
    _Atomic uint64_t before[LEDGER_MOMENTS]; /* any thread may look */
};
bool ledger_agent_is_any_dirty(void);
bool ledger_agent_may_sleep(struct ledger_moments *moments);
/* From now on all that is dirty at this moment is old. */
void ledger_agent_all_is_old(struct ledger_moments *moments);
uint64_t ledger_file_moment(const struct ledger_file *file, const struct ledger_moments *moments);

/* Sleeps until something is asked for that was not when this function returned last; *seen starts
 * at 0. */
void ledger_agent_await(uint32_t *seen);

/*
 * Has the slot a process that wants to be watched, or was watched by an agent before? Its pid, and
 * whether this agent watches it. Slots are from 1 on, and below ledger_process_count().
 */
bool ledger_agent_asked(uint32_t slot, int *pid, bool *watched);
/* The caller will learn of the death of the process that has this slot: then it is watched. False:
 * it is not the one that ledger_agent_asked() told. */
bool ledger_agent_watch(uint32_t slot, int pid);
/* How many processes that this agent watches still have their slots. */
unsigned ledger_agent_watched(void);

/* The server that was asked for at this place, of LEDGER_AGENT_PLACES. False: none was. */
enum { LEDGER_AGENT_PLACES = 256 };
bool ledger_agent_server(unsigned place, uint64_t *key, uint64_t *device);
/* The agent is in contact with the server of this place; or will not be any more. */
void ledger_agent_serve(unsigned place, bool serves);
/* The agent may, and would, send as this user. */
void ledger_agent_vouch(uint32_t user);
/* While the agent watches nobody: the places of servers of which nothing is dirty or uncommitted
 * are free for others. Who had one asks again, as nobody serves it. */
void ledger_agent_give_back(void);

#endif
