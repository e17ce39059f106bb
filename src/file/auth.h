/*
 * Credentials, and as whom another process may use them: see ledger/store/users.h. Inside src/file
 * only.
 *
 * The agent sends what a process left as the user, and with the groups, that this process had. It
 * does so only if the kernel itself has told it that a process of the run directory has, or had,
 * them: who can write to the shared memory could name any. So a process connects to the agent's
 * socket, which has no other use. Until the agent vouches for them its writes wait.
 */
#ifndef FILE_AUTH_H
#define FILE_AUTH_H

#include "file/mount.h"
#include "ledger/file.h"

/* The number of a credential, got from file_auth_now(), for all processes of the registry; 0: there
 * is no room. A load, but at first. */
uint32_t file_auth_user(const struct rpc_auth *auth);
/* The process goes over to another registry, where they have other numbers. */
void file_auth_move(void);

/* Shows the agent as whom this process writes. */
void file_auth_show(void);

/* ---- the agent ---- */

/* A socket that a process connects to, or -errno: then others can only be vouched for that are the
 * agent's own. It is gone with file_auth_deafen(). */
int file_auth_listen(void);
void file_auth_deafen(int socket);
/* Vouches for all that may be: as what the agent is itself, and those who have connected. */
void file_auth_vouch(int socket);

/* Is this process the agent? Then nobody else sends what the dead left. */
bool file_auth_is_agent(void);

/* What to send what was left of the file as: the credential of who wrote it, if this process is the
 * agent and has vouched for it; else `own`. */
const struct rpc_auth *file_auth_of_writer(struct ledger_file *file, const struct rpc_auth *own);

#endif
