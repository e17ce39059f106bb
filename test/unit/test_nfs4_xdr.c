/* The codec of NFSv4.1 against bytes written down by hand, and against bytes that are wrong. */
#include "nfs4_messages.h"
#include "unit.h"

/* ---- requests ---- */

static const uint8_t session[NFS4_SESSION_ID] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                                 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
static const struct nfs4_stateid anonymous;
static const struct nfs_fh fh = {5, {1, 2, 3, 4, 5}};

struct request {
    struct xdr_writer w;
    uint8_t room[512];
};

static struct xdr_writer *request_begin(struct request *request, uint32_t operations)
{
    xdr_writer_init(&request->w, request->room, sizeof(request->room));
    memset(request->room, 0xee, sizeof(request->room));
    nfs4_put_compound(&request->w, operations);
    return &request->w;
}

/* SEQUENCE and PUTFH, as they stand before all that concerns a file. */
static struct xdr_writer *request_of_file(struct request *request, uint32_t operations)
{
    struct xdr_writer *w = request_begin(request, 2 + operations);
    nfs4_stamp_sequence(nfs4_put_sequence(w, session, true), 7, 3, 5);
    nfs4_put_fh(w, &fh);
    return w;
}

static void request_is(const struct request *request, const char *hex)
{
    struct exact expected = hex_exact(hex);
    assert_false(request->w.bad);
    assert_int_equal(request->w.p - request->room, expected.size);
    assert_memory_equal(request->room, expected.data, expected.size);
    free(expected.data);
}

UNIT_TEST(requests_that_make_and_end_a_session)
{
    struct request r;
    static const struct nfs4_channel fore = {0x101000, 0x100800, 0x400, 8, 64};
    nfs4_put_exchange_id(request_begin(&r, 1), 0x0102030405060708, "host1", 5);
    request_is(&r, CALL("00000001") "0000002a 0102030405060708 00000005 686f737431 000000 "
                                    "00010000 00000000 00000000");
    nfs4_put_create_session(request_begin(&r, 1), 0xc1c2c3c4c5c6c7c8, 1, &fore);
    request_is(&r,
               CALL("00000001") "0000002b c1c2c3c4c5c6c7c8 00000001 00000000 "
                                "00000000 00101000 00100800 00000400 00000008 00000040 00000000 "
                                "00000000 00001000 00001000 00000000 00000002 00000001 00000000 "
                                "40000000 00000001 00000000");
    nfs4_put_bind(request_begin(&r, 1), session);
    request_is(&r, CALL("00000001") "00000029 " SESSION "00000001 00000000");
    nfs4_put_destroy_session(request_begin(&r, 1), session);
    request_is(&r, CALL("00000001") "0000002c " SESSION);
    nfs4_put_destroy_client(request_begin(&r, 1), 0xc1c2c3c4c5c6c7c8);
    request_is(&r, CALL("00000001") "00000039 c1c2c3c4c5c6c7c8");
    struct xdr_writer *w = request_begin(&r, 2);
    nfs4_stamp_sequence(nfs4_put_sequence(w, session, true), 7, 3, 5);
    nfs4_put_reclaim_complete(w);
    request_is(&r, CALL("00000002") SEQUENCE "0000003a 00000000");
}

UNIT_TEST(requests_that_find_a_file)
{
    struct request r;
    struct xdr_writer *w = request_begin(&r, 4);
    nfs4_stamp_sequence(nfs4_put_sequence(w, session, true), 7, 3, 5);
    nfs4_put_op(w, NFS4_OP_PUTROOTFH);
    nfs4_put_lookup(w, "foo", 3);
    nfs4_put_op(w, NFS4_OP_GETFH);
    request_is(&r, CALL("00000004") SEQUENCE "00000018 0000000f 00000003 666f6f00 0000000a");
    w = request_of_file(&r, 2);
    nfs4_put_access(w, NFS_ACCESS_READ | NFS_ACCESS_MODIFY);
    nfs4_put_getattr(w, NFS4_OF_FILE);
    request_is(&r, CALL("00000004") SEQUENCE PUTFH "00000003 00000005 " GETATTR);
    nfs4_put_secinfo(request_of_file(&r, 1), NULL, 0);
    request_is(&r, CALL("00000003") SEQUENCE PUTFH "00000034 00000000");
    nfs4_put_secinfo(request_of_file(&r, 1), "foo", 3);
    request_is(&r, CALL("00000003") SEQUENCE PUTFH "00000021 00000003 666f6f00");
    nfs4_put_open(request_of_file(&r, 1), 0xc1c2c3c4c5c6c7c8, "me", 2,
                  NFS4_SHARE_READ | NFS4_SHARE_WRITE | NFS4_SHARE_NO_DELEGATION);
    request_is(&r, CALL("00000003") SEQUENCE PUTFH
               "00000012 00000000 00000403 00000000 c1c2c3c4c5c6c7c8 00000002 6d650000 "
               "00000000 00000004");
    nfs4_put_close(request_of_file(&r, 1), &anonymous);
    request_is(&r, CALL("00000003") SEQUENCE PUTFH "00000004 00000000 " STATEID);
}

