#include "nfs/nfs3_xdr.h"

#include <errno.h>

#define ATTR_SIZE    84u /* fattr3 */
#define WCC_SIZE     24u /* wcc_attr */
#define READ_OK_SIZE 12u /* count, eof and the data length */

static int put_result(const struct xdr_writer *w)
{
    return w->bad ? -EMSGSIZE : 0;
}

static int get_result(const struct xdr_reader *r)
{
    return r->bad ? -EBADMSG : 0;
}

/* An enumeration whose values are first..last. */
static uint32_t get_enum(struct xdr_reader *r, uint32_t first, uint32_t last)
{
    uint32_t v = xdr_get_u32(r);

    if (v < first || v > last)
        xdr_reader_fail(r);
    return v;
}

/* Parts that several procedures share (RFC 1813 section 2.5 and 2.6). */

static void put_fh(struct xdr_writer *w, const struct nfs3_fh *fh)
{
    if (fh->len > NFS3_FH_MAX) {
        w->bad = true;
        w->p = w->end;
        return;
    }
    xdr_put_opaque(w, fh->data, fh->len);
}

/* A handle without a byte names nothing, so it is as wrong as one that is too long. */
static void get_fh(struct xdr_reader *r, struct nfs3_fh *fh)
{
    uint32_t len;
    const uint8_t *data = xdr_get_opaque(r, NFS3_FH_MAX, &len);

    if (!data || len == 0) {
        xdr_reader_fail(r);
        return;
    }
    fh->len = len;
    memcpy(fh->data, data, len);
}

static int put_name(struct xdr_writer *w, const char *name)
{
    size_t len = strnlen(name, NFS3_NAME_MAX + 1);

    if (len > NFS3_NAME_MAX)
        return -ENAMETOOLONG;
    xdr_put_opaque(w, name, (uint32_t)len);
    return put_result(w);
}

/* A NUL inside the name would cut it short for everybody who reads it as a C string. */
static void get_name(struct xdr_reader *r, char name[NFS3_NAME_MAX + 1])
{
    uint32_t len;
    const uint8_t *data = xdr_get_opaque(r, NFS3_NAME_MAX, &len);

    if (!data || memchr(data, 0, len)) {
        xdr_reader_fail(r);
        return;
    }
    memcpy(name, data, len);
    name[len] = '\0';
}

static void store_time(uint8_t *at, const struct nfs3_time *t)
{
    xdr_store_u32(at, t->sec);
    xdr_store_u32(at + 4, t->nsec);
}

static void load_time(const uint8_t *at, struct nfs3_time *t)
{
    t->sec = xdr_load_u32(at);
    t->nsec = xdr_load_u32(at + 4);
}

static void put_time(struct xdr_writer *w, const struct nfs3_time *t)
{
    uint8_t *at = xdr_put_room(w, 8);

    if (at)
        store_time(at, t);
}

static void get_time(struct xdr_reader *r, struct nfs3_time *t)
{
    const uint8_t *at = xdr_get_room(r, 8);

    if (at)
        load_time(at, t);
}

static void put_verifier(struct xdr_writer *w, uint64_t verifier)
{
    xdr_put_fixed(w, &verifier, 8);
}

static uint64_t get_verifier(struct xdr_reader *r)
{
    const uint8_t *at = xdr_get_room(r, 8);
    uint64_t verifier = 0;

    if (at)
        memcpy(&verifier, at, 8);
    return verifier;
}

static void put_attr(struct xdr_writer *w, const struct nfs3_attr *attr)
{
    uint8_t *at = xdr_put_room(w, ATTR_SIZE);

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
    store_time(at + 60, &attr->atime);
    store_time(at + 68, &attr->mtime);
    store_time(at + 76, &attr->ctime);
}

