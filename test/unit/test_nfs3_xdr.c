/*
 * The NFSv3 codec against bytes written down by hand from RFC 1813 section 3.3, in hexadecimal,
 * and against everything a server must not send. Every message lies in a heap block of exactly its
 * size, so that a sanitizer or valgrind sees any access outside.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/nfs3_xdr.h"

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

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static struct bytes from_hex(const char *hex)
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
    return nfs3_write_args_put(w, &a->fh, a->offset, a->count, (enum nfs3_stable)a->stable);
}
static int get_create_args(struct xdr_reader *r, void *v)
{
    return nfs3_create_args_get(r, v);
}
static int put_create_args(struct xdr_writer *w, const void *v)
{
    const struct nfs3_create_args *a = v;
    return nfs3_create_args_put(w, &a->dir, a->name, (enum nfs3_create_mode)a->mode,
                                a->mode == NFS3_CREATE_EXCLUSIVE ? NULL : &a->attr, a->verifier);
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
BOTH_RES(create)
BOTH_RES(fsstat)
BOTH_RES(fsinfo)
BOTH_RES(pathconf)
BOTH_RES(commit)

#define GETATTR_OK     OK ATTR
#define SETATTR_ARGS   FH SATTR "00000001 5f000003 0000000c" /* guarded by a ctime */
#define LOOKUP_ARGS    FH FOO
#define LOOKUP_OK      OK FH POST POST
#define ACCESS_ARGS    FH "0000001f"
#define ACCESS_OK      OK POST "0000000d"
#define READ_ARGS      FH "0000000100000200 00002000"
#define READ_OK        OK POST "00001000 00000001 00001000"
#define READ_OK_BARE   OK NOPOST "00002000 00000000 00002000"
#define WRITE_ARGS     FH "0000000100000200 00000005 00000002 00000005"
#define WRITE_OK       OK WCC "00001000 00000002 " VERIFIER
#define CREATE_GUARDED FH FOO "00000001 " SATTR
#define CREATE_EXCL    FH FOO "00000002 " VERIFIER
#define CREATE_OK      OK "00000001 " FH POST WCC
#define FSSTAT_OK                                                 \
    OK POST "0000010000000000 0000008000000000 0000004000000000 " \
            "0000000000100000 0000000000080000 0000000000040000 0000001e"
#define FSINFO_OK                                                             \
    OK POST "00100000 00080000 00001000 00100001 00080001 00000200 00002000 " \
            "7fffffffffffffff 00000000 00000001 0000001b"
#define PATHCONF_OK OK POST "00007fff 000000ff 00000001 00000001 00000000 00000001"
#define COMMIT_ARGS FH "0000000100000200 00000000"
#define COMMIT_OK   OK WCC VERIFIER

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
    {"CREATE arguments, unchecked", FH FOO "00000000" NOSATTR, get_create_args, put_create_args},
    {"CREATE arguments, guarded", CREATE_GUARDED, get_create_args, put_create_args},
    {"CREATE arguments, exclusive", CREATE_EXCL, get_create_args, put_create_args},
    {"CREATE ok", CREATE_OK, get_create_res, put_create_res},
    {"CREATE ok, nothing optional", OK "00000000" NOPOST NOWCC, get_create_res, put_create_res},
    {"CREATE exists", "00000011" WCC, get_create_res, put_create_res},
    {"FSSTAT ok", FSSTAT_OK, get_fsstat_res, put_fsstat_res},
    {"FSSTAT stale", "00000046" NOPOST, get_fsstat_res, put_fsstat_res},
    {"FSINFO ok", FSINFO_OK, get_fsinfo_res, put_fsinfo_res},
    {"FSINFO stale", "00000046" NOPOST, get_fsinfo_res, put_fsinfo_res},
    {"PATHCONF ok", PATHCONF_OK, get_pathconf_res, put_pathconf_res},
    {"PATHCONF stale", "00000046" NOPOST, get_pathconf_res, put_pathconf_res},
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
    struct nfs3_create_args create_args;
    struct nfs3_commit_args commit_args;
    struct nfs3_getattr_res getattr;
    struct nfs3_setattr_res setattr;
    struct nfs3_lookup_res lookup;
    struct nfs3_access_res access;
    struct nfs3_read_res read;
    struct nfs3_write_res write;
    struct nfs3_create_res create;
    struct nfs3_fsstat_res fsstat;
    struct nfs3_fsinfo_res fsinfo;
    struct nfs3_pathconf_res pathconf;
    struct nfs3_commit_res commit;
};

