/*
 * As whom another process may use credentials: see ledger/users.h.
 *
 * The agent sends what a process left as the user, and with the groups, that this process had. It
 * does so only if the kernel itself has told it that a process of the run directory has, or had,
 * them: who can write to the shared memory could name any. So a process connects to the agent's
 * socket, which has no other use. Until the agent vouches for them its writes wait.
 */
#ifndef MOUNT_VOUCH_H
#define MOUNT_VOUCH_H

#include "mount/mount.h"
#include "ledger/file.h"

/* Shows the agent as whom this process writes. */
void mount_vouch_show(void);

/* ---- the agent ---- */

/* A socket that a process connects to, or -errno: then others can only be vouched for that are the
 * agent's own. It is gone with mount_vouch_deafen(). */
int mount_vouch_listen(void);
void mount_vouch_deafen(int socket);
/* Vouches for all that may be: as what the agent is itself, and those who have connected. */
void mount_vouch_all(int socket);

/* Is this process the agent? Then nobody else sends what the dead left. */
bool mount_vouch_is_agent(void);

/* What to send what was left of the file as: the credential of who wrote it, if this process is the
 * agent and has vouched for it; else `own`. */
const struct rpc_auth *mount_vouch_of_writer(struct ledger_file *file, const struct rpc_auth *own);

#endif
