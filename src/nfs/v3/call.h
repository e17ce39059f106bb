/* One call of NFSv3, from building it to its status: inside src/nfs only. */
#ifndef NFS_V3_CALL_H
#define NFS_V3_CALL_H

#include "nfs/call.h"
#include "nfs/xdr.h"

/* Starts a call and points the writer at its arguments. rpc_call_end() ends them. */
void nfs3_call_begin(struct rpc_call *call, const struct nfs_client *client,
                     enum nfs_procedure procedure, struct xdr_writer *arguments);

/*
 * The outcome of an answered call, which is counted for the statistics: the error of the RPC, or
 * the meaning of the status at the start of the results. Points the reader at the results, with the
 * status.
 */
int nfs3_call_outcome(const struct rpc_call *call, struct xdr_reader *results);

/* As nfs_read_begin() and so on. */
void nfs3_read_begin(struct rpc_call *call, const struct nfs_client *client,
                     const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data);
int nfs3_read_end(const struct rpc_call *call, uint64_t offset, struct nfs_transfer *transfer);
void nfs3_write_begin(struct rpc_call *call, const struct nfs_client *client,
                      const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                      enum nfs_stable stable);
int nfs3_write_end(const struct rpc_call *call, enum nfs_stable stable,
                   struct nfs_transfer *transfer);

#endif
