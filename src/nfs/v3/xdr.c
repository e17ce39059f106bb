#include "nfs/v3/xdr.h"
#include "nfs/v3/parts.h"

#include <errno.h>

#define READ_OK_SIZE 12u /* count, eof and the data length */

static int put_name(struct xdr_writer *w, const char *name)
{
    size_t len = strnlen(name, NFS_NAME_MAX + 1);

    if (len > NFS_NAME_MAX)
        return -ENAMETOOLONG;
    xdr_put_opaque(w, name, (uint32_t)len);
    return nfs3_put_result(w);
}

static uint64_t get_verifier(struct xdr_reader *r)
{
    const uint8_t *at = xdr_get_room(r, 8);
    uint64_t verifier = 0;

    if (at)
        memcpy(&verifier, at, 8);
    return verifier;
}

/* Some servers put the file type into mode, as st_mode has it: it is dropped here. */
static void get_attr(struct xdr_reader *r, struct nfs_attr *attr)
{
    const uint8_t *at = xdr_get_room(r, NFS3_ATTR_SIZE);

    if (!at)
        return;
    attr->type = xdr_load_u32(at);
    if (attr->type < NFS_REG || attr->type > NFS_FIFO) {
        xdr_reader_fail(r);
        return;
    }
    attr->mode = xdr_load_u32(at + 4) & 07777;
    attr->nlink = xdr_load_u32(at + 8);
    attr->uid = xdr_load_u32(at + 12);
    attr->gid = xdr_load_u32(at + 16);
    attr->size = xdr_load_u64(at + 20);
    attr->used = xdr_load_u64(at + 28);
    attr->rdev_major = xdr_load_u32(at + 36);
    attr->rdev_minor = xdr_load_u32(at + 40);
    attr->fsid = xdr_load_u64(at + 44);
    attr->fileid = xdr_load_u64(at + 52);
    attr->change = 0;
    nfs3_load_time(at + 60, &attr->atime);
    nfs3_load_time(at + 68, &attr->mtime);
    nfs3_load_time(at + 76, &attr->ctime);
}

static void get_post_attr(struct xdr_reader *r, struct nfs_post_attr *post)
{
    post->present = xdr_get_bool(r);
    if (post->present)
        get_attr(r, &post->attr);
}

static void get_wcc(struct xdr_reader *r, struct nfs_wcc *wcc)
{
    wcc->before_present = xdr_get_bool(r);
    if (wcc->before_present) {
        const uint8_t *at = xdr_get_room(r, NFS3_WCC_SIZE);

        if (!at)
            return;
        wcc->size = xdr_load_u64(at);
        nfs3_load_time(at + 8, &wcc->mtime);
        nfs3_load_time(at + 16, &wcc->ctime);
    }
    get_post_attr(r, &wcc->after);
}

static void put_set_time(struct xdr_writer *w, uint32_t how, const struct nfs_time *t)
{
    xdr_put_u32(w, how);
    if (how == NFS_SET_TO_CLIENT_TIME)
        nfs3_put_time(w, t);
}

static void put_sattr(struct xdr_writer *w, const struct nfs_sattr *sattr)
{
    xdr_put_bool(w, sattr->set_mode);
    if (sattr->set_mode)
        xdr_put_u32(w, sattr->mode);
    xdr_put_bool(w, sattr->set_uid);
    if (sattr->set_uid)
        xdr_put_u32(w, sattr->uid);
    xdr_put_bool(w, sattr->set_gid);
    if (sattr->set_gid)
        xdr_put_u32(w, sattr->gid);
    xdr_put_bool(w, sattr->set_size);
    if (sattr->set_size)
        xdr_put_u64(w, sattr->size);
    put_set_time(w, sattr->set_atime, &sattr->atime);
    put_set_time(w, sattr->set_mtime, &sattr->mtime);
}

/* Procedure 1, GETATTR, and the arguments that it shares with FSINFO. */

int nfs3_fh_args_put(struct xdr_writer *w, const struct nfs_fh *fh)
{
    nfs3_put_fh(w, fh);
    return nfs3_put_result(w);
}

int nfs3_getattr_res_get(struct xdr_reader *r, struct nfs3_getattr_res *res)
{
    res->status = xdr_get_u32(r);
    if (res->status == NFS3_OK)
        get_attr(r, &res->attr);
    return nfs3_get_result(r);
}

/* Procedure 2, SETATTR. */

int nfs3_setattr_args_put(struct xdr_writer *w, const struct nfs_fh *fh,
                          const struct nfs_sattr *attr, const struct nfs_time *guard_ctime)
{
    nfs3_put_fh(w, fh);
    put_sattr(w, attr);
    xdr_put_bool(w, guard_ctime != NULL);
    if (guard_ctime)
        nfs3_put_time(w, guard_ctime);
    return nfs3_put_result(w);
}

int nfs3_setattr_res_get(struct xdr_reader *r, struct nfs3_setattr_res *res)
{
    res->status = xdr_get_u32(r);
    get_wcc(r, &res->wcc);
    return nfs3_get_result(r);
}

