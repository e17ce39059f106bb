/*
 * The agent, as a process that is about to write behind sees it: see ledger/agent.h. When none
 * lives, the sender (behind.c) starts one, by this file.
 */
#ifndef DURABLE_AGENT_H
#define DURABLE_AGENT_H

#include "mount/mount.h"

/* At the start of the program: keeps what is needed to start an agent later. */
void durable_agent_prepare(void);

/*
 * Would a living agent send what this process leaves behind on this mount, with this credential? A
 * few loads.
 * The credential's number (mount_auth_user()): it would.
 * 0: it would not, and is wanted from now on. *wanted becomes true (else it is left alone) if the
 * sender must be woken, to see to it.
 */
uint32_t durable_agent_cares(struct mount *mount, const struct rpc_auth *auth, bool *wanted);

/*
 * Call this before a write that waits for its server becomes UNSTABLE there: makes sure that the
 * agent, if one lives, knows of this process, and so commits the data should the process die. Does
 * not wait. Mostly a few loads.
 */
void durable_agent_meet(struct mount *mount);

/* For the sender. Is something wanted of an agent? The second starts one if none lives, asks it for
 * what is wanted, and waits for its answers, for a second at most. The log says what cannot be had.
 */
bool durable_agent_is_wanted(void);
void durable_agent_seek(void);

/* In the child of fork(): forgets the agent that the parent sought. */
void durable_agent_fork_child(void);

#endif
