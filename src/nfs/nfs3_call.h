/* One call of NFSv3, from building it to its status: inside src/nfs only. */
#ifndef NFS_NFS3_CALL_H
#define NFS_NFS3_CALL_H

#include "nfs/nfs.h"
#include "nfs/nfs3_types.h"
#include "nfs/xdr.h"

/* Starts a call and points the writer at its arguments, which rpc_call_end() ends. */
void nfs3_call_begin(struct rpc_call *call, const struct nfs_client *client,
                     enum nfs3_proc procedure, struct xdr_writer *arguments);

/*
 * The outcome of an answered call, counted for the statistics: the RPC's error or the meaning of
 * the status at the start of the results. Points the reader at the results (status included).
 */
int nfs3_call_outcome(const struct rpc_call *call, enum nfs3_proc procedure,
                      struct xdr_reader *results);

/* The answer says that it went well, and something that cannot be: `what`. Said on the log once a
 * minute for a server. */
void nfs3_call_senseless(const struct rpc_call *call, enum nfs3_proc procedure, const char *what);

/* Was the call sent more than once? Then the server may have carried it out more than once, and
 * only the last answer is known. */
bool nfs3_call_repeated(const struct rpc_call *call);

/* The pause before a call that was answered JUKEBOX is sent again; `*waits` counts them. */
void nfs3_jukebox_pause(const struct nfs_client *client, unsigned *waits);

#endif
