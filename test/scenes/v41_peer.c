/* See v41_peer.h. */
#include "v41_peer.h"

struct peer peer_at(in_port_t port, in_addr_t host)
{
    struct peer peer = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 1};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(host)};
    assert_int_equal(connect(peer.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return peer;
}

struct peer peer_new(const struct v41_server *server)
{
    return peer_at(server->port, INADDR_LOOPBACK);
}

void peer_send(struct peer *peer, const struct bytes *arguments)
{
    struct bytes call = {0};
    const uint32_t words[] = {0, ++peer->xid, 0, 2, 100003, 4, 1, 0, 0, 0, 0};
    for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
        put_word(&call, words[i]);
    v41_put_fixed(&call, arguments->data, arguments->length);
    record_mark(call.data, call.length);
    assert_int_equal(send(peer->fd, call.data, call.length, MSG_NOSIGNAL), call.length);
    free(call.data);
}

static bool peer_read(struct peer *peer, uint8_t *to, size_t length)
{
    while (length > 0) {
        ssize_t got = recv(peer->fd, to, length, 0);
        if (got <= 0)
            return false;
        to += got;
        length -= (size_t)got;
    }
    return true;
}

bool peer_receive(struct peer *peer, struct answer *answer, uint32_t *xid)
{
    uint8_t head[28];
    *answer = (struct answer){0};
    if (!peer_read(peer, head, sizeof(head)))
        return false;
    size_t length = (v41_word_at(head) & 0x7fffffff) - 24;
    *xid = v41_word_at(head + 4);
    for (unsigned i = 2; i < 7; i++) /* a reply, accepted, AUTH_NONE, success */
        assert_int_equal(v41_word_at(head + 4 * i), i == 2);
    answer->data = malloc(length);
    if (!peer_read(peer, answer->data, length)) {
        free(answer->data);
        answer->data = NULL;
        return false;
    }
    answer->in = (struct v41_in){answer->data, answer->data + length, false};
    answer->status = v41_u32(&answer->in);
    assert_int_equal(v41_u32(&answer->in), 0); /* the tag that was sent */
    answer->count = v41_u32(&answer->in);
    return true;
}

void answer_free(struct answer *answer)
{
    free(answer->data);
    *answer = (struct answer){0};
}

void answer_op(struct answer *answer, uint32_t op)
{
    assert_int_equal(v41_u32(&answer->in), op);
    assert_int_equal(v41_u32(&answer->in), V41_OK);
}

void answer_fails(struct answer *answer, uint32_t op, uint32_t status)
{
    assert_int_equal(v41_u32(&answer->in), op);
    assert_int_equal(v41_u32(&answer->in), status);
    assert_int_equal(answer->status, status);
}

void answer_ends(struct answer *answer)
{
    assert_false(answer->in.bad);
    assert_ptr_equal(answer->in.at, answer->in.end);
    answer_free(answer);
}

struct bytes compound(uint32_t operations)
{
    struct bytes out = {0};
    put_word(&out, 0);
    put_word(&out, 1);
    put_word(&out, operations);
    return out;
}

struct answer ask(struct peer *peer, struct bytes *out)
{
    struct answer answer;
    uint32_t xid;
    peer_send(peer, out);
    free(out->data);
    assert_true(peer_receive(peer, &answer, &xid));
    assert_int_equal(xid, peer->xid);
    return answer;
}

/* ---- sessions ---- */

struct client exchange_id(struct peer *peer, const char *owner, uint64_t verifier)
{
    struct bytes out = compound(1);
    struct client client;
    put_word(&out, V41_EXCHANGE_ID);
    v41_put64(&out, verifier);
    v41_put_opaque(&out, owner, strlen(owner));
    put_word(&out, 0x10000); /* EXCHGID4_FLAG_USE_NON_PNFS */
    put_word(&out, 0);       /* SP4_NONE */
    put_word(&out, 0);       /* no name of the implementation */
    struct answer answer = ask(peer, &out);
    assert_int_equal(answer.count, 1);
    answer_op(&answer, V41_EXCHANGE_ID);
    client.id = v41_u64(&answer.in);
    client.sequence = v41_u32(&answer.in);
    client.flags = v41_u32(&answer.in);
    assert_int_equal(v41_u32(&answer.in), 0);
    v41_u64(&answer.in);
    assert_int_equal(v41_opaque(&answer.in, 1024).length, 6);
    assert_int_equal(v41_opaque(&answer.in, 1024).length, 6);
    assert_int_equal(v41_u32(&answer.in), 0);
    answer_ends(&answer);
    return client;
}

struct bytes create_session_call(const struct client *client, uint32_t slots)
{
    struct bytes out = compound(1);
    put_word(&out, V41_CREATE_SESSION);
    v41_put64(&out, client->id);
    put_word(&out, client->sequence);
    put_word(&out, 0);
    for (int channel = 0; channel < 2; channel++) {
        const uint32_t words[] = {0, 1 << 20, 1 << 20, 2048, 8, slots, 0};
        for (int i = 0; i < 7; i++)
            put_word(&out, words[i]);
    }
    put_word(&out, 0x40000000);
    put_word(&out, 1);
    put_word(&out, 0); /* AUTH_NONE */
    return out;
}

struct session create_session(struct peer *peer, struct client *client, uint32_t slots)
{
    struct bytes out = create_session_call(client, slots);
    struct answer answer = ask(peer, &out);
    struct session session = {{0}, 0, {0}};
    answer_op(&answer, V41_CREATE_SESSION);
    memcpy(session.id, v41_take(&answer.in, 16), 16);
    assert_int_equal(v41_u32(&answer.in), client->sequence);
    assert_int_equal(v41_u32(&answer.in), 0);
    v41_take(&answer.in, 20);
    session.slots = v41_u32(&answer.in);
    assert_in_range(session.slots, 1, slots);
    assert_int_equal(v41_u32(&answer.in), 0);
    v41_take(&answer.in, 28);
    answer_ends(&answer);
    client->sequence++;
    return session;
}

struct bytes sequenced(const struct session *session, uint32_t slot, uint32_t sequence, bool keep,
                       uint32_t number)
{
    struct bytes out = compound(number + 1);
    put_word(&out, V41_SEQUENCE);
    v41_put_fixed(&out, session->id, 16);
    put_word(&out, sequence);
    put_word(&out, slot);
    put_word(&out, slot);
    put_word(&out, keep);
    return out;
}

struct bytes next_on(struct session *session, uint32_t slot, uint32_t number)
{
    return sequenced(session, slot, ++session->sequences[slot], true, number);
}

void answer_sequence(struct answer *answer, const struct session *session, uint32_t slot,
                     uint32_t sequence)
{
    answer_op(answer, V41_SEQUENCE);
    assert_memory_equal(v41_take(&answer->in, 16), session->id, 16);
    assert_int_equal(v41_u32(&answer->in), sequence);
    assert_int_equal(v41_u32(&answer->in), slot);
    v41_take(&answer->in, 12);
}

struct answer ask_on(struct peer *peer, const struct session *session, uint32_t slot,
                     struct bytes *out)
{
    struct answer answer = ask(peer, out);
    answer_sequence(&answer, session, slot, session->sequences[slot]);
    return answer;
}

/* ---- files ---- */

void put_fh(struct bytes *out, const struct handle *handle)
{
    put_word(out, V41_PUTFH);
    v41_put_opaque(out, handle->data, handle->length);
}

struct handle look_up(struct peer *peer, struct session *session, const char *name)
{
    struct handle handle;
    struct bytes out = next_on(session, 0, 3);
    put_word(&out, V41_PUTROOTFH);
    put_word(&out, V41_LOOKUP);
    v41_put_opaque(&out, name, strlen(name));
    put_word(&out, V41_GETFH);
    struct answer answer = ask_on(peer, session, 0, &out);
    answer_op(&answer, V41_PUTROOTFH);
    answer_op(&answer, V41_LOOKUP);
    answer_op(&answer, V41_GETFH);
    struct v41_bytes bytes = v41_opaque(&answer.in, 128);
    handle.length = bytes.length;
    memcpy(handle.data, bytes.data, bytes.length);
    answer_ends(&answer);
    return handle;
}

const uint8_t anonymous[16];

void put_write(struct bytes *out, const uint8_t *stateid, uint64_t offset, uint32_t stable,
               const char *text)
{
    put_word(out, V41_WRITE);
    v41_put_fixed(out, stateid, 16);
    v41_put64(out, offset);
    put_word(out, stable);
    v41_put_opaque(out, text, strlen(text));
}

static void put_read(struct bytes *out, const uint8_t *stateid, uint64_t offset, uint32_t count)
{
    put_word(out, V41_READ);
    v41_put_fixed(out, stateid, 16);
    v41_put64(out, offset);
    put_word(out, count);
}

uint32_t write_text(struct peer *peer, struct session *session, uint32_t slot,
                    const struct handle *handle, uint32_t stable, const char *text,
                    uint64_t *verifier)
{
    struct bytes out = next_on(session, slot, 2);
    put_fh(&out, handle);
    put_write(&out, anonymous, 0, stable, text);
    struct answer answer = ask_on(peer, session, slot, &out);
    answer_op(&answer, V41_PUTFH);
    answer_op(&answer, V41_WRITE);
    assert_int_equal(v41_u32(&answer.in), strlen(text));
    uint32_t committed = v41_u32(&answer.in);
    memcpy(verifier, v41_take(&answer.in, 8), 8);
    answer_ends(&answer);
    return committed;
}

void assert_text(struct peer *peer, struct session *session, const struct handle *handle,
                 const char *text)
{
    struct bytes out = next_on(session, 0, 2);
    put_fh(&out, handle);
    put_read(&out, anonymous, 0, 1000);
    struct answer answer = ask_on(peer, session, 0, &out);
    answer_op(&answer, V41_PUTFH);
    answer_op(&answer, V41_READ);
    assert_int_equal(v41_u32(&answer.in), 1);
    struct v41_bytes bytes = v41_opaque(&answer.in, 1000);
    assert_int_equal(bytes.length, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.length);
    answer_ends(&answer);
}
