/*
 * Parts of messages that several procedures share (RFC 1813 sections 2.5 and 2.6). For v3/xdr.c,
 * and for the servers of the tests.
 */
#ifndef NFS_V3_PARTS_H
#define NFS_V3_PARTS_H

#include <errno.h>

#include "nfs/v3/types.h"
#include "nfs/xdr.h"

#define NFS3_ATTR_SIZE 84u /* fattr3 */
#define NFS3_WCC_SIZE  24u /* wcc_attr */

static inline int nfs3_put_result(const struct xdr_writer *w)
{
    return w->bad ? -EMSGSIZE : 0;
}

static inline int nfs3_get_result(const struct xdr_reader *r)
{
    return r->bad ? -EBADMSG : 0;
}

/* An enumeration with the values first..last. */
static inline uint32_t nfs3_get_enum(struct xdr_reader *r, uint32_t first, uint32_t last)
{
    uint32_t v = xdr_get_u32(r);

    if (v < first || v > last)
        xdr_reader_fail(r);
    return v;
}

static inline void nfs3_put_fh(struct xdr_writer *w, const struct nfs_fh *fh)
{
    if (fh->len > NFS3_FH_MAX) {
        w->bad = true;
        w->p = w->end;
        return;
    }
    xdr_put_opaque(w, fh->data, fh->len);
}

/* A handle without a byte names nothing: it is as wrong as one that is too long. */
static inline void nfs3_get_fh(struct xdr_reader *r, struct nfs_fh *fh)
{
    uint32_t len;
    const uint8_t *data = xdr_get_opaque(r, NFS3_FH_MAX, &len);

    if (!data || len == 0) {
        fh->len = 0;
        xdr_reader_fail(r);
        return;
    }
    fh->len = len;
    memcpy(fh->data, data, len);
}

static inline void nfs3_store_time(uint8_t *at, const struct nfs_time *t)
{
    xdr_store_u32(at, t->sec);
    xdr_store_u32(at + 4, t->nsec);
}

static inline void nfs3_load_time(const uint8_t *at, struct nfs_time *t)
{
    t->sec = xdr_load_u32(at);
    t->nsec = xdr_load_u32(at + 4);
}

static inline void nfs3_put_time(struct xdr_writer *w, const struct nfs_time *t)
{
    uint8_t *at = xdr_put_room(w, 8);

    if (at)
        nfs3_store_time(at, t);
}

static inline void nfs3_get_time(struct xdr_reader *r, struct nfs_time *t)
{
    const uint8_t *at = xdr_get_room(r, 8);

    if (at)
        nfs3_load_time(at, t);
}

#endif