/* Decodes a message that lies in a block of its own, of which only the first `size` bytes came. */
static int decode_part(const struct bytes *b, size_t size,
                       int (*get)(struct xdr_reader *r, void *v), union decoded *v, size_t *left)
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

static int decode(const char *hex, int (*get)(struct xdr_reader *r, void *v), union decoded *v)
{
    struct bytes b = from_hex(hex);
    size_t left;
    int rc = decode_part(&b, b.size, get, v, &left);

    if (rc == 0)
        assert_int_equal(left, 0);
    free(b.data);
    return rc;
}

static void every_message_survives_decoding_and_encoding(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        const struct message *m = &messages[i];
        struct bytes b = from_hex(m->hex);
        uint8_t *out = malloc(b.size);
        union decoded v;
        struct xdr_writer w;

        print_message("  %s\n", m->name);
        assert_non_null(out);
        assert_int_equal(decode(m->hex, m->get, &v), 0);
        memset(out, 0xee, b.size);
        xdr_writer_init(&w, out, b.size);
        assert_int_equal(m->put(&w, &v), 0);
        assert_int_equal(xdr_writer_left(&w), 0);
        assert_memory_equal(out, b.data, b.size);
        free(out);
        free(b.data);
    }
}

static void every_truncated_message_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct bytes b = from_hex(messages[i].hex);
        union decoded v;
        size_t left;

        for (size_t size = 0; size < b.size; size++)
            if (decode_part(&b, size, messages[i].get, &v, &left) != -EBADMSG)
                fail_msg("%s accepted with %zu of %zu bytes", messages[i].name, size, b.size);
        free(b.data);
    }
}

static void encoding_into_a_buffer_too_small_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct bytes b = from_hex(messages[i].hex);
        union decoded v;

        assert_int_equal(decode(messages[i].hex, messages[i].get, &v), 0);
        for (size_t size = 0; size < b.size; size++) {
            uint8_t *out = malloc(size ? size : 1);
            struct xdr_writer w;

            assert_non_null(out);
            xdr_writer_init(&w, out, size);
            if (messages[i].put(&w, &v) != -EMSGSIZE)
                fail_msg("%s written into %zu of %zu bytes", messages[i].name, size, b.size);
            free(out);
        }
        free(b.data);
    }
}

/* The values behind the bytes. */

static void check_fh(const struct nfs3_fh *fh)
{
    assert_int_equal(fh->len, 5);
    assert_memory_equal(fh->data, "\1\2\3\4\5", 5);
}

static void check_time(const struct nfs3_time *t, uint32_t sec, uint32_t nsec)
{
    assert_int_equal(t->sec, sec);
    assert_int_equal(t->nsec, nsec);
}

static void check_attr(const struct nfs3_attr *attr)
{
    assert_int_equal(attr->type, NFS3_REG);
    assert_int_equal(attr->mode, 0644);
    assert_int_equal(attr->nlink, 2);
    assert_int_equal(attr->uid, 1000);
    assert_int_equal(attr->gid, 1001);
    assert_true(attr->size == 0x123456789u);
    assert_true(attr->used == 0x123457000u);
    assert_int_equal(attr->rdev_major, 7);
    assert_int_equal(attr->rdev_minor, 9);
    assert_true(attr->fsid == 0x1122334455667788u);
    assert_true(attr->fileid == 0x99aabbccddeeff01u);
    check_time(&attr->atime, 0x5f000001, 10);
    check_time(&attr->mtime, 0x5f000002, 11);
    check_time(&attr->ctime, 0x5f000003, 12);
}

