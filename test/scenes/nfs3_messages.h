/*
 * NFSv3 messages written down by hand from RFC 1813 section 3.3, in hexadecimal, and one shape for
 * the decoder and encoder of each: shared by the tests of the codec. Every message is decoded in a
 * heap block of exactly its size, so that a sanitizer or valgrind sees any access outside.
 */
#ifndef TEST_UNIT_NFS3_MESSAGES_H
#define TEST_UNIT_NFS3_MESSAGES_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "nfs3_server.h"
#include "unit.h"

/* A handle of five bytes: length, bytes, padding. */
#define FH "00000005 0102030405 000000 "

/* fattr3: type, mode, nlink, uid, gid, size, used, rdev, fsid, fileid, atime, mtime, ctime. */
#define ATTR                                                                          \
    "00000001 000001a4 00000002 000003e8 000003e9 0000000123456789 0000000123457000 " \
    "00000007 00000009 1122334455667788 99aabbccddeeff01 "                            \
    "5f000001 0000000a 5f000002 0000000b 5f000003 0000000c "
#define POST   "00000001 " ATTR
#define NOPOST "00000000 "

/* wcc_data: size, mtime, ctime before; attributes after. */
#define BEFORE "00000001 0000000000001000 5e000001 00000001 5e000002 00000002 "
#define WCC    BEFORE POST
#define NOWCC  "00000000 00000000 "

/* sattr3: mode 0600, uid 1000, gid as it is, size 4096, atime the server's, mtime given. */
#define SATTR                                                                 \
    "00000001 00000180 00000001 000003e8 00000000 00000001 0000000000001000 " \
    "00000001 00000002 5f000010 00000011 "
#define NOSATTR "00000000 00000000 00000000 00000000 00000000 00000000 "

#define VERIFIER "a1a2a3a4a5a6a7a8 "
#define OK       "00000000 "
#define FOO      "00000003 666f6f 00 "

/* What one read of 8192 bytes and one write of 8192 bytes asked for. */
#define ASKED 8192

struct bytes {
    uint8_t *data;
    size_t size;
};

static inline int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static inline struct bytes from_hex(const char *hex)
{
    struct bytes b = {malloc(strlen(hex) / 2 + 1), 0};
    uint8_t *exact;

    assert_non_null(b.data);
    while (*hex) {
        if (*hex == ' ') {
            hex++;
            continue;
        }
        b.data[b.size++] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
        hex += 2;
    }
    exact = malloc(b.size);
    assert_non_null(exact);
    memcpy(exact, b.data, b.size);
    free(b.data);
    b.data = exact;
    return b;
}

/* Every message in both directions, behind one shape. */

static int get_fh_args(struct xdr_reader *r, void *v)
{
    return nfs3_fh_args_get(r, v);
}
static int put_fh_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_fh_args *a = v;
    return nfs3_fh_args_put(w, &a->fh);
}
static int get_setattr_args(struct xdr_reader *r, void *v)
{
    return nfs3_setattr_args_get(r, v);
}
static int put_setattr_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_setattr_args *a = v;
    return nfs3_setattr_args_put(w, &a->fh, &a->attr, a->guard ? &a->guard_ctime : NULL);
}
static int get_lookup_args(struct xdr_reader *r, void *v)
{
    return nfs3_lookup_args_get(r, v);
}
static int put_lookup_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_lookup_args *a = v;
    return nfs3_lookup_args_put(w, &a->dir, a->name);
}
static int get_access_args(struct xdr_reader *r, void *v)
{
    return nfs3_access_args_get(r, v);
}
static int put_access_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_access_args *a = v;
    return nfs3_access_args_put(w, &a->fh, a->access);
}
static int get_read_args(struct xdr_reader *r, void *v)
{
    return nfs3_read_args_get(r, v);
}
static int put_read_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_read_args *a = v;
    return nfs3_read_args_put(w, &a->fh, a->offset, a->count);
}
static int get_write_args(struct xdr_reader *r, void *v)
{
    return nfs3_write_args_get(r, v);
}
static int put_write_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_write_args *a = v;
    return nfs3_write_args_put(w, &a->fh, a->offset, a->count, (enum nfs_stable)a->stable);
}
static int get_commit_args(struct xdr_reader *r, void *v)
{
    return nfs3_commit_args_get(r, v);
}
static int put_commit_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_commit_args *a = v;
    return nfs3_commit_args_put(w, &a->fh, a->offset, a->count);
}
static int get_read_res(struct xdr_reader *r, void *v)
{
    return nfs3_read_res_get(r, ASKED, v);
}
static int get_write_res(struct xdr_reader *r, void *v)
{
    return nfs3_write_res_get(r, ASKED, v);
}