/* Procedure 3, LOOKUP. */

int nfs3_lookup_args_put(struct xdr_writer *w, const struct nfs_fh *dir, const char *name)
{
    nfs3_put_fh(w, dir);
    return put_name(w, name);
}

int nfs3_lookup_res_get(struct xdr_reader *r, struct nfs3_lookup_res *res)
{
    res->status = xdr_get_u32(r);
    if (res->status == NFS3_OK) {
        nfs3_get_fh(r, &res->fh);
        get_post_attr(r, &res->attr);
    }
    get_post_attr(r, &res->dir_attr);
    return nfs3_get_result(r);
}

/* Procedure 4, ACCESS. */

int nfs3_access_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint32_t access)
{
    nfs3_put_fh(w, fh);
    xdr_put_u32(w, access);
    return nfs3_put_result(w);
}

int nfs3_access_res_get(struct xdr_reader *r, struct nfs3_access_res *res)
{
    res->status = xdr_get_u32(r);
    get_post_attr(r, &res->attr);
    if (res->status == NFS3_OK)
        res->access = xdr_get_u32(r);
    return nfs3_get_result(r);
}

/* Procedure 6, READ. */

int nfs3_read_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint64_t offset,
                       uint32_t count)
{
    nfs3_put_fh(w, fh);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
    return nfs3_put_result(w);
}

int nfs3_read_head(const uint8_t *results, size_t have, size_t *head_len, uint32_t *data_len)
{
    size_t need = 8; /* the status, and whether attributes follow */
    uint32_t status, present, count;
    const uint8_t *at;

    *head_len = need;
    *data_len = 0;
    if (have < need)
        return 0;
    status = xdr_load_u32(results);
    present = xdr_load_u32(results + 4);
    if (present > 1)
        return -EBADMSG;
    if (present)
        need += NFS3_ATTR_SIZE;
    at = results + need;
    if (status == NFS3_OK)
        need += READ_OK_SIZE;
    *head_len = need;
    if (have < need)
        return 0;
    if (status != NFS3_OK)
        return 1;

    count = xdr_load_u32(at);
    if (xdr_load_u32(at + 4) > 1 || xdr_load_u32(at + 8) != count)
        return -EBADMSG;
    *data_len = count;
    return 1;
}

int nfs3_read_res_get(struct xdr_reader *r, uint32_t asked, struct nfs3_read_res *res)
{
    res->status = xdr_get_u32(r);
    get_post_attr(r, &res->attr);
    if (res->status == NFS3_OK) {
        res->count = xdr_get_u32(r);
        res->eof = xdr_get_bool(r);
        if (xdr_get_u32(r) != res->count || res->count > asked)
            xdr_reader_fail(r);
    }
    return nfs3_get_result(r);
}

/* Procedure 7, WRITE. */

int nfs3_write_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint64_t offset,
                        uint32_t count, enum nfs_stable stable)
{
    nfs3_put_fh(w, fh);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
    xdr_put_u32(w, stable);
    xdr_put_u32(w, count);
    return nfs3_put_result(w);
}

int nfs3_write_res_get(struct xdr_reader *r, uint32_t asked, struct nfs3_write_res *res)
{
    res->status = xdr_get_u32(r);
    get_wcc(r, &res->wcc);
    if (res->status == NFS3_OK) {
        res->count = xdr_get_u32(r);
        if (res->count > asked)
            xdr_reader_fail(r);
        res->committed = nfs3_get_enum(r, NFS_UNSTABLE, NFS_FILE_SYNC);
        res->verifier = get_verifier(r);
    }
    return nfs3_get_result(r);
}

/* Procedure 19, FSINFO. */

int nfs3_fsinfo_res_get(struct xdr_reader *r, struct nfs_fsinfo_res *res)
{
    res->by_layouts = false; /* this version has none */
    res->status = xdr_get_u32(r);
    get_post_attr(r, &res->attr);
    if (res->status == NFS3_OK) {
        res->rtmax = xdr_get_u32(r);
        res->rtpref = xdr_get_u32(r);
        res->rtmult = xdr_get_u32(r);
        res->wtmax = xdr_get_u32(r);
        res->wtpref = xdr_get_u32(r);
        res->wtmult = xdr_get_u32(r);
        res->dtpref = xdr_get_u32(r);
        res->maxfilesize = xdr_get_u64(r);
        nfs3_get_time(r, &res->time_delta);
        res->properties = xdr_get_u32(r);
    }
    return nfs3_get_result(r);
}

/* Procedure 21, COMMIT. */

int nfs3_commit_args_put(struct xdr_writer *w, const struct nfs_fh *fh, uint64_t offset,
                         uint32_t count)
{
    nfs3_put_fh(w, fh);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
    return nfs3_put_result(w);
}

int nfs3_commit_res_get(struct xdr_reader *r, struct nfs3_commit_res *res)
{
    res->status = xdr_get_u32(r);
    get_wcc(r, &res->wcc);
    if (res->status == NFS3_OK)
        res->verifier = get_verifier(r);
    return nfs3_get_result(r);
}