UNIT_TEST(requests_for_data)
{
    struct request r;
    struct xdr_writer *w = request_of_file(&r, 2);
    nfs4_put_getattr(w, NFS4_OF_FILE);
    nfs4_put_read(w, &anonymous, 0x123456789a, 0x2000);
    request_is(&r, CALL("00000004") SEQUENCE PUTFH GETATTR "00000019 " STATEID
                                                           "000000123456789a 00002000");
    nfs4_put_write(request_of_file(&r, 1), &anonymous, 0x123456789a, 0x2000, NFS_FILE_SYNC);
    request_is(&r, CALL("00000003") SEQUENCE PUTFH "00000026 " STATEID
                                                   "000000123456789a 00000002 00002000");
    nfs4_put_commit(request_of_file(&r, 1), 0x1000, 0x2000);
    request_is(&r, CALL("00000003") SEQUENCE PUTFH "00000005 0000000000001000 00002000");
    nfs4_put_set_size(request_of_file(&r, 1), &anonymous, 0x123456789a);
    request_is(&r, CALL("00000003") SEQUENCE PUTFH "00000022 " STATEID
                                                   "00000001 00000010 00000008 000000123456789a");
}

UNIT_TEST(what_does_not_fit_is_refused)
{
    struct request r;
    struct nfs_fh longest = {NFS4_FH_MAX, {1}}, longer = {NFS4_FH_MAX + 1, {1}};
    char name[NFS_NAME_MAX + 1];
    memset(name, 'x', sizeof(name));
    nfs4_put_fh(request_begin(&r, 1), &longest);
    assert_false(r.w.bad);
    nfs4_put_fh(request_begin(&r, 1), &longer);
    assert_true(r.w.bad);
    nfs4_put_lookup(request_begin(&r, 1), name, NFS_NAME_MAX);
    assert_false(r.w.bad);
    nfs4_put_lookup(request_begin(&r, 1), name, NFS_NAME_MAX + 1);
    assert_true(r.w.bad);
    for (size_t room = 0; room < 12; room++) {
        xdr_writer_init(&r.w, r.room, room);
        nfs4_put_compound(&r.w, 1);
        assert_true(r.w.bad);
        assert_null(nfs4_put_sequence(&r.w, session, true));
    }
}

/* ---- replies ---- */

static int get(const char *hex, enum reply_kind kind, struct reply *reply)
{
    struct exact b = hex_exact(hex);
    struct xdr_reader r;
    xdr_reader_init(&r, b.data, b.size);
    int result = reply_get(&r, kind, reply);
    if (result == 0)
        assert_int_equal(xdr_reader_left(&r), 0);
    free(b.data);
    return result;
}

static void get_good(enum reply_kind kind, struct reply *reply)
{
    assert_int_equal(get(replies[kind], kind, reply), 0);
    assert_int_equal(reply->status, NFS4_OK);
}

UNIT_TEST(replies_that_make_a_session)
{
    struct reply r;
    get_good(REPLY_EXCHANGE_ID, &r);
    assert_true(r.exchange.client == 0xc1c2c3c4c5c6c7c8u);
    assert_int_equal(r.exchange.sequence, 1);
    assert_int_equal(r.exchange.flags, NFS4_USE_NON_PNFS);
    assert_int_equal(r.exchange.minor, 4);
    assert_int_equal(r.exchange.major.length, 3);
    assert_memory_equal(r.exchange.major.data, "abc", 3);
    assert_int_equal(r.exchange.scope.length, 2);
    assert_memory_equal(r.exchange.scope.data, "hi", 2);
    get_good(REPLY_CREATE_SESSION, &r);
    assert_memory_equal(r.created.session, session, sizeof(session));
    assert_int_equal(r.created.fore.request_max, 0x101000);
    assert_int_equal(r.created.fore.response_max, 0x100800);
    assert_int_equal(r.created.fore.cached_max, 0x400);
    assert_int_equal(r.created.fore.operations, 8);
    assert_int_equal(r.created.fore.requests, 64);
    get_good(REPLY_BIND, &r);
    assert_memory_equal(r.session, session, sizeof(session));
}

