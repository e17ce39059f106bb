/* Slots of a session, and the calls that have one: inside src/nfs only. */
#ifndef NFS_V4_SLOTS_H
#define NFS_V4_SLOTS_H

#include "nfs/v4/session.h"
#include "nfs/xdr.h"

/* How src/rpc asks for a slot, and gives it back: the first member of a session. */
extern const struct rpc_exact nfs4_slots_exact;

/* The session is a new one: all slots of it are free. With a fence it is shut. */
void nfs4_slots_reset(struct nfs_session *session, const struct nfs4_create_session *made);

/* It may be used by all: the host was found to have the fence when the session was there. Until
 * then calls that were begun in the one before go out to be refused. */
void nfs4_slots_open(struct nfs_session *session);

/* How many calls could have one now. Under its lock. */
uint32_t nfs4_slots_free(const struct nfs_session *session);

/* Into the statistics, where the session is shown. Under its lock. */
void nfs4_slots_show(const struct nfs_session *session);

/*
 * Starts a call of the client's session: a COMPOUND of SEQUENCE and `operations` more, which are to
 * be put; counted as `procedure`. `keep`: the server shall keep the reply for copies of the call;
 * without it, it may say that it has none.
 */
void nfs4_slots_begin(struct rpc_call *call, const struct nfs_client *client, unsigned procedure,
                      bool keep, uint32_t operations, struct xdr_writer *w);

#endif