static void check_post(const struct nfs3_post_attr *post)
{
    assert_true(post->present);
    check_attr(&post->attr);
}

static void check_wcc(const struct nfs3_wcc *wcc)
{
    assert_true(wcc->before_present);
    assert_true(wcc->size == 4096);
    check_time(&wcc->mtime, 0x5e000001, 1);
    check_time(&wcc->ctime, 0x5e000002, 2);
    check_post(&wcc->after);
}

static void check_sattr(const struct nfs3_sattr *sattr)
{
    assert_true(sattr->set_mode);
    assert_int_equal(sattr->mode, 0600);
    assert_true(sattr->set_uid);
    assert_int_equal(sattr->uid, 1000);
    assert_false(sattr->set_gid);
    assert_true(sattr->set_size);
    assert_true(sattr->size == 4096);
    assert_int_equal(sattr->set_atime, NFS3_SET_TO_SERVER_TIME);
    assert_int_equal(sattr->set_mtime, NFS3_SET_TO_CLIENT_TIME);
    check_time(&sattr->mtime, 0x5f000010, 17);
}

static void check_verifier(uint64_t verifier)
{
    assert_memory_equal(&verifier, "\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8", 8);
}

static void getattr_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(FH, get_fh_args, &v), 0);
    check_fh(&v.fh_args.fh);
    assert_int_equal(decode(GETATTR_OK, get_getattr_res, &v), 0);
    assert_int_equal(v.getattr.status, NFS3_OK);
    check_attr(&v.getattr.attr);
    assert_int_equal(decode("00000046", get_getattr_res, &v), 0);
    assert_int_equal(v.getattr.status, NFS3ERR_STALE);
}

static void setattr_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(SETATTR_ARGS, get_setattr_args, &v), 0);
    check_fh(&v.setattr_args.fh);
    check_sattr(&v.setattr_args.attr);
    assert_true(v.setattr_args.guard);
    check_time(&v.setattr_args.guard_ctime, 0x5f000003, 12);
    assert_int_equal(decode(FH NOSATTR "00000000", get_setattr_args, &v), 0);
    assert_false(v.setattr_args.attr.set_mode);
    assert_false(v.setattr_args.attr.set_size);
    assert_int_equal(v.setattr_args.attr.set_mtime, NFS3_DONT_CHANGE);
    assert_false(v.setattr_args.guard);
    assert_int_equal(decode(OK WCC, get_setattr_res, &v), 0);
    assert_int_equal(v.setattr.status, NFS3_OK);
    check_wcc(&v.setattr.wcc);
}

static void lookup_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(LOOKUP_ARGS, get_lookup_args, &v), 0);
    check_fh(&v.lookup_args.dir);
    assert_string_equal(v.lookup_args.name, "foo");
    assert_int_equal(decode(LOOKUP_OK, get_lookup_res, &v), 0);
    assert_int_equal(v.lookup.status, NFS3_OK);
    check_fh(&v.lookup.fh);
    check_post(&v.lookup.attr);
    check_post(&v.lookup.dir_attr);
    assert_int_equal(decode(OK FH NOPOST NOPOST, get_lookup_res, &v), 0);
    assert_false(v.lookup.attr.present);
    assert_false(v.lookup.dir_attr.present);
    assert_int_equal(decode("00000002" POST, get_lookup_res, &v), 0);
    assert_int_equal(v.lookup.status, NFS3ERR_NOENT);
    check_post(&v.lookup.dir_attr);
}

