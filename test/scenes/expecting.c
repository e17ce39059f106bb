/* See expecting.h. */
#include "expecting.h"

enum { GUARD = 16, GUARD_BYTE = 0xee };

int find_read_payload(const uint8_t *results, size_t have, size_t *head, uint32_t *length)
{
    *length = 0;
    if (have < 8)
        return 0;
    uint32_t follow = rpc_word(results + 4);
    if (follow > 1)
        return -EBADMSG;
    size_t need = 8 + (follow ? ATTRIBUTES : 0);
    if (rpc_word(results) != 0) {
        *head = need;
        return have >= need;
    }
    need += 12;
    if (have < need)
        return 0;
    *head = need;
    *length = rpc_word(results + need - 4);
    return 1;
}

struct expecting *expecting_new(uint32_t xid, bool read, size_t destination, int vectors)
{
    struct expecting *e = malloc(sizeof(*e));
    assert_non_null(e);
    memset(e, 0xd7, sizeof(*e)); /* nothing may be relied on that rpc_call_begin() does not set */
    memset(&e->reply, 0, sizeof(e->reply));
    struct rpc_auth auth;
    rpc_auth_sys(&auth, "test", 0, 0, NULL, 0);
    rpc_call_end(&e->call, rpc_call_begin(&e->call, &auth, 1, 1, 1));
    rpc_call_stamp(&e->call, xid);
    e->in_flight = true;
    e->answers = 0;
    memset(e->blocks, 0, sizeof(e->blocks));
    if (!read)
        return e;
    size_t left = destination;
    for (int i = 0; i < vectors; i++) {
        size_t length = i == vectors - 1 ? left : left / 3;
        left -= length;
        e->blocks[i] = malloc(length + 2 * GUARD);
        assert_non_null(e->blocks[i]);
        memset(e->blocks[i], GUARD_BYTE, length + 2 * GUARD);
        e->vectors[i] = (struct iovec){e->blocks[i] + GUARD, length};
    }
    e->call.find_payload = find_read_payload;
    e->call.destination = e->vectors;
    e->call.destination_count = vectors;
    e->call.destination_length = destination;
    return e;
}

void expecting_check_guards(const struct expecting *e)
{
    for (int i = 0; i < 4 && e->blocks[i]; i++) {
        const uint8_t *before = e->blocks[i], *behind = before + GUARD + e->vectors[i].iov_len;
        unsigned changed = 0;
        for (size_t g = 0; g < GUARD; g++)
            changed |= (before[g] ^ GUARD_BYTE) | (behind[g] ^ GUARD_BYTE);
        assert_int_equal(changed, 0);
    }
}

/* cmocka, which goes byte by byte, is asked to tell where they differ only. */
static void expect_same(const void *data, const void *truth, size_t length)
{
    if (memcmp(data, truth, length) != 0)
        assert_memory_equal(data, truth, length);
}

void expecting_check(const struct expecting *e)
{
    const struct rpc_call *call = &e->call;
    assert_int_equal(call->error, e->reply.error);
    assert_int_equal(call->results_length, e->reply.results.length);
    if (call->results_length > 0)
        expect_same(call->results, e->reply.results.data, call->results_length);
    assert_int_equal(call->received, e->reply.payload.length);
    size_t at = 0;
    for (int i = 0; i < call->destination_count && at < call->received; i++) {
        size_t length = e->vectors[i].iov_len;
        if (length > call->received - at)
            length = call->received - at;
        expect_same(e->vectors[i].iov_base, e->reply.payload.data + at, length);
        at += length;
    }
    expecting_check_guards(e);
}

void expecting_free(struct expecting *e)
{
    for (int i = 0; i < 4; i++)
        free(e->blocks[i]);
    reply_free(&e->reply);
    free(e);
}
