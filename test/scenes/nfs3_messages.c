/* See nfs3_messages.h. */
#include "nfs3_messages.h"

/* What one read of 8192 bytes and one write of 8192 bytes asked for. */
#define ASKED 8192

/* Every message in both directions, behind one shape. */

int get_fh_args(struct xdr_reader *r, void *v)
{
    return nfs3_fh_args_get(r, v);
}

int put_fh_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_fh_args *a = v;
    return nfs3_fh_args_put(w, &a->fh);
}

int get_setattr_args(struct xdr_reader *r, void *v)
{
    return nfs3_setattr_args_get(r, v);
}

int put_setattr_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_setattr_args *a = v;
    return nfs3_setattr_args_put(w, &a->fh, &a->attr, a->guard ? &a->guard_ctime : NULL);
}

int get_lookup_args(struct xdr_reader *r, void *v)
{
    return nfs3_lookup_args_get(r, v);
}

int put_lookup_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_lookup_args *a = v;
    return nfs3_lookup_args_put(w, &a->dir, a->name);
}

int get_access_args(struct xdr_reader *r, void *v)
{
    return nfs3_access_args_get(r, v);
}

int put_access_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_access_args *a = v;
    return nfs3_access_args_put(w, &a->fh, a->access);
}

int get_read_args(struct xdr_reader *r, void *v)
{
    return nfs3_read_args_get(r, v);
}

int put_read_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_read_args *a = v;
    return nfs3_read_args_put(w, &a->fh, a->offset, a->count);
}

int get_write_args(struct xdr_reader *r, void *v)
{
    return nfs3_write_args_get(r, v);
}

int put_write_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_write_args *a = v;
    return nfs3_write_args_put(w, &a->fh, a->offset, a->count, (enum nfs_stable)a->stable);
}

int get_commit_args(struct xdr_reader *r, void *v)
{
    return nfs3_commit_args_get(r, v);
}

int put_commit_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_commit_args *a = v;
    return nfs3_commit_args_put(w, &a->fh, a->offset, a->count);
}

int get_read_res(struct xdr_reader *r, void *v)
{
    return nfs3_read_res_get(r, ASKED, v);
}

int get_write_res(struct xdr_reader *r, void *v)
{
    return nfs3_write_res_get(r, ASKED, v);
}

#define GET_RES(name)                                   \
    int get_##name##_res(struct xdr_reader *r, void *v) \
    {                                                   \
        return nfs3_##name##_res_get(r, v);             \
    }

#define PUT_RES(name)                                         \
    int put_##name##_res(struct xdr_writer *w, const void *v) \
    {                                                         \
        return nfs3_##name##_res_put(w, v);                   \
    }

#define BOTH_RES(name) GET_RES(name) PUT_RES(name)

BOTH_RES(getattr)
BOTH_RES(setattr)
BOTH_RES(lookup)
BOTH_RES(access)
PUT_RES(read)
PUT_RES(write)
BOTH_RES(fsinfo)
BOTH_RES(commit)

const struct message messages[] = {
    {"GETATTR arguments", FH, get_fh_args, put_fh_args},
    {"GETATTR ok", GETATTR_OK, get_getattr_res, put_getattr_res},
    {"GETATTR stale", "00000046", get_getattr_res, put_getattr_res},
    {"SETATTR arguments", SETATTR_ARGS, get_setattr_args, put_setattr_args},
    {"SETATTR arguments, nothing set", FH NOSATTR "00000000", get_setattr_args, put_setattr_args},
    {"SETATTR ok", OK WCC, get_setattr_res, put_setattr_res},
    {"SETATTR not sync", "00002712" NOWCC, get_setattr_res, put_setattr_res},
    {"LOOKUP arguments", LOOKUP_ARGS, get_lookup_args, put_lookup_args},
    {"LOOKUP ok", LOOKUP_OK, get_lookup_res, put_lookup_res},
    {"LOOKUP ok, no attributes", OK FH NOPOST NOPOST, get_lookup_res, put_lookup_res},
    {"LOOKUP no entry", "00000002" POST, get_lookup_res, put_lookup_res},
    {"LOOKUP no entry, no attributes", "00000002" NOPOST, get_lookup_res, put_lookup_res},
    {"ACCESS arguments", ACCESS_ARGS, get_access_args, put_access_args},
    {"ACCESS ok", ACCESS_OK, get_access_res, put_access_res},
    {"ACCESS ok, no attributes", OK NOPOST "00000000", get_access_res, put_access_res},
    {"ACCESS stale", "00000046" NOPOST, get_access_res, put_access_res},
    {"READ arguments", READ_ARGS, get_read_args, put_read_args},
    {"READ ok", READ_OK, get_read_res, put_read_res},
    {"READ ok, no attributes", READ_OK_BARE, get_read_res, put_read_res},
    {"READ I/O error", "00000005" POST, get_read_res, put_read_res},
    {"READ stale", "00000046" NOPOST, get_read_res, put_read_res},
    {"WRITE arguments", WRITE_ARGS, get_write_args, put_write_args},
    {"WRITE ok", WRITE_OK, get_write_res, put_write_res},
    {"WRITE ok, no attributes", OK NOWCC "00002000 00000000" VERIFIER, get_write_res,
     put_write_res},
    {"WRITE no space", "0000001c" WCC, get_write_res, put_write_res},
    {"WRITE no space, no attributes", "0000001c" NOWCC, get_write_res, put_write_res},
    {"FSINFO ok", FSINFO_OK, get_fsinfo_res, put_fsinfo_res},
    {"FSINFO stale", "00000046" NOPOST, get_fsinfo_res, put_fsinfo_res},
    {"COMMIT arguments", COMMIT_ARGS, get_commit_args, put_commit_args},
    {"COMMIT ok", COMMIT_OK, get_commit_res, put_commit_res},
    {"COMMIT I/O error", "00000005" NOWCC, get_commit_res, put_commit_res},
};

const size_t message_count = sizeof(messages) / sizeof(messages[0]);

/* Inline it makes gcc 12 see a use after free(). */
__attribute__((noinline)) int decode_part(const struct exact *b, size_t size,
                                          int (*get)(struct xdr_reader *r, void *v),
                                          union decoded *v, size_t *left)
{
    uint8_t *block = malloc(size ? size : 1);
    struct xdr_reader r;
    int rc;

    assert_non_null(block);
    memcpy(block, b->data, size);
    memset(v, 0x5a, sizeof(*v));
    xdr_reader_init(&r, block, size);
    rc = get(&r, v);
    *left = xdr_reader_left(&r);
    free(block);
    return rc;
}

int decode(const char *hex, int (*get)(struct xdr_reader *r, void *v), union decoded *v)
{
    struct exact b = hex_exact(hex);
    size_t left;
    int rc = decode_part(&b, b.size, get, v, &left);

    if (rc == 0)
        assert_int_equal(left, 0);
    free(b.data);
    return rc;
}