/* Some servers put the file type into mode as st_mode has it; it is dropped here. */
static void get_attr(struct xdr_reader *r, struct nfs3_attr *attr)
{
    const uint8_t *at = xdr_get_room(r, ATTR_SIZE);

    if (!at)
        return;
    attr->type = xdr_load_u32(at);
    if (attr->type < NFS3_REG || attr->type > NFS3_FIFO) {
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
    load_time(at + 60, &attr->atime);
    load_time(at + 68, &attr->mtime);
    load_time(at + 76, &attr->ctime);
}

static void put_post_attr(struct xdr_writer *w, const struct nfs3_post_attr *post)
{
    xdr_put_bool(w, post->present);
    if (post->present)
        put_attr(w, &post->attr);
}

static void get_post_attr(struct xdr_reader *r, struct nfs3_post_attr *post)
{
    post->present = xdr_get_bool(r);
    if (post->present)
        get_attr(r, &post->attr);
}

static void put_wcc(struct xdr_writer *w, const struct nfs3_wcc *wcc)
{
    xdr_put_bool(w, wcc->before_present);
    if (wcc->before_present) {
        uint8_t *at = xdr_put_room(w, WCC_SIZE);

        if (!at)
            return;
        xdr_store_u64(at, wcc->size);
        store_time(at + 8, &wcc->mtime);
        store_time(at + 16, &wcc->ctime);
    }
    put_post_attr(w, &wcc->after);
}

static void get_wcc(struct xdr_reader *r, struct nfs3_wcc *wcc)
{
    wcc->before_present = xdr_get_bool(r);
    if (wcc->before_present) {
        const uint8_t *at = xdr_get_room(r, WCC_SIZE);

        if (!at)
            return;
        wcc->size = xdr_load_u64(at);
        load_time(at + 8, &wcc->mtime);
        load_time(at + 16, &wcc->ctime);
    }
    get_post_attr(r, &wcc->after);
}

static void put_set_time(struct xdr_writer *w, uint32_t how, const struct nfs3_time *t)
{
    xdr_put_u32(w, how);
    if (how == NFS3_SET_TO_CLIENT_TIME)
        put_time(w, t);
}

static uint32_t get_set_time(struct xdr_reader *r, struct nfs3_time *t)
{
    uint32_t how = get_enum(r, NFS3_DONT_CHANGE, NFS3_SET_TO_CLIENT_TIME);

    if (how == NFS3_SET_TO_CLIENT_TIME)
        get_time(r, t);
    return how;
}

static void put_sattr(struct xdr_writer *w, const struct nfs3_sattr *sattr)
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

static void get_sattr(struct xdr_reader *r, struct nfs3_sattr *sattr)
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

/* Procedure 1, GETATTR, and the arguments it shares with FSSTAT, FSINFO and PATHCONF. */

int nfs3_fh_args_put(struct xdr_writer *w, const struct nfs3_fh *fh)
{
    put_fh(w, fh);
    return put_result(w);
}

int nfs3_fh_args_get(struct xdr_reader *r, struct nfs3_fh_args *args)
{
    get_fh(r, &args->fh);
    return get_result(r);
}

int nfs3_getattr_res_put(struct xdr_writer *w, const struct nfs3_getattr_res *res)
{
    xdr_put_u32(w, res->status);
    if (res->status == NFS3_OK)
        put_attr(w, &res->attr);
    return put_result(w);
}

int nfs3_getattr_res_get(struct xdr_reader *r, struct nfs3_getattr_res *res)
{
    res->status = xdr_get_u32(r);
    if (res->status == NFS3_OK)
        get_attr(r, &res->attr);
    return get_result(r);
}

/* Procedure 2, SETATTR. */

int nfs3_setattr_args_put(struct xdr_writer *w, const struct nfs3_fh *fh,
                          const struct nfs3_sattr *attr, const struct nfs3_time *guard_ctime)
{
    put_fh(w, fh);
    put_sattr(w, attr);
    xdr_put_bool(w, guard_ctime != NULL);
    if (guard_ctime)
        put_time(w, guard_ctime);
    return put_result(w);
}

int nfs3_setattr_args_get(struct xdr_reader *r, struct nfs3_setattr_args *args)
{
    get_fh(r, &args->fh);
    get_sattr(r, &args->attr);
    args->guard = xdr_get_bool(r);
    if (args->guard)
        get_time(r, &args->guard_ctime);
    return get_result(r);
}

int nfs3_setattr_res_put(struct xdr_writer *w, const struct nfs3_setattr_res *res)
{
    xdr_put_u32(w, res->status);
    put_wcc(w, &res->wcc);
    return put_result(w);
}

int nfs3_setattr_res_get(struct xdr_reader *r, struct nfs3_setattr_res *res)
{
    res->status = xdr_get_u32(r);
    get_wcc(r, &res->wcc);
    return get_result(r);
}

/* Procedure 3, LOOKUP. */

int nfs3_lookup_args_put(struct xdr_writer *w, const struct nfs3_fh *dir, const char *name)
{
    put_fh(w, dir);
    return put_name(w, name);
}

int nfs3_lookup_args_get(struct xdr_reader *r, struct nfs3_lookup_args *args)
{
    get_fh(r, &args->dir);
    get_name(r, args->name);
    return get_result(r);
}

int nfs3_lookup_res_put(struct xdr_writer *w, const struct nfs3_lookup_res *res)
{
    xdr_put_u32(w, res->status);
    if (res->status == NFS3_OK) {
        put_fh(w, &res->fh);
        put_post_attr(w, &res->attr);
    }
    put_post_attr(w, &res->dir_attr);
    return put_result(w);
}

int nfs3_lookup_res_get(struct xdr_reader *r, struct nfs3_lookup_res *res)
{
    res->status = xdr_get_u32(r);
    if (res->status == NFS3_OK) {
        get_fh(r, &res->fh);
        get_post_attr(r, &res->attr);
    }
    get_post_attr(r, &res->dir_attr);
    return get_result(r);
}

/* Procedure 4, ACCESS. */

int nfs3_access_args_put(struct xdr_writer *w, const struct nfs3_fh *fh, uint32_t access)
{
    put_fh(w, fh);
    xdr_put_u32(w, access);
    return put_result(w);
}

int nfs3_access_args_get(struct xdr_reader *r, struct nfs3_access_args *args)
{
    get_fh(r, &args->fh);
    args->access = xdr_get_u32(r);
    return get_result(r);
}

int nfs3_access_res_put(struct xdr_writer *w, const struct nfs3_access_res *res)
{
    xdr_put_u32(w, res->status);
    put_post_attr(w, &res->attr);
    if (res->status == NFS3_OK)
        xdr_put_u32(w, res->access);
    return put_result(w);
}

int nfs3_access_res_get(struct xdr_reader *r, struct nfs3_access_res *res)
{
    res->status = xdr_get_u32(r);
    get_post_attr(r, &res->attr);
    if (res->status == NFS3_OK)
        res->access = xdr_get_u32(r);
    return get_result(r);
}

/* Procedure 6, READ. */

int nfs3_read_args_put(struct xdr_writer *w, const struct nfs3_fh *fh, uint64_t offset,
                       uint32_t count)
{
    put_fh(w, fh);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
    return put_result(w);
}

int nfs3_read_args_get(struct xdr_reader *r, struct nfs3_read_args *args)
{
    get_fh(r, &args->fh);
    args->offset = xdr_get_u64(r);
    args->count = xdr_get_u32(r);
    return get_result(r);
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
        need += ATTR_SIZE;
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

int nfs3_read_res_put(struct xdr_writer *w, const struct nfs3_read_res *res)
{
    xdr_put_u32(w, res->status);
    put_post_attr(w, &res->attr);
    if (res->status == NFS3_OK) {
        xdr_put_u32(w, res->count);
        xdr_put_bool(w, res->eof);
        xdr_put_u32(w, res->count);
    }
    return put_result(w);
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
    return get_result(r);
}

/* Procedure 7, WRITE. */

int nfs3_write_args_put(struct xdr_writer *w, const struct nfs3_fh *fh, uint64_t offset,
                        uint32_t count, enum nfs3_stable stable)
{
    put_fh(w, fh);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
    xdr_put_u32(w, stable);
    xdr_put_u32(w, count);
    return put_result(w);
}

int nfs3_write_args_get(struct xdr_reader *r, struct nfs3_write_args *args)
{
    get_fh(r, &args->fh);
    args->offset = xdr_get_u64(r);
    args->count = xdr_get_u32(r);
    args->stable = get_enum(r, NFS3_UNSTABLE, NFS3_FILE_SYNC);
    if (xdr_get_u32(r) != args->count)
        xdr_reader_fail(r);
    return get_result(r);
}

int nfs3_write_res_put(struct xdr_writer *w, const struct nfs3_write_res *res)
{
    xdr_put_u32(w, res->status);
    put_wcc(w, &res->wcc);
    if (res->status == NFS3_OK) {
        xdr_put_u32(w, res->count);
        xdr_put_u32(w, res->committed);
        put_verifier(w, res->verifier);
    }
    return put_result(w);
}

int nfs3_write_res_get(struct xdr_reader *r, uint32_t asked, struct nfs3_write_res *res)
{
    res->status = xdr_get_u32(r);
    get_wcc(r, &res->wcc);
    if (res->status == NFS3_OK) {
        res->count = xdr_get_u32(r);
        if (res->count > asked)
            xdr_reader_fail(r);
        res->committed = get_enum(r, NFS3_UNSTABLE, NFS3_FILE_SYNC);
        res->verifier = get_verifier(r);
    }
    return get_result(r);
}

/* Procedure 19, FSINFO. */

int nfs3_fsinfo_res_put(struct xdr_writer *w, const struct nfs3_fsinfo_res *res)
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
        put_time(w, &res->time_delta);
        xdr_put_u32(w, res->properties);
    }
    return put_result(w);
}

