/*
 * The NFSv3 codec against everything a peer must not send, against messages that are cut short, and
 * at its limits; and the head of READ results met piece by piece.
 */
#include "nfs3_messages.h"

UNIT_TEST(every_truncated_message_is_refused)
{
    for (size_t i = 0; i < message_count; i++) {
        struct exact b = hex_exact(messages[i].hex);
        union decoded v;
        size_t left;

        for (size_t size = 0; size < b.size; size++)
            if (decode_part(&b, size, messages[i].get, &v, &left) != -EBADMSG)
                fail_msg("%s accepted with %zu of %zu bytes", messages[i].name, size, b.size);
        free(b.data);
    }
}

UNIT_TEST(encoding_into_a_buffer_too_small_is_refused)
{
    for (size_t i = 0; i < message_count; i++) {
        struct exact b = hex_exact(messages[i].hex);
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

/* The largest handle and name there are. */

UNIT_TEST(limits_are_accepted_and_fit_the_stated_sizes)
{
    struct nfs_fh fh = {.len = NFS3_FH_MAX};
    struct nfs3_lookup_res lookup = {
        .status = NFS3_OK, .attr.present = true, .dir_attr.present = true};
    struct nfs3_lookup_args args;
    struct nfs3_read_res read = {.status = NFS3_OK, .attr.present = true, .count = 1};
    char name[NFS_NAME_MAX + 2];
    uint8_t *buffer = malloc(NFS3_ARGS_MAX);
    struct xdr_writer w;
    struct xdr_reader r;

    assert_non_null(buffer);
    memset(name, 'n', sizeof(name));
    name[NFS_NAME_MAX] = '\0';
    memset(fh.data, 0xf0, sizeof(fh.data));
    lookup.fh = fh;

    xdr_writer_init(&w, buffer, NFS3_ARGS_MAX);
    assert_int_equal(nfs3_lookup_args_put(&w, &fh, name), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    xdr_reader_init(&r, buffer, (size_t)(w.p - buffer));
    assert_int_equal(nfs3_lookup_args_get(&r, &args), 0);
    assert_string_equal(args.name, name);
    assert_memory_equal(args.dir.data, fh.data, NFS3_FH_MAX);

    xdr_writer_init(&w, buffer, NFS3_READ_ARGS_MAX);
    assert_int_equal(nfs3_read_args_put(&w, &fh, 0, 1), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    xdr_writer_init(&w, buffer, NFS3_WRITE_ARGS_MAX);
    assert_int_equal(nfs3_write_args_put(&w, &fh, 0, 1, NFS_UNSTABLE), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    xdr_writer_init(&w, buffer, NFS3_READ_HEAD_MAX);
    assert_int_equal(nfs3_read_res_put(&w, &read), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    lookup.attr.attr.type = lookup.dir_attr.attr.type = NFS_DIR;
    xdr_writer_init(&w, buffer, NFS3_RES_MAX);
    assert_int_equal(nfs3_lookup_res_put(&w, &lookup), 0);
    assert_int_equal(xdr_writer_left(&w), 0);
    free(buffer);
}

UNIT_TEST(a_name_too_long_is_not_encoded)
{
    struct nfs_fh fh = {.len = 4};
    char name[NFS_NAME_MAX + 2];
    uint8_t buffer[NFS3_ARGS_MAX];
    struct xdr_writer w;

    memset(name, 'n', sizeof(name));
    name[NFS_NAME_MAX + 1] = '\0';
    xdr_writer_init(&w, buffer, sizeof(buffer));
    assert_int_equal(nfs3_lookup_args_put(&w, &fh, name), -ENAMETOOLONG);
}

UNIT_TEST(a_handle_too_long_is_not_encoded)
{
    struct nfs_fh fh = {.len = NFS3_FH_MAX + 1};
    uint8_t buffer[NFS3_ARGS_MAX];
    struct xdr_writer w;

    xdr_writer_init(&w, buffer, sizeof(buffer));
    assert_int_equal(nfs3_fh_args_put(&w, &fh), -EMSGSIZE);
}

/* What no peer may send. */

#define FH65                                                                        \
    "00000041 0000000000000000 0000000000000000 0000000000000000 0000000000000000 " \
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000 00 000000 "

/* wcc_data whose first word is neither 0 nor 1. */
#define BEFORE_VALUES "0000000000001000 5e000001 00000001 5e000002 00000002 "
#define TWICE_BEFORE  "00000002 " BEFORE_VALUES
#define MANY_BEFORE   "ffffffff " BEFORE_VALUES

#define N16     "6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e "
#define N64     N16 N16 N16 N16
#define NAME256 "00000100 " N64 N64 N64 N64

static const struct {
    const char *why;
    const char *hex;
    int (*get)(struct xdr_reader *r, void *v);
} hostile[] = {
    {"handle of 65 bytes in arguments", FH65, get_fh_args},
    {"handle of 65 bytes in LOOKUP", OK FH65 NOPOST NOPOST, get_lookup_res},
    {"handle of 2^32-1 bytes", OK "ffffffff 00000000" NOPOST NOPOST, get_lookup_res},
    {"handle of 2^31 bytes", OK "80000000 00000000" NOPOST NOPOST, get_lookup_res},
    {"handle of no bytes", OK "00000000" NOPOST NOPOST, get_lookup_res},
    {"attributes present 2", OK FH "00000002" ATTR NOPOST, get_lookup_res},
    {"wcc present 2", OK TWICE_BEFORE NOPOST, get_setattr_res},
    {"wcc present 2^32-1", OK MANY_BEFORE NOPOST VERIFIER, get_commit_res},
    {"file type 0", OK "00000000" ATTR, get_getattr_res},
    {"file type 8", OK "00000008" ATTR, get_getattr_res},
    {"more read than asked", OK NOPOST "00002001 00000000 00002001", get_read_res},
    {"2^32-1 bytes read", OK NOPOST "ffffffff 00000000 ffffffff", get_read_res},
    {"data length is not count", OK NOPOST "00001000 00000000 00001004", get_read_res},
    {"data length below count", OK NOPOST "00001000 00000000 00000000", get_read_res},
    {"eof 2", OK NOPOST "00001000 00000002 00001000", get_read_res},
    {"more written than asked", OK NOWCC "00002001 00000000" VERIFIER, get_write_res},
    {"committed 3", OK NOWCC "00002000 00000003" VERIFIER, get_write_res},
    {"stable_how 3", FH "0000000000000000 00000004 00000003 00000004", get_write_args},
    {"write length is not count", FH "0000000000000000 00000004 00000000 00000005", get_write_args},
    {"name of 256 bytes", FH NAME256, get_lookup_args},
    {"name of 2^32-1 bytes", FH "ffffffff 00000000", get_lookup_args},
    {"name with a NUL", FH "00000003 660066 00", get_lookup_args},
    {"time_how 3", FH "00000000 00000000 00000000 00000000 00000003 00000000 00000000",
     get_setattr_args},
    {"set mode 2", FH "00000002 00000180" NOSATTR "00000000", get_setattr_args},
};

UNIT_TEST(hostile_messages_are_refused)
{
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        union decoded v;

        if (decode(hostile[i].hex, hostile[i].get, &v) != -EBADMSG)
            fail_msg("accepted: %s", hostile[i].why);
    }
}

/* The head of READ results, met piece by piece. */

static int read_head_of(const char *hex, size_t have, size_t *head_len, uint32_t *data_len)
{
    struct exact b = hex_exact(hex);
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
    struct exact b = hex_exact(hex);
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

UNIT_TEST(read_head_finds_the_payload_after_attributes)
{
    check_read_head(OK POST "00000006 00000001 00000006 646174612e2e 0000", 104, 6);
}

UNIT_TEST(read_head_finds_the_payload_without_attributes)
{
    check_read_head(OK NOPOST "00000006 00000000 00000006 646174612e2e 0000", 20, 6);
}

UNIT_TEST(read_head_of_an_empty_read)
{
    check_read_head(OK NOPOST "00000000 00000001 00000000", 20, 0);
}

UNIT_TEST(read_head_of_an_error_has_no_payload)
{
    check_read_head("00000005" POST, 92, 0);
    check_read_head("00000046" NOPOST, 8, 0);
}

UNIT_TEST(read_head_refuses_what_is_malformed)
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

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct exact b = hex_exact(bad[i]);

        assert_int_equal(read_head_of(bad[i], b.size, &head_len, &data_len), -EBADMSG);
        assert_int_equal(data_len, 0);
        free(b.data);
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
