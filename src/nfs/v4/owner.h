/* Our client owner: RFC 8881 section 2.4. Inside src/nfs only. */
#ifndef NFS_V4_OWNER_H
#define NFS_V4_OWNER_H

#include "nfs/v4/session.h"

/*
 * Names this process for as long as any server remembers it, and the user that it is now: a server
 * wants a client id to be of one. With a fence: that. Into session->owner; under `making`.
 */
void nfs4_owner_name(struct nfs_session *session, const struct rpc_auth *auth);

#endif
