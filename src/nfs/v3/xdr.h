/*
 * NFS version 3 procedures to and from the wire (RFC 1813 section 3.3): puts arguments, gets
 * results. NULL has neither.
 *
 * This codes the part after the header of an RPC call or reply. Encoders return 0, or -EMSGSIZE:
 * the writer is too small, and then bad. A buffer of NFS3_ARGS_MAX or NFS3_RES_MAX bytes has room
 * for any of them. Decoders return 0, or -EBADMSG: then nothing in the structure counts. Decoders
 * ignore bytes after the message: the caller sees them in xdr_reader_left(). The NFS status of a
 * reply is in the result, not in the return value.
 */
#ifndef NFS_V3_XDR_H
#define NFS_V3_XDR_H

#include "nfs/v3/types.h"
#include "nfs/xdr.h"

/* Upper bounds in bytes, without the payload of READ and WRITE. */
#define NFS3_ARGS_MAX       328u /* LOOKUP: handle 68, name 260 */
#define NFS3_RES_MAX        248u /* LOOKUP: status 4, handle 68, attributes 88 and 88 */
#define NFS3_READ_ARGS_MAX  80u
#define NFS3_READ_HEAD_MAX  104u /* READ results up to the payload */
#define NFS3_WRITE_ARGS_MAX 88u  /* WRITE arguments up to the payload */

/* GETATTR and FSINFO: the arguments are one file handle. */
int nfs3_fh_args_put(struct xdr_writer *w, const struct nfs_fh *fh);

int nfs3_getattr_res_get(struct xdr_reader *r, struct nfs3_getattr_res *res);

/* guard_ctime: NULL, or the ctime that the file must have (else NFS3ERR_NOT_SYNC). */
int nfs3_setattr_args_put(struct xdr_writer *w, const struct nfs_fh *fh,
                          const struct nfs_sattr *attr, const struct nfs_time *guard_ctime);
int nfs3_setattr_res_get(struct xdr_reader *r, struct nfs3_setattr_res *res);

/* name: terminated, at most NFS_NAME_MAX bytes, else -ENAMETOOLONG. */
int nfs3_lookup_args_put(struct xdr_writer *w, const struct nfs_fh *dir, const char *name);
int nfs3_lookup_res_get(struct xdr_reader *r, struct nfs3_lookup_res *res);

int nfs3_access_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint32_t access);
int nfs3_access_res_get(struct xdr_reader *r, struct nfs3_access_res *res);

int nfs3_read_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint64_t offset,
                       uint32_t count);

/*
 * Finds the payload in the results of a READ. Only the first `have` bytes of the results have
 * arrived (`have` may be 0). Returns
 *   1         the payload of *data_len bytes (then xdr_pad(*data_len) bytes of padding) starts
 *             *head_len bytes into the results. With a status other than OK there is no payload:
 *             *data_len is 0, and *head_len is the length of the results
 *   0         more bytes are needed: wait for *head_len bytes, which is more than `have` and never
 *             more than the length of the head; *data_len is 0
 *   -EBADMSG  this is no READ result
 * *data_len comes from the server: the caller must compare it with what was asked, and with the
 * length of the record.
 */
int nfs3_read_head(const uint8_t *results, size_t have, size_t *head_len, uint32_t *data_len);

/*
 * Gets the results up to and including the data length. The caller moves the payload (res->count
 * bytes) and its padding. It demands count <= asked and data length == count. It leaves the reader
 * where the payload starts, whether or not the reader's buffer has the payload.
 */
int nfs3_read_res_get(struct xdr_reader *r, uint32_t asked, struct nfs3_read_res *res);

/* Puts the arguments up to and including the data length. `count` bytes of payload and
 * xdr_pad(count) bytes of padding follow from the caller's memory. */
int nfs3_write_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint64_t offset,
                        uint32_t count, enum nfs_stable stable);

/* Demands count <= asked and a known stable_how. The caller judges a `committed` that is weaker
 * than asked (RFC 1813 section 3.3.7 forbids it), and a count of 0. */
int nfs3_write_res_get(struct xdr_reader *r, uint32_t asked, struct nfs3_write_res *res);

int nfs3_fsinfo_res_get(struct xdr_reader *r, struct nfs_fsinfo_res *res);

int nfs3_commit_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint64_t offset,
                         uint32_t count);
int nfs3_commit_res_get(struct xdr_reader *r, struct nfs3_commit_res *res);

#endif
