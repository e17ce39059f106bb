/*
 * The agent, as a process sees it that is about to write behind: see ledger/agent.h. It is started
 * here, by the sender (behind.c), when none lives.
 */
#ifndef DURABLE_AGENT_H
#define DURABLE_AGENT_H

#include "mount/mount.h"

/* At the start of the program: keeps what it needs to start one later. */
void durable_agent_prepare(void);

/*
 * Would an agent that lives send what this process leaves behind on this mount, and with this
 * credential? Then its number (mount_auth_user()); a few loads. 0: it would not, and is wanted from
 * now on: true in *wanted (else left alone) tells that the sender must be woken, to see to it.
 */
uint32_t durable_agent_cares(struct mount *mount, const struct rpc_auth *auth, bool *wanted);

/* By the sender: is something wanted? Then: starts an agent if none lives, asks it for what is
 * wanted, and waits for its answers, for a second at most. What cannot be had is said on the log.
 */
bool durable_agent_is_wanted(void);
void durable_agent_seek(void);

void durable_agent_fork_child(void);

#endif
