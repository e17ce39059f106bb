/* Slots of a session, and the calls that have one: inside src/nfs only. */
#ifndef NFS_V4_SLOTS_H
#define NFS_V4_SLOTS_H

#include "nfs/v4/session.h"
#include "nfs/xdr.h"

/* How src/rpc gets a slot and gives it back: the first member of a session. */
extern const struct rpc_exact nfs4_slots_exact;

/* The session is a new one: all its slots are free. With a fence it is shut. */
void nfs4_slots_reset(struct nfs_session *session, const struct nfs4_create_session *made);

/* Opens a shut session for all calls: the host still had the fence when the session was made. Until
 * then, calls that were begun in the session before go out to be refused. */
void nfs4_slots_open(struct nfs_session *session);

/* How many calls could get a slot now. Under its lock. */
uint32_t nfs4_slots_free(const struct nfs_session *session);

/* Shows the slots in the statistics, if the session is shown there. Under its lock. */
void nfs4_slots_show(const struct nfs_session *session);

/*
 * Starts a call in the client's session: a COMPOUND of SEQUENCE and `operations` more, which the
 * caller puts. It is counted as `procedure`. `keep`: the server shall keep the reply for copies of
 * the call. Without it the server may say that it has none.
 */
void nfs4_slots_begin(struct rpc_call *call, const struct nfs_client *client, unsigned procedure,
                      bool keep, uint32_t operations, struct xdr_writer *w);

#endif
