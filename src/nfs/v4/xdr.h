/*
 * COMPOUNDs of NFS version 4.1 to and from the wire (RFC 8881 chapter 18, XDR of RFC 5662).
 *
 * A request is put operation by operation after nfs4_put_compound(). A reply is got in that order
 * after nfs4_get_compound(). What does not fit makes the writer bad, and what is impossible makes
 * the reader bad: a caller looks once, at the end (nfs4_get_result()). nfs4_get_op() returns the
 * status of the next operation, which must be the one named. The results follow only after NFS4_OK:
 * an operation that fails is the last of its reply.
 *
 * A reply is foreign bytes. Whatever they are, nothing outside the reader's buffer is read, and no
 * length counts that was not asked for.
 */
#ifndef NFS_V4_XDR_H
#define NFS_V4_XDR_H

#include <errno.h>

#include "nfs/v4/types.h"
#include "nfs/xdr.h"

/* ---- requests ---- */

/* The number of operations must be told at once. The tag is empty. */
void nfs4_put_compound(struct xdr_writer *w, uint32_t operations);

/* Operations without arguments: PUTROOTFH, GETFH. */
void nfs4_put_op(struct xdr_writer *w, enum nfs4_op op);

/* Slot, sequence and highest are not known yet. nfs4_stamp_sequence() writes them later, to where
 * this returns (NULL: there is no room). */
uint8_t *nfs4_put_sequence(struct xdr_writer *w, const uint8_t session[NFS4_SESSION_ID], bool keep);
void nfs4_stamp_sequence(uint8_t *at, uint32_t sequence, uint32_t slot, uint32_t highest);
/* Did nfs4_stamp_sequence() write this there? */
bool nfs4_is_stamp(const uint8_t *at, uint32_t sequence, uint32_t slot);

void nfs4_put_fh(struct xdr_writer *w, const struct nfs_fh *fh); /* PUTFH */
void nfs4_put_lookup(struct xdr_writer *w, const char *name, size_t length);
void nfs4_put_access(struct xdr_writer *w, uint32_t access);
void nfs4_put_getattr(struct xdr_writer *w, uint64_t attributes);
void nfs4_put_verify_change(struct xdr_writer *w, uint64_t change); /* VERIFY of this attribute */
void nfs4_put_read(struct xdr_writer *w, const struct nfs4_stateid *stateid, uint64_t offset,
                   uint32_t count);
/* Up to the length of the data, which follow from the caller's memory, padded. */
void nfs4_put_write(struct xdr_writer *w, const struct nfs4_stateid *stateid, uint64_t offset,
                    uint32_t count, enum nfs_stable stable);
void nfs4_put_commit(struct xdr_writer *w, uint64_t offset, uint32_t count);
void nfs4_put_set_size(struct xdr_writer *w, const struct nfs4_stateid *stateid, uint64_t size);
/* `owner`: up to NFS4_OPAQUE_MAX bytes that name the opener. `share`: enum nfs4_share. */
void nfs4_put_open(struct xdr_writer *w, uint64_t client, const void *owner, uint32_t length,
                   uint32_t share);
void nfs4_put_close(struct xdr_writer *w, const struct nfs4_stateid *stateid);
/* SECINFO_NO_NAME for the current handle, or SECINFO for a name in it. */
void nfs4_put_secinfo(struct xdr_writer *w, const char *name, size_t length);

void nfs4_put_exchange_id(struct xdr_writer *w, uint64_t verifier, const void *owner,
                          uint32_t length);
/* The back channel is of no use. */
void nfs4_put_create_session(struct xdr_writer *w, uint64_t client, uint32_t sequence,
                             const struct nfs4_channel *fore);
/* Binds the fore channel. */
void nfs4_put_bind(struct xdr_writer *w, const uint8_t session[NFS4_SESSION_ID]);
void nfs4_put_destroy_session(struct xdr_writer *w, const uint8_t session[NFS4_SESSION_ID]);
void nfs4_put_destroy_client(struct xdr_writer *w, uint64_t client);
void nfs4_put_reclaim_complete(struct xdr_writer *w);

/* ---- replies ---- */

static inline int nfs4_get_result(const struct xdr_reader *r)
{
    return r->bad ? -EBADMSG : 0;
}

/* The status of the whole reply, which is that of its last operation. */
uint32_t nfs4_get_compound(struct xdr_reader *r, uint32_t *operations);
/* Returns NFS4ERR_BADXDR if the reader is bad. */
uint32_t nfs4_get_op(struct xdr_reader *r, enum nfs4_op op);

void nfs4_get_sequence(struct xdr_reader *r, struct nfs4_sequence *sequence);
void nfs4_get_fh(struct xdr_reader *r, struct nfs_fh *fh); /* GETFH */
void nfs4_get_access(struct xdr_reader *r, uint32_t *access);
/* `asked`: what the reply may have; `needed`: what it must have. */
void nfs4_get_attributes(struct xdr_reader *r, uint64_t asked, uint64_t needed,
                         struct nfs4_attributes *attributes);
/* Leaves the reader where the payload of *count bytes begins. */
void nfs4_get_read(struct xdr_reader *r, uint32_t asked, uint32_t *count, bool *eof);
void nfs4_get_write(struct xdr_reader *r, uint32_t asked, uint32_t *count, uint32_t *committed,
                    uint64_t *verifier);
void nfs4_get_commit(struct xdr_reader *r, uint64_t *verifier);
/* SETATTR tells what it set even when it fails: use this whatever nfs4_get_op() returned. */
void nfs4_get_set(struct xdr_reader *r);
void nfs4_get_open(struct xdr_reader *r, struct nfs4_stateid *stateid);
void nfs4_get_close(struct xdr_reader *r);
/* Of either. At most NFS_FLAVORS_MAX flavors, as MOUNT numbers them; *count: how many. */
void nfs4_get_secinfo(struct xdr_reader *r, uint32_t *flavors, uint32_t *count);
void nfs4_get_exchange_id(struct xdr_reader *r, struct nfs4_exchange_id *exchange);
void nfs4_get_create_session(struct xdr_reader *r, struct nfs4_create_session *session);
void nfs4_get_bind(struct xdr_reader *r, uint8_t session[NFS4_SESSION_ID]);

/* As nfs3_read_head(), for SEQUENCE, PUTFH, GETATTR, READ. */
int nfs4_read_head(const uint8_t *results, size_t have, size_t *head_len, uint32_t *data_len);

/* The results of an EXCHANGE_ID may be long: all of them are payload. See rpc_payload_find. */
int nfs4_exchange_id_find(const uint8_t *results, size_t have, size_t *head, uint32_t *length);

#endif
