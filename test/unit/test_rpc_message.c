/*
 * RPC messages against bytes written down by hand from RFC 5531 (section 9, section 11 and
 * appendix A).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rpc/message.h"
#include "unit.h"

enum { STAMP_AT = 8 }; /* of the credential: the time, which is not predictable */

static void check_stamp(const struct rpc_auth *auth)
{
    uint32_t stamp = rpc_word(auth->bytes + STAMP_AT);
    uint32_t now = (uint32_t)time(NULL);
    assert_in_range(stamp, now - 60, now);
}

UNIT_TEST(credential_bytes)
{
    static const uint8_t expected[] = {
        0, 0, 0, 1,                                               /* AUTH_SYS */
        0, 0, 0, 36,                                              /* length of the body */
        0, 0, 0, 0,                                               /* stamp */
        0, 0, 0, 5,   'a', 'l', 'p', 'h', 'a',  0,    0,    0,    /* machine name, padded */
        0, 0, 3, 232,                                             /* uid 1000 */
        0, 0, 0, 100,                                             /* gid */
        0, 0, 0, 2,   0,   0,   0,   100, 0xfe, 0xdc, 0xba, 0x98, /* groups */
        0, 0, 0, 0,   0,   0,   0,   0,                           /* verifier AUTH_NONE */
    };
    const uint32_t groups[] = {100, 0xfedcba98};
    struct rpc_auth auth;
    memset(&auth, 0xff, sizeof(auth));
    rpc_auth_sys(&auth, "alpha", 1000, 100, groups, 2);
    check_stamp(&auth);
    memset(auth.bytes + STAMP_AT, 0, 4);
    /* body: stamp 4, name 4 + 8, uid 4, gid 4, count 4, groups 8 */
    assert_int_equal(auth.length, sizeof(expected));
    assert_memory_equal(auth.bytes, expected, sizeof(expected));
    assert_int_equal(auth.uid, 1000);
    assert_int_equal(auth.gid, 100);
}

UNIT_TEST(groups_beyond_sixteen_are_left_out)
{
    uint32_t groups[40];
    for (uint32_t i = 0; i < 40; i++)
        groups[i] = 5000 + i;
    struct rpc_auth auth;
    rpc_auth_sys(&auth, "abcd", 1, 2, groups, 40);
    size_t count_at = 8 + 4 + 4 + 4 + 4 + 4;
    assert_int_equal(rpc_word(auth.bytes + count_at), 16);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(rpc_word(auth.bytes + count_at + 4 + 4 * i), 5000 + i);
    assert_int_equal(rpc_word(auth.bytes + 4), 4 + 4 + 4 + 4 + 4 + 4 + 64);
    assert_int_equal(auth.length, 8 + rpc_word(auth.bytes + 4) + 8);
    assert_int_equal(rpc_word(auth.bytes + auth.length - 8), 0);
    assert_int_equal(rpc_word(auth.bytes + auth.length - 4), 0);
}

UNIT_TEST(machine_names_of_every_length)
{
    uint32_t groups[16];
    memset(groups, 0x11, sizeof(groups));
    for (size_t length = 0; length < 400; length++) {
        char name[401];
        memset(name, 'm', length);
        name[length] = 0;
        struct rpc_auth auth;
        rpc_auth_sys(&auth, name, 7, 8, groups, 16);
        size_t kept = length < 255 ? length : 255; /* RFC 5531: machinename<255> */
        size_t padded = (kept + 3) / 4 * 4;
        assert_int_equal(rpc_word(auth.bytes + 12), kept);
        for (size_t i = 0; i < padded; i++)
            assert_int_equal(auth.bytes[16 + i], i < kept ? 'm' : 0);
        assert_int_equal(rpc_word(auth.bytes + 16 + padded), 7);
        assert_int_equal(rpc_word(auth.bytes + 16 + padded + 4), 8);
        assert_true(auth.length <= RPC_AUTH_BYTES_MAX);
        assert_int_equal(auth.length, 8 + rpc_word(auth.bytes + 4) + 8);
        assert_true(rpc_word(auth.bytes + 4) <= 400); /* opaque_auth body<400> */
    }
}

UNIT_TEST(call_header_bytes)
{
    static const uint8_t header[] = {
        0x80, 0,
        0,    24 + 40 + 8 + 4 + 8, /* last fragment; header, credential, arguments, payload */
        0x12, 0x34,
        0x56, 0x78, /* xid */
        0,    0,
        0,    0, /* CALL */
        0,    0,
        0,    2, /* RPC version */
        0,    1,
        0x86, 0xa3, /* program 100003 */
        0,    0,
        0,    3, /* version */
        0,    0,
        0,    7, /* procedure */
    };
    struct rpc_auth auth;
    rpc_auth_sys(&auth, "abcd", 1, 2, (const uint32_t[]){3, 4}, 2);
    assert_int_equal(auth.length, 48);
    struct rpc_call *call = malloc(sizeof(*call));
    assert_non_null(call);
    memset(call, 0xa5, sizeof(*call));
    uint8_t *arguments = rpc_call_begin(call, &auth, 100003, 3, 7);
    assert_ptr_equal(arguments, call->head + 28 + auth.length);
    memcpy(arguments, "argu", 4);
    rpc_call_end(call, arguments + 4);
    struct iovec payload = {"12345", 5};
    call->payload = &payload;
    call->payload_count = 1;
    call->payload_length = 5; /* 8 with padding */
    rpc_call_stamp(call, 0x12345678);
    assert_memory_equal(call->head, header, sizeof(header));
    assert_memory_equal(call->head + 28, auth.bytes, auth.length);
    assert_memory_equal(call->head + 28 + auth.length, "argu", 4);
    assert_int_equal(call->head_length, 28 + auth.length + 4);
    assert_int_equal(call->xid, 0x12345678);
    assert_null(call->find_payload);
    assert_int_equal(call->destination_count, 0);
    free(call);
}

