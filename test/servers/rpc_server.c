/* See rpc_server.h. */
#include "rpc_server.h"

struct connection {
    struct server *server;
    unsigned index;
    int fd;
};

uint8_t payload_byte(uint32_t token, size_t at)
{
    return (uint8_t)(token * 31 + at * 7 + (at >> 8));
}

static void wait_if_stuck(struct server *server, uint32_t token)
{
    if (atomic_load(&server->stuck) != token + 1)
        return;
    atomic_fetch_add(&server->copies, 1);
    while (atomic_load(&server->stuck) == token + 1)
        usleep(2000);
}

/* Where the arguments of a call are, which begin with its token. */
static size_t arguments_at(const uint8_t *call, size_t length)
{
    struct call_head head;
    if (!call_read(call, length, &head))
        abort();
    return (size_t)(head.arguments - call);
}

/* Does it keep the call from xid on for itself? */
static bool is_dropped(struct server *server, const uint8_t *call, size_t length)
{
    if (rpc_word(call + 20) == 0)
        return false;
    if (atomic_load(&server->busy))
        return true;
    bool copy =
        atomic_load(&server->drops) && atomic_load(&server->copies) > 0 &&
        rpc_word(call + arguments_at(call, length)) % TOKENS + 1 == atomic_load(&server->stuck);
    if (copy)
        atomic_fetch_add(&server->copies, 1);
    return copy;
}

void answer_call(struct server *server, const uint8_t *call, size_t length, struct bytes *message)
{
    uint32_t procedure = rpc_word(call + 20);
    if (procedure == 0) {
        struct reply pong;
        reply_begin(&pong, rpc_word(call), 0, 0);
        *message = pong.message;
        pong.message.data = NULL;
        reply_free(&pong);
        return;
    }
    size_t at = arguments_at(call, length);
    uint32_t token = rpc_word(call + at) % TOKENS, xid = rpc_word(call);
    wait_if_stuck(server, token);
    uint32_t seen = 0;
    if (!atomic_compare_exchange_strong(&server->xids[token], &seen, xid) && seen != xid)
        atomic_fetch_add(&server->changed_xids, 1);
    struct reply reply;
    reply_begin(&reply, xid, 0, 0);
    if (procedure == ECHO) {
        put_word(&reply.message, token);
        put_word(&reply.message, token + 1);
        if (length != at + 4)
            atomic_fetch_add(&server->bad_calls, 1);
    } else if (procedure == READ) {
        uint32_t count = rpc_word(call + at + 4);
        bool attributes = token % 5 > 0;
        const uint32_t words[] = {count, 0, count};
        static const uint8_t zeros[ATTRIBUTES];
        put_word(&reply.message, 0);
        put_word(&reply.message, attributes);
        put_bytes(&reply.message, zeros, attributes ? ATTRIBUTES : 0);
        for (int i = 0; i < 3; i++)
            put_word(&reply.message, words[i]);
        size_t from = reply.message.length;
        put_bytes(&reply.message, zeros, 0);
        reply.message.data = realloc(reply.message.data, from + count + 4);
        reply.message.capacity = from + count + 4;
        for (size_t i = 0; i < count; i++)
            reply.message.data[from + i] = payload_byte(token, i);
        reply.message.length += count;
        put_bytes(&reply.message, "\x11\x22\x33", -count & 3);
    } else {
        uint32_t count = rpc_word(call + at + 4), good = 1;
        if (length != at + 8 + ((count + 3) & ~3u))
            good = 0;
        for (size_t i = 0; good && i < count; i++)
            good = call[at + 8 + i] == payload_byte(token, i);
        put_word(&reply.message, token);
        put_word(&reply.message, good);
        if (!good)
            atomic_fetch_add(&server->bad_calls, 1);
    }
    *message = reply.message;
    reply.message.data = NULL;
    reply_free(&reply);
}

/* Sends a reply as the script says. False: the connection is to be closed. */
static bool send_reply(struct connection *connection, const struct bytes *message, unsigned *sent,
                       uint64_t *seed)
{
    struct server *server = connection->server;
    const struct script *script = &server->script;
    unsigned number = atomic_fetch_add(&server->replies, 1) + 1;
    if (atomic_load(&server->silent) || number == script->lose_one ||
        atomic_load(&server->mute) == (int)connection->index + 1 ||
        connection->index < atomic_load(&server->forgotten) || server->silenced[connection->index])
        return true;
    struct bytes stream = {0};
    for (unsigned i = 0; i < script->strangers; i++) {
        struct reply stranger;
        reply_read(&stranger, rpc_word(message->data) + 0x40000000u + i, true, number % 300);
        put_record(&stream, &stranger.message);
        reply_free(&stranger);
    }
    bool reset = script->reset_every && number % script->reset_every == 0;
    if (script->garbage_every && number % script->garbage_every == 0) {
        put_bytes(&stream, "\xff\xff\xff\xffgarbage, and more of it", 26);
        reset = false;
    } else if (script->fragment) {
        put_fragments(&stream, message, script->fragment, seed);
    } else {
        put_record(&stream, message);
    }
    bool good = stream_send(connection->fd, stream.data, reset ? stream.length / 2 : stream.length);
    free(stream.data);
    if (reset) {
        stream_abort(connection->fd);
        return false;
    }
    return good && !(script->close_after && ++*sent >= script->close_after);
}