static void access_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(ACCESS_ARGS, get_access_args, &v), 0);
    check_fh(&v.access_args.fh);
    assert_int_equal(v.access_args.access, NFS3_ACCESS_READ | NFS3_ACCESS_LOOKUP |
                                               NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND |
                                               NFS3_ACCESS_DELETE);
    assert_int_equal(decode(ACCESS_OK, get_access_res, &v), 0);
    check_post(&v.access.attr);
    assert_int_equal(v.access.access, NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND);
}

static void read_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(READ_ARGS, get_read_args, &v), 0);
    check_fh(&v.read_args.fh);
    assert_true(v.read_args.offset == 0x100000200u);
    assert_int_equal(v.read_args.count, 8192);
    assert_int_equal(decode(READ_OK, get_read_res, &v), 0);
    assert_int_equal(v.read.status, NFS3_OK);
    check_post(&v.read.attr);
    assert_int_equal(v.read.count, 4096);
    assert_true(v.read.eof);
    assert_int_equal(decode(READ_OK_BARE, get_read_res, &v), 0);
    assert_false(v.read.attr.present);
    assert_int_equal(v.read.count, 8192);
    assert_false(v.read.eof);
}

static void write_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(WRITE_ARGS, get_write_args, &v), 0);
    check_fh(&v.write_args.fh);
    assert_true(v.write_args.offset == 0x100000200u);
    assert_int_equal(v.write_args.count, 5);
    assert_int_equal(v.write_args.stable, NFS3_FILE_SYNC);
    assert_int_equal(decode(WRITE_OK, get_write_res, &v), 0);
    check_wcc(&v.write.wcc);
    assert_int_equal(v.write.count, 4096);
    assert_int_equal(v.write.committed, NFS3_FILE_SYNC);
    check_verifier(v.write.verifier);
    assert_int_equal(decode("0000001c" NOWCC, get_write_res, &v), 0);
    assert_int_equal(v.write.status, NFS3ERR_NOSPC);
    assert_false(v.write.wcc.before_present);
    assert_false(v.write.wcc.after.present);
}

static void create_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(CREATE_GUARDED, get_create_args, &v), 0);
    check_fh(&v.create_args.dir);
    assert_string_equal(v.create_args.name, "foo");
    assert_int_equal(v.create_args.mode, NFS3_CREATE_GUARDED);
    check_sattr(&v.create_args.attr);
    assert_int_equal(decode(CREATE_EXCL, get_create_args, &v), 0);
    assert_int_equal(v.create_args.mode, NFS3_CREATE_EXCLUSIVE);
    check_verifier(v.create_args.verifier);
    assert_int_equal(decode(CREATE_OK, get_create_res, &v), 0);
    assert_true(v.create.fh_present);
    check_fh(&v.create.fh);
    check_post(&v.create.attr);
    check_wcc(&v.create.dir_wcc);
    assert_int_equal(decode(OK "00000000" NOPOST NOWCC, get_create_res, &v), 0);
    assert_false(v.create.fh_present);
    assert_false(v.create.attr.present);
}

static void fsstat_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(FSSTAT_OK, get_fsstat_res, &v), 0);
    check_post(&v.fsstat.attr);
    assert_true(v.fsstat.total_bytes == (uint64_t)1 << 40);
    assert_true(v.fsstat.free_bytes == (uint64_t)1 << 39);
    assert_true(v.fsstat.avail_bytes == (uint64_t)1 << 38);
    assert_true(v.fsstat.total_files == 1u << 20);
    assert_true(v.fsstat.free_files == 1u << 19);
    assert_true(v.fsstat.avail_files == 1u << 18);
    assert_int_equal(v.fsstat.invarsec, 30);
}