static void check_attributes(const struct nfs4_attributes *a)
{
    assert_true(a->present == NFS4_OF_FILE);
    assert_int_equal(a->attr.type, NFS_REG);
    assert_true(a->attr.change == 0x1111111122222222u);
    assert_true(a->attr.size == 0x123456789u);
    assert_true(a->attr.used == 0x123457000u);
    assert_true(a->attr.fileid == 0x99aabbccddeeff01u);
    assert_int_equal(a->attr.atime.sec, 0x5f000001);
    assert_int_equal(a->attr.atime.nsec, 10);
    assert_int_equal(a->attr.mtime.sec, 0x5f000002);
    assert_int_equal(a->attr.mtime.nsec, 11);
    assert_int_equal(a->attr.ctime.sec, 0x5f000003);
    assert_int_equal(a->attr.ctime.nsec, 12);
}

UNIT_TEST(replies_with_attributes)
{
    struct reply r;
    get_good(REPLY_GETATTR, &r);
    assert_memory_equal(r.sequence.session, session, sizeof(session));
    assert_int_equal(r.sequence.sequence, 7);
    assert_int_equal(r.sequence.slot, 3);
    assert_int_equal(r.sequence.highest, 9);
    assert_int_equal(r.sequence.target, 8);
    assert_int_equal(r.sequence.flags, NFS4_CB_PATH_DOWN);
    check_attributes(&r.attributes);
    get_good(REPLY_LOOKUP, &r);
    assert_int_equal(r.fh.len, 5);
    assert_memory_equal(r.fh.data, "\1\2\3\4\5", 5);
    check_attributes(&r.attributes);
    get_good(REPLY_ACCESS, &r);
    assert_int_equal(r.access, 0xd);
    check_attributes(&r.attributes);
}

UNIT_TEST(replies_about_data)
{
    struct reply r;
    get_good(REPLY_READ, &r);
    assert_int_equal(r.count, 16);
    assert_true(r.eof);
    check_attributes(&r.attributes);
    get_good(REPLY_WRITE, &r);
    assert_int_equal(r.count, 0x2000);
    assert_int_equal(r.committed, NFS_FILE_SYNC);
    assert_memory_equal(&r.verifier, "\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8", 8);
    check_attributes(&r.attributes);
    get_good(REPLY_COMMIT, &r);
    assert_memory_equal(&r.verifier, "\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8", 8);
    get_good(REPLY_SETATTR, &r);
    check_attributes(&r.attributes);
    get_good(REPLY_OPEN, &r);
    assert_memory_equal(r.stateid.bytes, "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 16);
    get_good(REPLY_CLOSE, &r);
    get_good(REPLY_SECINFO, &r);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.flavors[0], 6);
    assert_int_equal(r.flavors[1], 1);
    assert_int_equal(r.flavors[2], 390004);
}

UNIT_TEST(an_operation_that_fails_ends_the_reply)
{
    struct reply r;
    assert_int_equal(get(REPLY("00002744", "00000001") "00000035 00002744", REPLY_READ, &r), 0);
    assert_int_equal(r.status, NFS4ERR_BADSESSION);
    assert_int_equal(
        get(REPLY("00000046", "00000002") SEQUENCED "00000016 00000046", REPLY_READ, &r), 0);
    assert_int_equal(r.status, NFS4ERR_STALE);
    assert_int_equal(get(REPLY("0000001c", "00000003") SEQUENCED PUTFH_DONE "00000026 0000001c",
                         REPLY_WRITE, &r),
                     0);
    assert_int_equal(r.status, NFS4ERR_NOSPC);
    /* An operation that the server does not know has a number of its own in the reply. */
    assert_int_equal(get(REPLY("0000273c", "00000001") "0000273c 0000273c", REPLY_EXCHANGE_ID, &r),
                     0);
    assert_int_equal(r.status, NFS4ERR_OP_ILLEGAL);
}

UNIT_TEST(the_answer_to_something_else_is_none)
{
    struct reply r;
    assert_int_equal(get(replies[REPLY_GETATTR], REPLY_WRITE, &r), -EBADMSG);
    assert_int_equal(get(replies[REPLY_COMMIT], REPLY_READ, &r), -EBADMSG);
    assert_int_equal(get(replies[REPLY_EXCHANGE_ID], REPLY_CREATE_SESSION, &r), -EBADMSG);
}

#define GETATTR_REPLY(attributes) \
    REPLY(OK, "00000003") SEQUENCED PUTFH_DONE "00000009 " OK attributes