static bool send_held(struct connection *connection, struct bytes *held, unsigned count,
                      unsigned *sent, uint64_t *seed)
{
    bool good = true;
    while (count > 0) {
        enum order order = connection->server->script.order;
        unsigned next = order == REVERSE  ? count - 1
                        : order == RANDOM ? (unsigned)random_of(seed, count)
                                          : 0;
        good = good && send_reply(connection, &held[next], sent, seed);
        free(held[next].data);
        memmove(&held[next], &held[next + 1], (--count - next) * sizeof(*held));
    }
    return good;
}

static void *serve(void *context)
{
    struct connection *connection = context;
    struct server *server = connection->server;
    struct bytes in = {0}, held[HELD_MAX];
    unsigned count = 0, sent = 0;
    uint64_t seed = connection->index + 1;
    bool good = true;
    while (good) {
        const uint8_t *call;
        size_t at = 0, length;
        while (good && record_next(&in, &at, &call, &length) == RECORD_WHOLE) {
            bool is_ping = rpc_word(call + 20) == 0;
            if (is_dropped(server, call, length))
                continue;
            atomic_fetch_add(&server->calls, !is_ping);
            held[count] = (struct bytes){.data = NULL};
            if (server->script.answer)
                server->script.answer(server, call, length, &held[count]);
            else
                answer_call(server, call, length, &held[count]);
            count += held[count].length > 0;
            if (count > atomic_load(&server->most_held))
                atomic_store(&server->most_held, count);
            if (count == HELD_MAX || server->script.order == IN_ORDER) {
                good = send_held(connection, held, count, &sent, &seed);
                count = 0;
            }
        }
        bytes_drop(&in, at);
        struct pollfd poll_in = {.fd = connection->fd, .events = POLLIN};
        if (good && count > 0 && poll(&poll_in, 1, 1) == 0) {
            good = send_held(connection, held, count, &sent, &seed);
            count = 0;
        }
        /* What came after shutdown() is still read from a socket. */
        if (!good || record_receive(connection->fd, &in, 0) <= 0 ||
            connection->index < atomic_load(&server->ended))
            break;
    }
    while (count > 0)
        free(held[--count].data);
    free(in.data);
    pthread_mutex_lock(&server->lock);
    close(connection->fd);
    server->fds[connection->index] = -1;
    pthread_mutex_unlock(&server->lock);
    free(connection);
    return NULL;
}

/* Under server->lock. */
static bool is_full(const struct server *server)
{
    unsigned open = 0;
    for (unsigned i = 0; i < server->connections; i++)
        open += server->fds[i] >= 0;
    return atomic_load(&server->closing) || (server->script.limit && open >= server->script.limit);
}

static unsigned answered_connections(const struct server *server)
{
    unsigned open = 0;
    for (unsigned i = 0; i < server->connections - 1; i++)
        open += server->fds[i] >= 0 && !server->silenced[i];
    return open;
}

static void *accept_connections(void *context)
{
    struct server *server = context;
    for (;;) {
        struct sockaddr_in peer;
        int fd = stream_accept(server->listener, &peer);
        if (fd < 0)
            return NULL;
        pthread_mutex_lock(&server->lock);
        if (server->stopping || server->connections == CONNECTIONS_MAX) {
            close(fd);
        } else if (is_full(server)) {
            atomic_fetch_add(&server->refused, 1);
            close(fd);
        } else {
            struct connection *connection = malloc(sizeof(*connection));
            unsigned index = server->connections++;
            *connection = (struct connection){server, index, fd};
            unsigned cap = atomic_load(&server->cap);
            server->silenced[index] = cap > 0 && answered_connections(server) >= cap;
            server->fds[index] = fd;
            server->peer_ports[index] = ntohs(peer.sin_port);
            pthread_create(&server->threads[index], NULL, serve, connection);
        }
        pthread_mutex_unlock(&server->lock);
    }
}

struct server *server_new(const struct script *script, sa_family_t family)
{
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        abort();
    server->script = *script;
    atomic_store(&server->silent, script->silent);
    pthread_mutex_init(&server->lock, NULL);
    server->listener = stream_bind_kept(family, &server->port);
    if (script->buffer) {
        setsockopt(server->listener, SOL_SOCKET, SO_RCVBUF, &script->buffer, sizeof(int));
        setsockopt(server->listener, SOL_SOCKET, SO_SNDBUF, &script->buffer, sizeof(int));
    }
    return server;
}

void server_listen(struct server *server)
{
    if (listen(server->listener, 128) != 0)
        abort();
    stream_thread(&server->thread, accept_connections, server);
}

struct server *server_start(const struct script *script)
{
    struct server *server = server_new(script, AF_INET);
    server_listen(server);
    return server;
}

void server_stop(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_mutex_unlock(&server->lock);
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    for (unsigned i = 0; i < server->connections; i++) {
        pthread_mutex_lock(&server->lock);
        if (server->fds[i] >= 0)
            shutdown(server->fds[i], SHUT_RDWR);
        pthread_mutex_unlock(&server->lock);
        pthread_join(server->threads[i], NULL);
    }
    pthread_mutex_destroy(&server->lock);
    free(server);
}
