/* The NFSv3 codec against bytes written down by hand: both directions, and the values between. */
#include "nfs3_messages.h"

UNIT_TEST(every_message_survives_decoding_and_encoding)
{
    for (size_t i = 0; i < message_count; i++) {
        const struct message *m = &messages[i];
        struct exact b = hex_exact(m->hex);
        uint8_t *out = malloc(b.size);
        union decoded v;
        struct xdr_writer w;

        assert_non_null(out);
        assert_int_equal(decode(m->hex, m->get, &v), 0);
        memset(out, 0xee, b.size);
        xdr_writer_init(&w, out, b.size);
        assert_int_equal(m->put(&w, &v), 0);
        if (xdr_writer_left(&w) != 0 || memcmp(out, b.data, b.size) != 0)
            fail_msg("%s comes out otherwise than it went in", m->name);
        free(out);
        free(b.data);
    }
}

/* The values behind the bytes. */

static void check_fh(const struct nfs_fh *fh)
{
    assert_int_equal(fh->len, 5);
    assert_memory_equal(fh->data, "\1\2\3\4\5", 5);
}

static void check_time(const struct nfs_time *t, uint32_t sec, uint32_t nsec)
{
    assert_int_equal(t->sec, sec);
    assert_int_equal(t->nsec, nsec);
}

static void check_attr(const struct nfs_attr *attr)
{
    assert_int_equal(attr->type, NFS_REG);
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

static void check_post(const struct nfs_post_attr *post)
{
    assert_true(post->present);
    check_attr(&post->attr);
}

static void check_wcc(const struct nfs_wcc *wcc)
{
    assert_true(wcc->before_present);
    assert_true(wcc->size == 4096);
    check_time(&wcc->mtime, 0x5e000001, 1);
    check_time(&wcc->ctime, 0x5e000002, 2);
    check_post(&wcc->after);
}

static void check_sattr(const struct nfs_sattr *sattr)
{
    assert_true(sattr->set_mode);
    assert_int_equal(sattr->mode, 0600);
    assert_true(sattr->set_uid);
    assert_int_equal(sattr->uid, 1000);
    assert_false(sattr->set_gid);
    assert_true(sattr->set_size);
    assert_true(sattr->size == 4096);
    assert_int_equal(sattr->set_atime, NFS_SET_TO_SERVER_TIME);
    assert_int_equal(sattr->set_mtime, NFS_SET_TO_CLIENT_TIME);
    check_time(&sattr->mtime, 0x5f000010, 17);
}

static void check_verifier(uint64_t verifier)
{
    assert_memory_equal(&verifier, "\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8", 8);
}

UNIT_TEST(getattr_values)
{
    union decoded v;

    assert_int_equal(decode(FH, get_fh_args, &v), 0);
    check_fh(&v.fh_args.fh);
    assert_int_equal(decode(GETATTR_OK, get_getattr_res, &v), 0);
    assert_int_equal(v.getattr.status, NFS3_OK);
    check_attr(&v.getattr.attr);
    assert_int_equal(decode("00000046", get_getattr_res, &v), 0);
    assert_int_equal(v.getattr.status, NFS3ERR_STALE);
}

UNIT_TEST(setattr_values)
{
    union decoded v;

    assert_int_equal(decode(SETATTR_ARGS, get_setattr_args, &v), 0);
    check_fh(&v.setattr_args.fh);
    check_sattr(&v.setattr_args.attr);
    assert_true(v.setattr_args.guard);
    check_time(&v.setattr_args.guard_ctime, 0x5f000003, 12);
    assert_int_equal(decode(FH NOSATTR "00000000", get_setattr_args, &v), 0);
    assert_false(v.setattr_args.attr.set_mode);
    assert_false(v.setattr_args.attr.set_size);
    assert_int_equal(v.setattr_args.attr.set_mtime, NFS_DONT_CHANGE);
    assert_false(v.setattr_args.guard);
    assert_int_equal(decode(OK WCC, get_setattr_res, &v), 0);
    assert_int_equal(v.setattr.status, NFS3_OK);
    check_wcc(&v.setattr.wcc);
}

UNIT_TEST(lookup_values)
{
    union decoded v;

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

UNIT_TEST(access_values)
{
    union decoded v;

    assert_int_equal(decode(ACCESS_ARGS, get_access_args, &v), 0);
    check_fh(&v.access_args.fh);
    assert_int_equal(v.access_args.access, NFS_ACCESS_READ | NFS_ACCESS_LOOKUP | NFS_ACCESS_MODIFY |
                                               NFS_ACCESS_EXTEND | NFS_ACCESS_DELETE);
    assert_int_equal(decode(ACCESS_OK, get_access_res, &v), 0);
    check_post(&v.access.attr);
    assert_int_equal(v.access.access, NFS_ACCESS_READ | NFS_ACCESS_MODIFY | NFS_ACCESS_EXTEND);
}

UNIT_TEST(read_values)
{
    union decoded v;

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

UNIT_TEST(write_values)
{
    union decoded v;

    assert_int_equal(decode(WRITE_ARGS, get_write_args, &v), 0);
    check_fh(&v.write_args.fh);
    assert_true(v.write_args.offset == 0x100000200u);
    assert_int_equal(v.write_args.count, 5);
    assert_int_equal(v.write_args.stable, NFS_FILE_SYNC);
    assert_int_equal(decode(WRITE_OK, get_write_res, &v), 0);
    check_wcc(&v.write.wcc);
    assert_int_equal(v.write.count, 4096);
    assert_int_equal(v.write.committed, NFS_FILE_SYNC);
    check_verifier(v.write.verifier);
    assert_int_equal(decode("0000001c" NOWCC, get_write_res, &v), 0);
    assert_int_equal(v.write.status, NFS3ERR_NOSPC);
    assert_false(v.write.wcc.before_present);
    assert_false(v.write.wcc.after.present);
}

UNIT_TEST(fsinfo_values)
{
    union decoded v;

    memset(&v, 0xff, sizeof(v));
    assert_int_equal(decode(FSINFO_OK, get_fsinfo_res, &v), 0);
    assert_false(v.fsinfo.by_layouts);
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
                     NFS_FSF_LINK | NFS_FSF_SYMLINK | NFS_FSF_HOMOGENEOUS | NFS_FSF_CANSETTIME);
}

UNIT_TEST(commit_values)
{
    union decoded v;

    assert_int_equal(decode(COMMIT_ARGS, get_commit_args, &v), 0);
    check_fh(&v.commit_args.fh);
    assert_true(v.commit_args.offset == 0x100000200u);
    assert_int_equal(v.commit_args.count, 0);
    assert_int_equal(decode(COMMIT_OK, get_commit_res, &v), 0);
    check_wcc(&v.commit.wcc);
    check_verifier(v.commit.verifier);
}

UNIT_TEST(a_mode_with_file_type_bits_is_stripped)
{
    union decoded v;

    assert_int_equal(decode(OK "00000001 000081ed" /* 0100755 */
                               "00000001 00000000 00000000 0000000000000000 0000000000000000 "
                               "00000000 00000000 0000000000000000 0000000000000000 "
                               "00000000 00000000 00000000 00000000 00000000 00000000",
                            get_getattr_res, &v),
                     0);
    assert_int_equal(v.getattr.attr.mode, 0755);
}

UNIT_TEST(a_status_unknown_to_the_standard_is_passed_on)
{
    union decoded v;

    assert_int_equal(decode("0000270f", get_getattr_res, &v), 0);
    assert_int_equal(v.getattr.status, 9999);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
