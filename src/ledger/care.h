/*
 * What the agent itself does in shared memory (agent.h): it becomes the agent, watches processes,
 * and says which servers it is in contact with.
 */
#ifndef LEDGER_CARE_H
#define LEDGER_CARE_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

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