static void fsinfo_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(FSINFO_OK, get_fsinfo_res, &v), 0);
    check_post(&v.fsinfo.attr);
    assert_int_equal(v.fsinfo.rtmax, 1048576);
    assert_int_equal(v.fsinfo.rtpref, 524288);
    assert_int_equal(v.fsinfo.rtmult, 4096);
    assert_int_equal(v.fsinfo.wtmax, 1048577);
    assert_int_equal(v.fsinfo.wtpref, 524289);
    assert_int_equal(v.fsinfo.wtmult, 512);
    assert_int_equal(v.fsinfo.dtpref, 8192);
    assert_true(v.fsinfo.maxfilesize == INT64_MAX);
    check_time(&v.fsinfo.time_delta, 0, 1);
    assert_int_equal(v.fsinfo.properties,
                     NFS3_FSF_LINK | NFS3_FSF_SYMLINK | NFS3_FSF_HOMOGENEOUS | NFS3_FSF_CANSETTIME);
}

static void pathconf_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(PATHCONF_OK, get_pathconf_res, &v), 0);
    check_post(&v.pathconf.attr);
    assert_int_equal(v.pathconf.linkmax, 32767);
    assert_int_equal(v.pathconf.name_max, 255);
    assert_true(v.pathconf.no_trunc);
    assert_true(v.pathconf.chown_restricted);
    assert_false(v.pathconf.case_insensitive);
    assert_true(v.pathconf.case_preserving);
}

static void commit_values(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(COMMIT_ARGS, get_commit_args, &v), 0);
    check_fh(&v.commit_args.fh);
    assert_true(v.commit_args.offset == 0x100000200u);
    assert_int_equal(v.commit_args.count, 0);
    assert_int_equal(decode(COMMIT_OK, get_commit_res, &v), 0);
    check_wcc(&v.commit.wcc);
    check_verifier(v.commit.verifier);
}

static void a_mode_with_file_type_bits_is_stripped(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode(OK "00000001 000081ed" /* 0100755 */
                               "00000001 00000000 00000000 0000000000000000 0000000000000000 "
                               "00000000 00000000 0000000000000000 0000000000000000 "
                               "00000000 00000000 00000000 00000000 00000000 00000000",
                            get_getattr_res, &v),
                     0);
    assert_int_equal(v.getattr.attr.mode, 0755);
}

static void a_status_unknown_to_the_standard_is_passed_on(void **state)
{
    union decoded v;

    (void)state;
    assert_int_equal(decode("0000270f", get_getattr_res, &v), 0);
    assert_int_equal(v.getattr.status, 9999);
}

/* The largest handle and name there are. */

