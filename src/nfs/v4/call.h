/* One call of NFSv4.1, from building it to what must be done about its answer: inside src/nfs
 * only. */
#ifndef NFS_V4_CALL_H
#define NFS_V4_CALL_H

#include "nfs/call.h"
#include "nfs/v4/slots.h"
#include "nfs/v4/xdr.h"

/* State that belongs to no open: RFC 8881 section 8.2.3. */
extern const struct nfs4_stateid nfs4_anonymous;

/*
 * The outcome of an answered call, which is counted for the statistics.
 * 0: SEQUENCE and `first`, the operation after it, went well. The reader is at the results of
 * `first`.
 * -EAGAIN: begin the call again; if *at_once, without a pause.
 * -EBADFD: begin it again with another state.
 * Another -errno: the call's error, or the meaning of the status of SEQUENCE or of `first`.
 */
int nfs4_call_outcome(const struct rpc_call *call, enum nfs4_op first, struct xdr_reader *results,
                      bool *at_once);

/* What a status of a later operation of the call means; the results are those of
 * nfs4_call_outcome(). */
int nfs4_call_status(const struct rpc_call *call, uint32_t status, bool by_sequence, bool *at_once);

/* Finds the handle of a directory by its name in the server's tree, as there is no MOUNT. -EREMOTE:
 * it is at another server. */
int nfs4_walk(const struct nfs_client *client, const char *path, struct nfs_fh *fh);

/* As nfs_read_begin() and so on. */
void nfs4_read_begin(struct rpc_call *call, const struct nfs_client *client,
                     const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data);
int nfs4_read_end(const struct rpc_call *call, uint64_t offset, struct nfs_transfer *transfer);
void nfs4_write_begin(struct rpc_call *call, const struct nfs_client *client,
                      const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                      enum nfs_stable stable);
void nfs4_write_if_begin(struct rpc_call *call, const struct nfs_client *client,
                         const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                         const struct nfs_attr *expected);
int nfs4_write_if_end(const struct rpc_call *call, const struct nfs_attr *expected,
                      struct nfs_transfer *transfer);
int nfs4_write_end(const struct rpc_call *call, enum nfs_stable stable,
                   struct nfs_transfer *transfer);

#endif
