/* See v41_server.h. */
#include "v41_server.h"

/* ---- connections ---- */

static void v41_break(struct v41_connection *connection)
{
    pthread_mutex_lock(&connection->sending);
    if (connection->fd >= 0) {
        stream_abort(connection->fd);
        shutdown(connection->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&connection->sending);
}

/* Under the lock. */
static void v41_break_them(struct v41_server *server)
{
    for (unsigned i = 0; i < server->count; i++)
        v41_break(server->connections[i]);
}

/* A record: `data` begins with room for its mark. */
static void v41_send(struct v41_connection *connection, uint8_t *data, size_t length)
{
    struct v41_control *control = connection->server->control;
    unsigned cut = atomic_exchange(&control->cut_reply, 0);
    size_t most = cut > 0 && cut < length ? cut : length;
    if (cut > 0)
        atomic_store(&connection->cut, true);
    record_mark(data, length);
    pthread_mutex_lock(&connection->sending);
    if (connection->fd >= 0)
        stream_send(connection->fd, data, most);
    if (connection->fd >= 0 && cut > 0)
        shutdown(connection->fd, SHUT_RDWR);
    pthread_mutex_unlock(&connection->sending);
}

/* ---- calls ---- */

/* Under the lock. Takes what is at `data`. */
static void v41_hold(struct v41_server *server, unsigned connection, bool executed, uint8_t *data,
                     size_t length)
{
    unsigned count = atomic_load(&server->control->held);
    if (count == V41_HELD)
        abort();
    server->held[count] = (struct v41_held){connection, executed, data, length};
    atomic_store(&server->control->held, count + 1);
}

/* Under the lock: files as after a loss of power; nobody is known any more. */
static void v41_lose_power_now(struct v41_server *server)
{
    v41_store_lose_power(&server->state.store, server->control);
    v41_state_forget(&server->state);
    atomic_fetch_add(&server->control->verifier, 0x0101);
    v41_break_them(server);
}

static uint32_t v41_local_address(struct v41_connection *connection)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof(address);
    pthread_mutex_lock(&connection->sending);
    if (connection->fd >= 0)
        getsockname(connection->fd, (struct sockaddr *)&address, &size);
    pthread_mutex_unlock(&connection->sending);
    return address.sin_addr.s_addr;
}

/* Under the lock. Puts the reply, or nothing: then there is none. */
static void v41_answer(struct v41_connection *connection, struct v41_in in, size_t length,
                       struct bytes *reply)
{
    struct v41_server *server = connection->server;
    struct v41_control *control = server->control;
    uint64_t operations = v41_operations(in);
    atomic_fetch_add(&control->compounds, 1);
    if (v41_any_ends(control->drop_before, operations)) {
        v41_break(connection);
        reply->length = 0;
        return;
    }
    bool address = atomic_load(&control->by_address);
    struct v41_call call = {.state = &server->state,
                            .control = control,
                            .in = in,
                            .connection = connection->number,
                            .address = address ? v41_local_address(connection) : 0,
                            .record = length};
    v41_compound(&call);
    v41_count_state(&server->state);
    v41_put_fixed(reply, call.out.data, call.out.length);
    free(call.out.data);
    if (v41_any_ends(control->power_after, operations)) {
        v41_lose_power_now(server);
        reply->length = 0;
    } else if (v41_any_ends(control->drop_after, operations)) {
        v41_break(connection);
        reply->length = 0;
    } else if (operations & atomic_load(&control->hold_replies)) {
        v41_hold(server, connection->number, true, reply->data, reply->length);
        *reply = (struct bytes){0};
    }
}

/* Under the lock. `record` is a call without its mark; `held`: it was, and is executed now. */
static void v41_call_came(struct v41_connection *connection, const uint8_t *record, size_t length,
                          bool held, struct bytes *reply)
{
    enum { PROGRAM = 100003, VERSION = 4, PROG_UNAVAIL = 1, PROG_MISMATCH = 2, PROC_UNAVAIL = 3 };
    struct v41_server *server = connection->server;
    struct call_head head;
    bool whole = call_read(record, length, &head);
    atomic_store(&server->control->last_flavor, head.flavor);
    if (!whole || head.type != 0 || head.rpc_version != 2) {
        atomic_fetch_add(&server->control->bad_calls, 1);
        v41_break(connection);
        return;
    }
    struct v41_in in = {head.arguments, record + length, false};
    if (!held && head.procedure == 1 &&
        v41_operations(in) & atomic_load(&server->control->hold_calls)) {
        uint8_t *copy = malloc(length);
        if (!copy)
            abort();
        memcpy(copy, record, length);
        v41_hold(server, connection->number, false, copy, length);
        return;
    }
    const uint32_t words[] = {0, head.xid, 1, 0, 0, 0};
    for (int i = 0; i < 6; i++)
        put_word(reply, words[i]);
    if (head.program != PROGRAM) {
        put_word(reply, PROG_UNAVAIL);
    } else if (head.version != VERSION) {
        put_word(reply, PROG_MISMATCH);
        put_word(reply, VERSION);
        put_word(reply, VERSION);
    } else if (head.procedure > 1) {
        put_word(reply, PROC_UNAVAIL);
    } else {
        put_word(reply, 0);
        if (head.procedure == 1)
            v41_answer(connection, in, length, reply);
    }
}

