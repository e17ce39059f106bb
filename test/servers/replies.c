/* See replies.h. */
#include "replies.h"

void put_pattern(struct bytes *bytes, size_t length, uint8_t seed)
{
    uint8_t some[256];
    for (size_t i = 0; i < length;) {
        size_t count = 0;
        for (; count < sizeof(some) && i < length; i++)
            some[count++] = (uint8_t)(seed + i * 7 + (i >> 8));
        put_bytes(bytes, some, count);
    }
}

uint32_t random_word(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

size_t random_of(uint64_t *seed, size_t limit)
{
    return random_word(seed) % limit;
}

void reply_free(struct reply *reply)
{
    free(reply->message.data);
    free(reply->results.data);
    free(reply->payload.data);
}

void reply_begin(struct reply *reply, uint32_t xid, uint32_t verifier, uint32_t status)
{
    memset(reply, 0, sizeof(*reply));
    reply->xid = xid;
    put_word(&reply->message, xid);
    put_word(&reply->message, 1);
    put_word(&reply->message, 0);
    put_word(&reply->message, verifier ? 6 : 0);
    put_word(&reply->message, verifier);
    put_pattern(&reply->message, (verifier + 3) & ~3u, 0x40);
    put_word(&reply->message, status);
}

void reply_result(struct reply *reply, const void *data, size_t length)
{
    put_bytes(&reply->message, data, length);
    put_bytes(&reply->results, data, length);
}

void reply_result_word(struct reply *reply, uint32_t value)
{
    put_word(&reply->message, value);
    put_word(&reply->results, value);
}

void reply_read(struct reply *reply, uint32_t xid, bool attributes, size_t length)
{
    uint8_t attribute_bytes[ATTRIBUTES];
    memset(attribute_bytes, 0x5a, sizeof(attribute_bytes));
    reply_begin(reply, xid, 0, 0);
    reply_result_word(reply, 0);
    reply_result_word(reply, attributes);
    if (attributes)
        reply_result(reply, attribute_bytes, ATTRIBUTES);
    reply_result_word(reply, (uint32_t)length);
    reply_result_word(reply, length % 2);
    reply_result_word(reply, (uint32_t)length);
    put_pattern(&reply->payload, length, (uint8_t)xid);
    put_bytes(&reply->message, reply->payload.data, length);
    put_bytes(&reply->message, "\xaa\xbb\xcc", -length & 3); /* a server may send any padding */
}

void reply_plain(struct reply *reply, uint32_t xid, size_t length)
{
    reply_begin(reply, xid, 0, 0);
    put_pattern(&reply->results, length, (uint8_t)(xid + 3));
    put_bytes(&reply->message, reply->results.data, length);
}

void reply_bad(struct reply *reply, int error)
{
    reply->error = error;
    reply->results.length = 0;
    reply->payload.length = 0;
}

void put_record(struct bytes *stream, const struct bytes *message)
{
    put_word(stream, RPC_LAST_FRAGMENT | (uint32_t)message->length);
    put_bytes(stream, message->data, message->length);
}

void put_fragments(struct bytes *stream, const struct bytes *message, size_t longest,
                   uint64_t *seed)
{
    size_t at = 0;
    for (;;) {
        size_t take = random_of(seed, longest + 1);
        if (take > message->length - at)
            take = message->length - at;
        bool last = at + take == message->length && random_of(seed, 3) > 0;
        put_word(stream, (last ? RPC_LAST_FRAGMENT : 0) | (uint32_t)take);
        put_bytes(stream, message->data + at, take);
        at += take;
        if (last)
            return;
    }
}
