/*
 * What the agent itself does in shared memory (agent.h): it becomes the agent, watches processes,
 * and says which servers it is in contact with.
 */
#ifndef LEDGER_CARE_H
#define LEDGER_CARE_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/* Makes the calling thread the agent, as long as it lives. 0; -EBUSY: there is another one. */
int ledger_agent_become(void);
/* The agent is ready: what processes ask for from now on will be answered. */
void ledger_agent_ready(void);
/* This process is no agent any more. It has nothing unsent in its care. */
void ledger_agent_resign(void);

/*
 * The agent takes moments: what was dirty at one moment, and still is at the next, is old.
 *
 * ledger_agent_may_sleep(): true if nothing is dirty in any file. Then the agent may sleep until a
 * process rings, as ledger_agent_stir() does. Else this call was a moment. ledger_file_moment():
 * the last sequence of old data in a file.
 */
enum { LEDGER_MOMENTS = 64 }; /* one for each stripe */
struct ledger_moments {
    uint64_t now[LEDGER_MOMENTS];
    _Atomic uint64_t before[LEDGER_MOMENTS]; /* any thread may load it */
};
bool ledger_agent_is_any_dirty(void);
bool ledger_agent_may_sleep(struct ledger_moments *moments);
/* All that is dirty now is old from now on. */
void ledger_agent_all_is_old(struct ledger_moments *moments);
uint64_t ledger_file_moment(const struct ledger_file *file, const struct ledger_moments *moments);

/* Sleeps until a process asks for something new since this function last returned. *seen starts at
 * 0. */
void ledger_agent_await(uint32_t *seen);

/*
 * Does a process in this slot want to be watched, or was it watched by an earlier agent? *pid: its
 * pid. *watched: does this agent watch it? Slots are from 1 to ledger_process_count() - 1.
 */
bool ledger_agent_asked(uint32_t slot, int *pid, bool *watched);
/* From now on the process in this slot is watched: the caller will learn of its death. False: it is
 * not the process that ledger_agent_asked() told of. */
bool ledger_agent_watch(uint32_t slot, int pid);
/* How many processes with a slot this agent watches. */
unsigned ledger_agent_watched(void);

/* The server that a process asked for at this place, below LEDGER_AGENT_PLACES. False: none did. */
enum { LEDGER_AGENT_PLACES = 256 };
bool ledger_agent_server(unsigned place, uint64_t *key, uint64_t *device);
/* `serves`: the agent is in contact with the server of this place. Else it is not any more. */
void ledger_agent_serve(unsigned place, bool serves);
/* The agent vouches for this user: it may, and would, send as this user. */
void ledger_agent_vouch(uint32_t user);
/* Frees the places of servers that have nothing dirty or uncommitted. Only while the agent watches
 * no process. A process that had such a place asks again, as no agent serves it. */
void ledger_agent_give_back(void);

#endif