UNIT_TEST(head_has_room_for_the_largest_call)
{
    char name[256];
    memset(name, 'm', 255);
    name[255] = 0;
    uint32_t groups[16] = {0};
    struct rpc_auth auth;
    rpc_auth_sys(&auth, name, 0, 0, groups, 16);
    struct rpc_call *call = malloc(sizeof(*call));
    assert_non_null(call);
    uint8_t *arguments = rpc_call_begin(call, &auth, 1, 1, 1);
    assert_true(arguments + RPC_ARGS_MAX <= call->head + RPC_HEAD_MAX);
    free(call);
}

/* ---- replies ---- */

static size_t put_words(uint8_t *at, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        at[4 * i] = (uint8_t)(words[i] >> 24);
        at[4 * i + 1] = (uint8_t)(words[i] >> 16);
        at[4 * i + 2] = (uint8_t)(words[i] >> 8);
        at[4 * i + 3] = (uint8_t)words[i];
    }
    return 4 * count;
}

/* Parses every prefix, in a heap block of exactly its size: `needs` bytes decide, fewer never do.
 */
static void check_prefixes(const uint8_t *message, size_t length, size_t needs, int expected,
                           size_t expected_results)
{
    for (size_t have = 0; have <= length; have++) {
        uint8_t *exact = malloc(have ? have : 1);
        assert_non_null(exact);
        memcpy(exact, message, have);
        size_t results = 0xdead;
        int got = rpc_reply_parse(exact, have, &results);
        free(exact);
        assert_int_equal(got, have < needs ? 0 : expected);
        if (got == 1)
            assert_int_equal(results, expected_results);
    }
}

UNIT_TEST(accepted_statuses)
{
    static const int expected[] = {1,        -EPROTONOSUPPORT, -EPROTONOSUPPORT, -EOPNOTSUPP,
                                   -EBADMSG, -EREMOTEIO,       -EBADMSG,         -EBADMSG};
    for (uint32_t status = 0; status < 8; status++) {
        uint8_t message[64];
        size_t length = put_words(message, (const uint32_t[]){99, 1, 0, 0, 0, status, 2, 4, 42}, 9);
        check_prefixes(message, length, 24, expected[status], 24);
    }
    uint8_t message[64];
    size_t length = put_words(message, (const uint32_t[]){99, 1, 0, 0, 0, 0xffffffff}, 6);
    check_prefixes(message, length, 24, -EBADMSG, 0);
}

UNIT_TEST(denied)
{
    uint8_t message[64];
    size_t length = put_words(message, (const uint32_t[]){99, 1, 1, 0, 2, 2}, 6);
    check_prefixes(message, length, 16, -EPROTONOSUPPORT, 0); /* RPC_MISMATCH */
    for (uint32_t why = 0; why <= 14; why++) {                /* enum auth_stat */
        length = put_words(message, (const uint32_t[]){99, 1, 1, 1, why}, 5);
        check_prefixes(message, length, 16, -EACCES, 0);
    }
    length = put_words(message, (const uint32_t[]){99, 1, 1, 2, 0}, 5);
    check_prefixes(message, length, 16, -EBADMSG, 0);
}

UNIT_TEST(neither_accepted_nor_denied)
{
    uint8_t message[64];
    size_t length = put_words(message, (const uint32_t[]){99, 1, 2, 0, 0, 0}, 6);
    check_prefixes(message, length, 12, -EBADMSG, 0);
    length = put_words(message, (const uint32_t[]){99, 0, 2, 100003, 3, 0}, 6); /* a call */
    check_prefixes(message, length, 12, -EBADMSG, 0);
}

UNIT_TEST(verifier_bodies)
{
    uint8_t *message = calloc(1, 512);
    assert_non_null(message);
    for (uint32_t body = 0; body <= 404; body++) {
        memset(message, 0x77, 512);
        put_words(message, (const uint32_t[]){99, 1, 0, 6, body}, 5);
        size_t accept = 20 + (body + 3) / 4 * 4;
        put_words(message + accept, (const uint32_t[]){0, 0x12345678}, 2);
        if (body <= 400)
            check_prefixes(message, accept + 8, accept + 4, 1, accept + 4);
        else
            check_prefixes(message, accept + 8, 20, -EBADMSG, 0);
    }
    put_words(message, (const uint32_t[]){99, 1, 0, 6, 0xfffffffe}, 5);
    check_prefixes(message, 512, 20, -EBADMSG, 0);
    free(message);
}

UNIT_TEST(slices)
{
    char bytes[100];
    struct iovec vectors[] = {{bytes, 10},      {bytes + 10, 0}, {bytes + 10, 1},
                              {bytes + 11, 50}, {bytes + 61, 0}, {bytes + 61, 39}};
    for (size_t from = 0; from <= 100; from++) {
        for (size_t length = 0; from + length <= 100; length++) {
            struct iovec slice[6];
            int count = rpc_vectors_slice(vectors, 6, from, length, slice);
            size_t at = from;
            for (int i = 0; i < count; i++) { /* the bytes are consecutive in memory */
                assert_ptr_equal(slice[i].iov_base, bytes + at);
                assert_true(slice[i].iov_len > 0);
                at += slice[i].iov_len;
            }
            assert_int_equal(at, from + length);
        }
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