static void limits_are_accepted_and_fit_the_stated_sizes(void **state)
{
    struct nfs3_fh fh = {.len = NFS3_FH_MAX};
    struct nfs3_sattr sattr = {.set_mode = true,
                               .set_uid = true,
                               .set_gid = true,
                               .set_size = true,
                               .set_atime = NFS3_SET_TO_CLIENT_TIME,
                               .set_mtime = NFS3_SET_TO_CLIENT_TIME};
    struct nfs3_create_res create = {.status = NFS3_OK,
                                     .fh_present = true,
                                     .attr.present = true,
                                     .dir_wcc.before_present = true};
    struct nfs3_create_args args;
    struct nfs3_read_res read = {.status = NFS3_OK, .attr.present = true, .count = 1};
    char name[NFS3_NAME_MAX + 2];
    uint8_t *buffer = malloc(NFS3_ARGS_MAX);
    struct xdr_writer w;
    struct xdr_reader r;

    (void)state;
    assert_non_null(buffer);
    memset(name, 'n', sizeof(name));
    name[NFS3_NAME_MAX] = '\0';
    memset(fh.data, 0xf0, sizeof(fh.data));
    create.fh = fh;
    create.dir_wcc.after.present = true;

    xdr_writer_init(&w, buffer, NFS3_ARGS_MAX);
    assert_int_equal(nfs3_create_args_put(&w, &fh, name, NFS3_CREATE_GUARDED, &sattr, 0), 0);
    xdr_reader_init(&r, buffer, (size_t)(w.p - buffer));
    assert_int_equal(nfs3_create_args_get(&r, &args), 0);
    assert_string_equal(args.name, name);
    assert_memory_equal(args.dir.data, fh.data, NFS3_FH_MAX);

    xdr_writer_init(&w, buffer, NFS3_READ_ARGS_MAX);
    assert_int_equal(nfs3_read_args_put(&w, &fh, 0, 1), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    xdr_writer_init(&w, buffer, NFS3_WRITE_ARGS_MAX);
    assert_int_equal(nfs3_write_args_put(&w, &fh, 0, 1, NFS3_UNSTABLE), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    xdr_writer_init(&w, buffer, NFS3_READ_HEAD_MAX);
    assert_int_equal(nfs3_read_res_put(&w, &read), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    create.attr.attr.type = create.dir_wcc.after.attr.type = NFS3_DIR;
    xdr_writer_init(&w, buffer, NFS3_RES_MAX);
    assert_int_equal(nfs3_create_res_put(&w, &create), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    free(buffer);
}

static void a_name_too_long_is_not_encoded(void **state)
{
    struct nfs3_fh fh = {.len = 4};
    char name[NFS3_NAME_MAX + 2];
    uint8_t buffer[NFS3_ARGS_MAX];
    struct xdr_writer w;

    (void)state;
    memset(name, 'n', sizeof(name));
    name[NFS3_NAME_MAX + 1] = '\0';
    xdr_writer_init(&w, buffer, sizeof(buffer));
    assert_int_equal(nfs3_lookup_args_put(&w, &fh, name), -ENAMETOOLONG);
    xdr_writer_init(&w, buffer, sizeof(buffer));
    assert_int_equal(nfs3_create_args_put(&w, &fh, name, NFS3_CREATE_EXCLUSIVE, NULL, 1),
                     -ENAMETOOLONG);
}

/* What no peer may send. */

#define FH65                                                                        \
    "00000041 0000000000000000 0000000000000000 0000000000000000 0000000000000000 " \
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000 00 000000 "

static const struct {
    const char *why;
    const char *hex;
    int (*get)(struct xdr_reader *r, void *v);
} hostile[] = {
    {"handle of 65 bytes in arguments", FH65, get_fh_args},
    {"handle of 65 bytes in LOOKUP", OK FH65 NOPOST NOPOST, get_lookup_res},
    {"handle of 65 bytes in CREATE", OK "00000001" FH65 NOPOST NOWCC, get_create_res},
    {"handle of 2^32-1 bytes", OK "ffffffff 00000000" NOPOST NOPOST, get_lookup_res},
    {"handle of 2^31 bytes", OK "80000000 00000000" NOPOST NOPOST, get_lookup_res},
    {"handle of no bytes", OK "00000000" NOPOST NOPOST, get_lookup_res},
    {"attributes present 2", OK FH "00000002" ATTR NOPOST, get_lookup_res},
    {"wcc present 2", OK "00000002" NOPOST NOPOST, get_setattr_res},
    {"wcc present 2^32-1", OK "ffffffff" NOPOST, get_commit_res},
    {"handle present 2", OK "00000002" FH NOPOST NOWCC, get_create_res},
    {"file type 0", OK "00000000" ATTR, get_getattr_res},
    {"file type 8", OK "00000008" ATTR, get_getattr_res},
    {"more read than asked", OK NOPOST "00002001 00000000 00002001", get_read_res},
    {"2^32-1 bytes read", OK NOPOST "ffffffff 00000000 ffffffff", get_read_res},
    {"data length is not count", OK NOPOST "00001000 00000000 00001004", get_read_res},
    {"data length below count", OK NOPOST "00001000 00000000 00000000", get_read_res},
    {"eof 2", OK NOPOST "00001000 00000002 00001000", get_read_res},
    {"more written than asked", OK NOWCC "00002001 00000000" VERIFIER, get_write_res},
    {"committed 3", OK NOWCC "00002000 00000003" VERIFIER, get_write_res},
    {"no_trunc 2", OK NOPOST "00007fff 000000ff 00000002 00000001 00000000 00000001",
     get_pathconf_res},
    {"stable_how 3", FH "0000000000000000 00000004 00000003 00000004", get_write_args},
    {"write length is not count", FH "0000000000000000 00000004 00000000 00000005", get_write_args},
    {"name of 256 bytes", FH "00000100 00000000", get_lookup_args},
    {"name of 2^32-1 bytes", FH "ffffffff 00000000", get_lookup_args},
    {"name with a NUL", FH "00000003 660066 00", get_lookup_args},
    {"createmode 3", FH FOO "00000003" NOSATTR, get_create_args},
    {"time_how 3", FH "00000000 00000000 00000000 00000000 00000003 00000000 00000000",
     get_setattr_args},
    {"set mode 2", FH "00000002 00000180" NOSATTR "00000000", get_setattr_args},
};

static void hostile_messages_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        union decoded v;

        if (decode(hostile[i].hex, hostile[i].get, &v) != -EBADMSG)
            fail_msg("accepted: %s", hostile[i].why);
    }
}

/* The head of READ results, met piece by piece. */

static int read_head_of(const char *hex, size_t have, size_t *head_len, uint32_t *data_len)
{
    struct bytes b = from_hex(hex);
    uint8_t *block = malloc(have ? have : 1);
    int rc;

    assert_non_null(block);
    assert_true(have <= b.size);
    memcpy(block, b.data, have);
    *head_len = SIZE_MAX;
    *data_len = UINT32_MAX;
    rc = nfs3_read_head(block, have, head_len, data_len);
    free(block);
    free(b.data);
    return rc;
}

/* Until the whole head is there: asks for more, but never for more than the head is long. */
static void check_read_head(const char *hex, size_t head, uint32_t data)
{
    struct bytes b = from_hex(hex);
    size_t head_len;
    uint32_t data_len;

    for (size_t have = 0; have < head; have++) {
        assert_int_equal(read_head_of(hex, have, &head_len, &data_len), 0);
        assert_true(head_len > have && head_len <= head);
        assert_int_equal(data_len, 0);
    }
    for (size_t have = head; have <= b.size; have++) {
        assert_int_equal(read_head_of(hex, have, &head_len, &data_len), 1);
        assert_int_equal(head_len, head);
        assert_int_equal(data_len, data);
    }
    free(b.data);
}

static void read_head_finds_the_payload_after_attributes(void **state)
{
    (void)state;
    check_read_head(OK POST "00000006 00000001 00000006 646174612e2e 0000", 104, 6);
}

static void read_head_finds_the_payload_without_attributes(void **state)
{
    (void)state;
    check_read_head(OK NOPOST "00000006 00000000 00000006 646174612e2e 0000", 20, 6);
}

static void read_head_of_an_empty_read(void **state)
{
    (void)state;
    check_read_head(OK NOPOST "00000000 00000001 00000000", 20, 0);
}

static void read_head_of_an_error_has_no_payload(void **state)
{
    (void)state;
    check_read_head("00000005" POST, 92, 0);
    check_read_head("00000046" NOPOST, 8, 0);
}

static void read_head_refuses_what_is_malformed(void **state)
{
    static const char *const bad[] = {
        OK "00000002" ATTR "00000004 00000000 00000004",
        "00000046 ffffffff",
        OK NOPOST "00000004 00000000 00000008",
        OK NOPOST "00000004 00000002 00000004",
        OK POST "00000004 00000000 ffffffff",
    };
    size_t head_len;
    uint32_t data_len;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct bytes b = from_hex(bad[i]);

        assert_int_equal(read_head_of(bad[i], b.size, &head_len, &data_len), -EBADMSG);
        assert_int_equal(data_len, 0);
        free(b.data);
    }
}

/* The primitives. */

static void padding_completes_four_bytes(void **state)
{
    (void)state;
    assert_int_equal(xdr_pad(0), 0);
    assert_int_equal(xdr_pad(1), 3);
    assert_int_equal(xdr_pad(2), 2);
    assert_int_equal(xdr_pad(3), 1);
    assert_int_equal(xdr_pad(4), 0);
    assert_int_equal(xdr_pad(0xffffffff), 1);
}

static void a_reader_that_failed_stays_failed(void **state)
{
    struct bytes b = from_hex("00000001 00000002 0000");
    struct xdr_reader r;

    (void)state;
    xdr_reader_init(&r, b.data, b.size);
    assert_int_equal(xdr_get_u32(&r), 1);
    assert_true(xdr_get_u64(&r) == 0);
    assert_true(r.bad);
    assert_int_equal(xdr_get_u32(&r), 0);
    assert_int_equal(xdr_reader_left(&r), 0);
    assert_null(xdr_get_room(&r, 0));
    free(b.data);
}

static void a_writer_that_failed_stays_failed(void **state)
{
    uint8_t *block = malloc(6);
    struct xdr_writer w;

    (void)state;
    assert_non_null(block);
    memset(block, 0xee, 6);
    xdr_writer_init(&w, block, 6);
    xdr_put_u64(&w, 1);
    xdr_put_u32(&w, 1);
    assert_true(w.bad);
    assert_memory_equal(block, "\xee\xee\xee\xee\xee\xee", 6);
    free(block);
}

static void opaque_data_is_bounded_by_its_maximum_and_by_the_buffer(void **state)
{
    struct bytes b = from_hex("00000005 0102030405 000000");
    struct bytes huge = from_hex("ffffffff 00000000");
    struct xdr_reader r;
    uint32_t len;

    (void)state;
    xdr_reader_init(&r, b.data, b.size);
    assert_non_null(xdr_get_opaque(&r, 5, &len));
    assert_int_equal(len, 5);
    xdr_reader_init(&r, b.data, b.size);
    assert_null(xdr_get_opaque(&r, 4, &len));
    assert_int_equal(len, 0);
    assert_true(r.bad);
    xdr_reader_init(&r, b.data, b.size - 1);
    assert_null(xdr_get_opaque(&r, 5, &len));
    assert_true(r.bad);
    xdr_reader_init(&r, huge.data, huge.size);
    assert_null(xdr_get_opaque(&r, UINT32_MAX, &len));
    assert_true(r.bad);
    free(b.data);
    free(huge.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_survives_decoding_and_encoding),
        cmocka_unit_test(every_truncated_message_is_refused),
        cmocka_unit_test(encoding_into_a_buffer_too_small_is_refused),
        cmocka_unit_test(getattr_values),
        cmocka_unit_test(setattr_values),
        cmocka_unit_test(lookup_values),
        cmocka_unit_test(access_values),
        cmocka_unit_test(read_values),
        cmocka_unit_test(write_values),
        cmocka_unit_test(create_values),
        cmocka_unit_test(fsstat_values),
        cmocka_unit_test(fsinfo_values),
        cmocka_unit_test(pathconf_values),
        cmocka_unit_test(commit_values),
        cmocka_unit_test(a_mode_with_file_type_bits_is_stripped),
        cmocka_unit_test(a_status_unknown_to_the_standard_is_passed_on),
        cmocka_unit_test(limits_are_accepted_and_fit_the_stated_sizes),
        cmocka_unit_test(a_name_too_long_is_not_encoded),
        cmocka_unit_test(hostile_messages_are_refused),
        cmocka_unit_test(read_head_finds_the_payload_after_attributes),
        cmocka_unit_test(read_head_finds_the_payload_without_attributes),
        cmocka_unit_test(read_head_of_an_empty_read),
        cmocka_unit_test(read_head_of_an_error_has_no_payload),
        cmocka_unit_test(read_head_refuses_what_is_malformed),
        cmocka_unit_test(padding_completes_four_bytes),
        cmocka_unit_test(a_reader_that_failed_stays_failed),
        cmocka_unit_test(a_writer_that_failed_stays_failed),
        cmocka_unit_test(opaque_data_is_bounded_by_its_maximum_and_by_the_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