#define GET_RES(name)                                          \
    static int get_##name##_res(struct xdr_reader *r, void *v) \
    {                                                          \
        return nfs3_##name##_res_get(r, v);                    \
    }
#define PUT_RES(name)                                                \
    static int put_##name##_res(struct xdr_writer *w, const void *v) \
    {                                                                \
        return nfs3_##name##_res_put(w, v);                          \
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

#define GETATTR_OK   OK ATTR
#define SETATTR_ARGS FH SATTR "00000001 5f000003 0000000c" /* guarded by a ctime */
#define LOOKUP_ARGS  FH FOO
#define LOOKUP_OK    OK FH POST POST
#define ACCESS_ARGS  FH "0000001f"
#define ACCESS_OK    OK POST "0000000d"
#define READ_ARGS    FH "0000000100000200 00002000"
#define READ_OK      OK POST "00001000 00000001 00001000"
#define READ_OK_BARE OK NOPOST "00002000 00000000 00002000"
#define WRITE_ARGS   FH "0000000100000200 00000005 00000002 00000005"
#define WRITE_OK     OK WCC "00001000 00000002 " VERIFIER
#define FSINFO_OK                                                             \
    OK POST "00100000 00080000 00001000 00100001 00080001 00000200 00002000 " \
            "7fffffffffffffff 00000000 00000001 0000001b"
#define COMMIT_ARGS FH "0000000100000200 00000000"
#define COMMIT_OK   OK WCC VERIFIER

#define MESSAGE_COUNT (sizeof(messages) / sizeof(messages[0]))

static const struct message {
    const char *name;
    const char *hex;
    int (*get)(struct xdr_reader *r, void *v);
    int (*put)(struct xdr_writer *w, const void *v);
} messages[] = {
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

/* Room for any decoded structure, filled so that a field left alone is not 0 by luck. */
union decoded {
    struct nfs3_fh_args fh_args;
    struct nfs3_setattr_args setattr_args;
    struct nfs3_lookup_args lookup_args;
    struct nfs3_access_args access_args;
    struct nfs3_read_args read_args;
    struct nfs3_write_args write_args;
    struct nfs3_commit_args commit_args;
    struct nfs3_getattr_res getattr;
    struct nfs3_setattr_res setattr;
    struct nfs3_lookup_res lookup;
    struct nfs3_access_res access;
    struct nfs3_read_res read;
    struct nfs3_write_res write;
    struct nfs_fsinfo_res fsinfo;
    struct nfs3_commit_res commit;
};

/* Decodes a message that lies in a block of its own, of which only the first `size` bytes came.
 * Inline it makes gcc 12 see a use after free(). */
static __attribute__((noinline, unused)) int decode_part(const struct bytes *b, size_t size,
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

static inline int decode(const char *hex, int (*get)(struct xdr_reader *r, void *v),
                         union decoded *v)
{
    struct bytes b = from_hex(hex);
    size_t left;
    int rc = decode_part(&b, b.size, get, v, &left);

    if (rc == 0)
        assert_int_equal(left, 0);
    free(b.data);
    return rc;
}

#endif