static void v41_record_came(struct v41_connection *connection, const uint8_t *record, size_t length)
{
    struct v41_server *server = connection->server;
    struct bytes reply = {0};
    unsigned delay_ms = atomic_load(&server->control->delay_ms);
    if (delay_ms)
        poll(NULL, 0, (int)delay_ms);
    if (atomic_load(&server->control->silent))
        return;
    pthread_mutex_lock(&server->lock);
    v41_call_came(connection, record, length, false, &reply);
    pthread_mutex_unlock(&server->lock);
    if (reply.length > 0)
        v41_send(connection, reply.data, reply.length);
    free(reply.data);
}

/* ---- threads ---- */

/* The records that are whole at the beginning of `in`; they go. False: it is no client. */
static bool v41_take_records(struct v41_connection *connection, struct bytes *in)
{
    enum record_found found = RECORD_NONE;
    const uint8_t *record;
    size_t at = 0, length;
    while (!atomic_load(&connection->cut) &&
           (found = record_next(in, &at, &record, &length)) == RECORD_WHOLE)
        v41_record_came(connection, record, length);
    bytes_drop(in, at);
    return found != RECORD_BAD;
}

static void *v41_serve(void *context)
{
    struct v41_connection *connection = context;
    struct v41_server *server = connection->server;
    struct bytes in = {0};
    while (record_receive(connection->fd, &in, 0) > 0) {
        unsigned cut = atomic_load(&server->control->cut_call);
        if (cut > 0 && in.length >= cut &&
            atomic_compare_exchange_strong(&server->control->cut_call, &cut, 0))
            break;
        if (!v41_take_records(connection, &in)) {
            atomic_fetch_add(&server->control->bad_calls, 1);
            break;
        }
    }
    free(in.data);
    pthread_mutex_lock(&server->lock);
    for (unsigned i = 0; i < V41_SESSIONS; i++)
        server->state.sessions[i].bound[connection->number] = false;
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_lock(&connection->sending);
    close(connection->fd);
    connection->fd = -1;
    pthread_mutex_unlock(&connection->sending);
    return NULL;
}

static void *v41_accept(void *context)
{
    struct v41_server *server = context;
    for (;;) {
        int fd = stream_accept(server->listener, NULL);
        if (fd < 0)
            return NULL;
        pthread_mutex_lock(&server->lock);
        if (server->stopping || server->count == V41_CONNECTIONS ||
            atomic_load(&server->control->refuse)) {
            close(fd);
        } else {
            struct v41_connection *connection = calloc(1, sizeof(*connection));
            if (!connection)
                abort();
            connection->server = server;
            connection->number = server->count;
            connection->fd = fd;
            pthread_mutex_init(&connection->sending, NULL);
            server->connections[server->count++] = connection;
            atomic_fetch_add(&server->control->connections, 1);
            pthread_create(&connection->thread, NULL, v41_serve, connection);
        }
        pthread_mutex_unlock(&server->lock);
    }
}

/* ---- for tests ---- */

struct v41_server *v41_server_start(struct v41_control *control, in_addr_t host, in_port_t port)
{
    struct v41_server *server = calloc(1, sizeof(*server));
    if (!server)
        return NULL;
    if (!control)
        v41_control_init(&server->own);
    server->control = server->state.control = control ? control : &server->own;
    pthread_mutex_init(&server->lock, NULL);
    v41_node_new(&server->state.store, NULL, "", true);
    server->port = port;
    server->listener = stream_bind(AF_INET, host, &server->port);
    if (server->listener < 0 || listen(server->listener, 128) != 0) {
        close(server->listener);
        free(server);
        return NULL;
    }
    stream_thread(&server->thread, v41_accept, server);
    return server;
}

void v41_lose_power(struct v41_server *server)
{
    pthread_mutex_lock(&server->lock);
    v41_lose_power_now(server);
    pthread_mutex_unlock(&server->lock);
}

void v41_forget_sessions(struct v41_server *server)
{
    pthread_mutex_lock(&server->lock);
    v41_state_forget(&server->state);
    pthread_mutex_unlock(&server->lock);
}

void v41_break_all(struct v41_server *server)
{
    pthread_mutex_lock(&server->lock);
    v41_break_them(server);
    pthread_mutex_unlock(&server->lock);
}

void v41_release(struct v41_server *server, bool reverse)
{
    static struct v41_held held[V41_HELD];
    struct v41_control *control = server->control;
    pthread_mutex_lock(&server->lock);
    atomic_store(&control->hold_calls, 0);
    atomic_store(&control->hold_replies, 0);
    unsigned count = atomic_exchange(&control->held, 0);
    memcpy(held, server->held, count * sizeof(*held));
    for (unsigned i = 0; i < count; i++) {
        struct v41_held *next = &held[reverse ? count - 1 - i : i];
        struct v41_connection *connection = server->connections[next->connection];
        struct bytes reply = {next->data, next->length, next->length};
        if (!next->executed) {
            reply = (struct bytes){0};
            v41_call_came(connection, next->data, next->length, true, &reply);
            free(next->data);
        }
        if (reply.length > 0)
            v41_send(connection, reply.data, reply.length);
        free(reply.data);
    }
    pthread_mutex_unlock(&server->lock);
}

void v41_server_stop(struct v41_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_mutex_unlock(&server->lock);
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    for (unsigned i = 0; i < server->count; i++) {
        v41_break(server->connections[i]);
        pthread_join(server->connections[i]->thread, NULL);
        pthread_mutex_destroy(&server->connections[i]->sending);
        free(server->connections[i]);
    }
    for (unsigned i = 0; i < atomic_load(&server->control->held); i++)
        free(server->held[i].data);
    v41_state_forget(&server->state);
    v41_store_free(&server->state.store);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
