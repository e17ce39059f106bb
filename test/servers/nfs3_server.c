/* See nfs3_server.h. */
#include "nfs3_server.h"

/* A NUL inside the name would cut it short for everybody who reads it as a C string. */
static void get_name(struct xdr_reader *r, char name[NFS_NAME_MAX + 1])
{
    uint32_t len;
    const uint8_t *data = xdr_get_opaque(r, NFS_NAME_MAX, &len);

    if (!data || memchr(data, 0, len)) {
        xdr_reader_fail(r);
        return;
    }
    memcpy(name, data, len);
    name[len] = '\0';
}

static void put_attr(struct xdr_writer *w, const struct nfs_attr *attr)
{
    uint8_t *at = xdr_put_room(w, NFS3_ATTR_SIZE);

    if (!at)
        return;
    xdr_store_u32(at, attr->type);
    xdr_store_u32(at + 4, attr->mode);
    xdr_store_u32(at + 8, attr->nlink);
    xdr_store_u32(at + 12, attr->uid);
    xdr_store_u32(at + 16, attr->gid);
    xdr_store_u64(at + 20, attr->size);
    xdr_store_u64(at + 28, attr->used);
    xdr_store_u32(at + 36, attr->rdev_major);
    xdr_store_u32(at + 40, attr->rdev_minor);
    xdr_store_u64(at + 44, attr->fsid);
    xdr_store_u64(at + 52, attr->fileid);
    nfs3_store_time(at + 60, &attr->atime);
    nfs3_store_time(at + 68, &attr->mtime);
    nfs3_store_time(at + 76, &attr->ctime);
}

static void put_post_attr(struct xdr_writer *w, const struct nfs_post_attr *post)
{
    xdr_put_bool(w, post->present);
    if (post->present)
        put_attr(w, &post->attr);
}

static void put_wcc(struct xdr_writer *w, const struct nfs_wcc *wcc)
{
    xdr_put_bool(w, wcc->before_present);
    if (wcc->before_present) {
        uint8_t *at = xdr_put_room(w, NFS3_WCC_SIZE);

        if (!at)
            return;
        xdr_store_u64(at, wcc->size);
        nfs3_store_time(at + 8, &wcc->mtime);
        nfs3_store_time(at + 16, &wcc->ctime);
    }
    put_post_attr(w, &wcc->after);
}

static uint32_t get_set_time(struct xdr_reader *r, struct nfs_time *t)
{
    uint32_t how = nfs3_get_enum(r, NFS_DONT_CHANGE, NFS_SET_TO_CLIENT_TIME);

    if (how == NFS_SET_TO_CLIENT_TIME)
        nfs3_get_time(r, t);
    return how;
}

static void get_sattr(struct xdr_reader *r, struct nfs_sattr *sattr)
{
    sattr->set_mode = xdr_get_bool(r);
    if (sattr->set_mode)
        sattr->mode = xdr_get_u32(r);
    sattr->set_uid = xdr_get_bool(r);
    if (sattr->set_uid)
        sattr->uid = xdr_get_u32(r);
    sattr->set_gid = xdr_get_bool(r);
    if (sattr->set_gid)
        sattr->gid = xdr_get_u32(r);
    sattr->set_size = xdr_get_bool(r);
    if (sattr->set_size)
        sattr->size = xdr_get_u64(r);
    sattr->set_atime = get_set_time(r, &sattr->atime);
    sattr->set_mtime = get_set_time(r, &sattr->mtime);
}

__attribute__((noinline)) int nfs3_fh_args_get(struct xdr_reader *r, struct nfs3_fh_args *args)
{
    nfs3_get_fh(r, &args->fh);
    return nfs3_get_result(r);
}

__attribute__((noinline)) int nfs3_getattr_res_put(struct xdr_writer *w,
                                                   const struct nfs3_getattr_res *res)
{
    xdr_put_u32(w, res->status);
    if (res->status == NFS3_OK)
        put_attr(w, &res->attr);
    return nfs3_put_result(w);
}

__attribute__((noinline)) int nfs3_setattr_args_get(struct xdr_reader *r,
                                                    struct nfs3_setattr_args *args)
{
    nfs3_get_fh(r, &args->fh);
    get_sattr(r, &args->attr);
    args->guard = xdr_get_bool(r);
    if (args->guard)
        nfs3_get_time(r, &args->guard_ctime);
    return nfs3_get_result(r);
}

__attribute__((noinline)) int nfs3_setattr_res_put(struct xdr_writer *w,
                                                   const struct nfs3_setattr_res *res)
{
    xdr_put_u32(w, res->status);
    put_wcc(w, &res->wcc);
    return nfs3_put_result(w);
}