int nfs3_fsinfo_res_get(struct xdr_reader *r, struct nfs3_fsinfo_res *res)
{
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
        get_time(r, &res->time_delta);
        res->properties = xdr_get_u32(r);
    }
    return get_result(r);
}

/* Procedure 21, COMMIT. */

int nfs3_commit_args_put(struct xdr_writer *w, const struct nfs3_fh *fh, uint64_t offset,
                         uint32_t count)
{
    put_fh(w, fh);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
    return put_result(w);
}

int nfs3_commit_args_get(struct xdr_reader *r, struct nfs3_commit_args *args)
{
    get_fh(r, &args->fh);
    args->offset = xdr_get_u64(r);
    args->count = xdr_get_u32(r);
    return get_result(r);
}

int nfs3_commit_res_put(struct xdr_writer *w, const struct nfs3_commit_res *res)
{
    xdr_put_u32(w, res->status);
    put_wcc(w, &res->wcc);
    if (res->status == NFS3_OK)
        put_verifier(w, res->verifier);
    return put_result(w);
}

int nfs3_commit_res_get(struct xdr_reader *r, struct nfs3_commit_res *res)
{
    res->status = xdr_get_u32(r);
    get_wcc(r, &res->wcc);
    if (res->status == NFS3_OK)
        res->verifier = get_verifier(r);
    return get_result(r);
}
