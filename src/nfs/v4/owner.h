/* Our client owner: RFC 8881 section 2.4. Inside src/nfs only. */
#ifndef NFS_V4_OWNER_H
#define NFS_V4_OWNER_H

#include "nfs/v4/session.h"

/*
 * Writes a name to session->owner; under `making`. It names this process for as long as any server
 * remembers it, and the user that the process is now: for a server, a client id belongs to one
 * user. With a fence it names the fence.
 */
void nfs4_owner_name(struct nfs_session *session, const struct rpc_auth *auth);

#endif