UNIT_TEST(attributes_that_cannot_be_are_refused)
{
    struct reply r;
    static const char *const wrong[] = {
        GETATTR_REPLY("00000000 00000000"),                   /* none of what is needed */
        GETATTR_REPLY("00000002 0010011b 0030a000 00000058"), /* one that was not asked for */
        GETATTR_REPLY("00000009 0010011a 0030a000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000"),
        GETATTR_REPLY("00000003 0010011a 0030a000 00000001 00000058"),
        GETATTR_REPLY("00000002 0010011a 0030a000 ffffffff"),
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(get(wrong[i], REPLY_GETATTR, &r), -EBADMSG);
    /* The length of all of them is not the sum. */
    struct exact b = hex_exact(replies[REPLY_GETATTR]);
    for (int difference = -4; difference <= 4; difference += 8) {
        struct exact copy = hex_exact(replies[REPLY_GETATTR]);
        struct xdr_reader reader;
        size_t at = b.size - 0x58 - 4;
        xdr_store_u32(copy.data + at, (uint32_t)(0x58 + difference));
        xdr_reader_init(&reader, copy.data, copy.size);
        assert_int_equal(reply_get(&reader, REPLY_GETATTR, &r), -EBADMSG);
        free(copy.data);
    }
    free(b.data);
}

UNIT_TEST(a_file_without_its_space_and_time_of_access_is_good)
{
    struct reply r;
    assert_int_equal(get(GETATTR_REPLY("00000002 0010011a 00300000 00000044 "
                                       "00000001 1111111122222222 0000000123456789 "
                                       "0000000000000007 0000000000000009 99aabbccddeeff01 "
                                       "000000005f000003 0000000c 000000005f000002 0000000b"),
                         REPLY_GETATTR, &r),
                     0);
    assert_true(r.attributes.attr.used == r.attributes.attr.size);
    assert_int_equal(r.attributes.attr.atime.sec, r.attributes.attr.mtime.sec);
}

/* ---- hostile bytes ---- */

UNIT_TEST(a_reply_that_is_cut_off_is_refused)
{
    for (int kind = 0; kind < REPLY_KINDS; kind++) {
        struct exact whole = hex_exact(replies[kind]);
        for (size_t size = 0; size < whole.size; size++) {
            struct reply r;
            struct xdr_reader reader;
            uint8_t *part = malloc(size ? size : 1);
            memcpy(part, whole.data, size);
            xdr_reader_init(&reader, part, size);
            if (reply_get(&reader, (enum reply_kind)kind, &r) != -EBADMSG)
                fail_msg("reply %d of %zu bytes is taken with %zu", kind, whole.size, size);
            free(part);
        }
        free(whole.data);
    }
}

/* Whatever it says in a place of any word: the sanitizers look on. */
UNIT_TEST(no_word_makes_it_read_elsewhere)
{
    static const uint32_t words[] = {0, 1, 2, 3, 6, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
    for (int kind = 0; kind < REPLY_KINDS; kind++) {
        struct exact whole = hex_exact(replies[kind]);
        for (size_t at = 0; at + 4 <= whole.size; at += 4) {
            for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                struct reply r;
                struct xdr_reader reader;
                uint32_t was = xdr_load_u32(whole.data + at), length;
                size_t head;
                xdr_store_u32(whole.data + at, words[i]);
                xdr_reader_init(&reader, whole.data, whole.size);
                reply_get(&reader, (enum reply_kind)kind, &r);
                assert_true(reader.p <= reader.end);
                nfs4_read_head(whole.data, whole.size, &head, &length);
                nfs4_exchange_id_find(whole.data, whole.size, &head, &length);
                xdr_store_u32(whole.data + at, was);
            }
        }
        free(whole.data);
    }
}

/* ---- payloads ---- */

typedef int finder(const uint8_t *results, size_t have, size_t *head, uint32_t *length);

/* Bytes arrive one by one: more are asked for until the head is there. */
static void find(const char *hex, finder *finder, size_t head, uint32_t length)
{
    struct exact whole = hex_exact(hex);
    size_t wanted = 0;
    for (size_t have = 0; have <= whole.size; have++) {
        uint8_t *part = malloc(have ? have : 1);
        size_t found_head;
        uint32_t found_length;
        memcpy(part, whole.data, have);
        int found = finder(part, have, &found_head, &found_length);
        bool all = have == whole.size;
        assert_int_equal(found, all ? 1 : 0);
        if (all) {
            assert_true(have >= wanted);
            assert_int_equal(found_head, head);
            assert_int_equal(found_length, length);
        } else if (finder == nfs4_read_head) {
            assert_true(found_head > have && found_head <= whole.size);
            wanted = found_head;
        }
        free(part);
    }
    free(whole.data);
}

UNIT_TEST(payloads_are_found_in_what_has_arrived)
{
    struct exact read = hex_exact(replies[REPLY_READ]), id = hex_exact(replies[REPLY_EXCHANGE_ID]);
    find(replies[REPLY_READ], nfs4_read_head, read.size, 16);
    find(replies[REPLY_EXCHANGE_ID], nfs4_exchange_id_find, 0, (uint32_t)id.size);
    free(read.data);
    free(id.data);
    /* No payload, where an operation fails. */
    find(REPLY("00000046", "00000002") SEQUENCED "00000016 00000046", nfs4_read_head, 64, 0);
    find(REPLY("00002725", "00000000"), nfs4_read_head, 12, 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