__attribute__((noinline)) int nfs3_lookup_args_get(struct xdr_reader *r,
                                                   struct nfs3_lookup_args *args)
{
    nfs3_get_fh(r, &args->dir);
    get_name(r, args->name);
    return nfs3_get_result(r);
}

__attribute__((noinline)) int nfs3_lookup_res_put(struct xdr_writer *w,
                                                  const struct nfs3_lookup_res *res)
{
    xdr_put_u32(w, res->status);
    if (res->status == NFS3_OK) {
        nfs3_put_fh(w, &res->fh);
        put_post_attr(w, &res->attr);
    }
    put_post_attr(w, &res->dir_attr);
    return nfs3_put_result(w);
}

__attribute__((noinline)) int nfs3_access_args_get(struct xdr_reader *r,
                                                   struct nfs3_access_args *args)
{
    nfs3_get_fh(r, &args->fh);
    args->access = xdr_get_u32(r);
    return nfs3_get_result(r);
}

__attribute__((noinline)) int nfs3_access_res_put(struct xdr_writer *w,
                                                  const struct nfs3_access_res *res)
{
    xdr_put_u32(w, res->status);
    put_post_attr(w, &res->attr);
    if (res->status == NFS3_OK)
        xdr_put_u32(w, res->access);
    return nfs3_put_result(w);
}

__attribute__((noinline)) int nfs3_read_args_get(struct xdr_reader *r, struct nfs3_read_args *args)
{
    nfs3_get_fh(r, &args->fh);
    args->offset = xdr_get_u64(r);
    args->count = xdr_get_u32(r);
    return nfs3_get_result(r);
}

__attribute__((noinline)) int nfs3_read_res_put(struct xdr_writer *w,
                                                const struct nfs3_read_res *res)
{
    xdr_put_u32(w, res->status);
    put_post_attr(w, &res->attr);
    if (res->status == NFS3_OK) {
        xdr_put_u32(w, res->count);
        xdr_put_bool(w, res->eof);
        xdr_put_u32(w, res->count);
    }
    return nfs3_put_result(w);
}

__attribute__((noinline)) int nfs3_write_args_get(struct xdr_reader *r,
                                                  struct nfs3_write_args *args)
{
    nfs3_get_fh(r, &args->fh);
    args->offset = xdr_get_u64(r);
    args->count = xdr_get_u32(r);
    args->stable = nfs3_get_enum(r, NFS_UNSTABLE, NFS_FILE_SYNC);
    if (xdr_get_u32(r) != args->count)
        xdr_reader_fail(r);
    return nfs3_get_result(r);
}

__attribute__((noinline)) int nfs3_write_res_put(struct xdr_writer *w,
                                                 const struct nfs3_write_res *res)
{
    xdr_put_u32(w, res->status);
    put_wcc(w, &res->wcc);
    if (res->status == NFS3_OK) {
        xdr_put_u32(w, res->count);
        xdr_put_u32(w, res->committed);
        put_verifier(w, res->verifier);
    }
    return nfs3_put_result(w);
}

__attribute__((noinline)) int nfs3_fsinfo_res_put(struct xdr_writer *w,
                                                  const struct nfs_fsinfo_res *res)
{
    xdr_put_u32(w, res->status);
    put_post_attr(w, &res->attr);
    if (res->status == NFS3_OK) {
        xdr_put_u32(w, res->rtmax);
        xdr_put_u32(w, res->rtpref);
        xdr_put_u32(w, res->rtmult);
        xdr_put_u32(w, res->wtmax);
        xdr_put_u32(w, res->wtpref);
        xdr_put_u32(w, res->wtmult);
        xdr_put_u32(w, res->dtpref);
        xdr_put_u64(w, res->maxfilesize);
        nfs3_put_time(w, &res->time_delta);
        xdr_put_u32(w, res->properties);
    }
    return nfs3_put_result(w);
}

__attribute__((noinline)) int nfs3_commit_args_get(struct xdr_reader *r,
                                                   struct nfs3_commit_args *args)
{
    nfs3_get_fh(r, &args->fh);
    args->offset = xdr_get_u64(r);
    args->count = xdr_get_u32(r);
    return nfs3_get_result(r);
}

__attribute__((noinline)) int nfs3_commit_res_put(struct xdr_writer *w,
                                                  const struct nfs3_commit_res *res)
{
    xdr_put_u32(w, res->status);
    put_wcc(w, &res->wcc);
    if (res->status == NFS3_OK)
        put_verifier(w, res->verifier);
    return nfs3_put_result(w);
}
