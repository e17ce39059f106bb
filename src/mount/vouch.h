/*
 * For which users and groups the agent vouches: see ledger/store/users.h.
 *
 * The agent sends what a process left behind with that process's user and groups. It does so only
 * if the kernel itself has told it that a process of the run directory has, or had, them: whatever
 * can write to the shared memory could name any. So a process connects to the agent's socket, which
 * has no other use. Its writes wait for the server until the agent vouches for it.
 */
#ifndef MOUNT_VOUCH_H
#define MOUNT_VOUCH_H

#include "mount/mount.h"
#include "ledger/file.h"

/* Shows the agent the user and groups of this process. */
void mount_vouch_show(void);

/* ---- the agent ---- */

/* The socket to which processes connect. -errno: the agent can vouch only for its own user and
 * groups. mount_vouch_deafen() removes it. */
int mount_vouch_listen(void);
void mount_vouch_deafen(int socket);
/* Vouches for all users and groups that the kernel has told of: the agent's own, and those of
 * processes that have connected. */
void mount_vouch_all(int socket);

/* Is this process the agent? Then nobody else sends what the dead left. */
bool mount_vouch_is_agent(void);

/* The credential with which to send what a process left of the file: its own, if this process is
 * the agent and has vouched for it; else `own`. */
const struct rpc_auth *mount_vouch_of_writer(const struct mount *mount, struct ledger_file *file,
                                             const struct rpc_auth *own);

#endif
