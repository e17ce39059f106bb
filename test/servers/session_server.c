/* See session_server.h. */
#include "session_server.h"

/* One operation: puts its number, its status, and its results. */
static uint32_t session_server_step(struct session_server_call *call)
{
    uint32_t op = xdr_get_u32(&call->r), status = 0;
    uint8_t *before = call->w.p;
    xdr_put_u32(&call->w, op);
    atomic_fetch_add(&session_server.ops[op % SERVER_OPS], 1);
    if (!session_server_fails(op, &status))
        status = session_server_do(call, op);
    if (status != 0) {
        call->w.p = before + 4;
        xdr_put_u32(&call->w, status);
        if (op == S_SETATTR)
            xdr_put_u32(&call->w, 0);
    }
    call->numbers++;
    return status;
}

/* Carries a COMPOUND out: the results are behind `results`. False: the connection dies. */
static bool session_server_compound(struct session_server_call *call, uint8_t *results)
{
    uint32_t length, status = 0;
    bool writes = false;
    xdr_get_opaque(&call->r, 1024, &length);
    uint32_t minor = xdr_get_u32(&call->r), operations = xdr_get_u32(&call->r);
    xdr_put_room(&call->w, 12);
    if (minor != 1 || atomic_load(&session_server.minor_wrong)) {
        status = 10021;
        operations = 0;
    }
    for (uint32_t i = 0; i < operations && status == 0 && !call->again && !call->r.bad; i++) {
        uint32_t op = call->r.p < call->r.end - 3 ? xdr_load_u32(call->r.p) : 0;
        writes = writes || op == S_WRITE;
        if (op == S_WRITE && atomic_load(&session_server.death) == SERVER_DIES_BEFORE &&
            atomic_fetch_sub(&session_server.deaths, 1) > 0) {
            call->slot->sequence--; /* it was never here */
            return false;
        }
        status = session_server_step(call);
    }
    if (call->again) {
        atomic_fetch_add(&session_server.told_again, 1);
        call->w.p = results;
        xdr_put_fixed(&call->w, call->slot->reply, (uint32_t)call->slot->length);
        return true;
    }
    xdr_store_u32(results, status);
    xdr_store_u32(results + 4, 0);
    xdr_store_u32(results + 8, call->numbers);
    length = (uint32_t)(call->w.p - results);
    if (call->slot && call->keep && length <= SERVER_KEPT) {
        call->slot->kept = true;
        call->slot->length = length;
        memcpy(call->slot->reply, results, length);
    }
    bool dies = writes && atomic_load(&session_server.death) == SERVER_DIES_AFTER &&
                atomic_fetch_sub(&session_server.deaths, 1) > 0;
    if (dies && atomic_load(&session_server.forget_after_death))
        session_server_forget();
    return !dies;
}

/* One call of the record: false: the connection ends. */
static bool session_server_answer(int fd, const uint8_t *record, size_t length)
{
    static uint8_t reply[SERVER_RECORD];
    struct session_server_call call = {.session = NULL};
    struct call_head came;
    if (!call_read(record, length, &came))
        return false;
    xdr_reader_init(&call.r, came.credential, came.credential_length);
    xdr_get_u32(&call.r);
    uint32_t name;
    xdr_get_opaque(&call.r, 255, &name);
    call.user = came.flavor == 1 ? xdr_get_u32(&call.r) : 0; /* AUTH_SYS */
    xdr_reader_init(&call.r, came.arguments, (size_t)(record + length - came.arguments));
    xdr_writer_init(&call.w, reply + 4, sizeof(reply) - 4);
    const uint32_t head[] = {came.xid, 1, 0, 0, 0, 0};
    for (int i = 0; i < 6; i++)
        xdr_put_u32(&call.w, head[i]);
    if (atomic_load(&session_server.new_token)) {
        memcpy(session_server.file, session_server.token, sizeof(session_server.token));
        session_server.size = sizeof(session_server.token);
        atomic_store(&session_server.new_token, false);
    }
    if (atomic_exchange(&session_server.forget, false))
        session_server_forget();
    if (came.procedure == 1 && !session_server_compound(&call, call.w.p))
        return false;
    size_t size = (size_t)(call.w.p - reply - 4);
    record_mark(reply, size + 4);
    return stream_send(fd, reply, size + 4);
}

static void session_server_hang_up(int i)
{
    close(session_server.fds[i]);
    session_server.fds[i] = -1;
}

/* The connection ends; if its port is to be cut, with all others there. */
static void session_server_die(int i)
{
    int where = session_server.came_to[i];
    session_server_hang_up(i);
    if (!atomic_exchange(&session_server.cut, false))
        return;
    close(session_server.listeners[where]);
    session_server.listeners[where] = -1;
    for (int j = 0; j < SERVER_CONNECTIONS; j++) {
        if (session_server.fds[j] >= 0 && session_server.came_to[j] == where)
            session_server_hang_up(j);
    }
}

static void session_server_receive(int i)
{
    struct bytes *in = &session_server.in[i];
    const uint8_t *record;
    size_t at = 0, length;
    if (record_receive(session_server.fds[i], in, 0) <= 0) {
        session_server_hang_up(i);
        return;
    }
    while (record_next(in, &at, &record, &length) == RECORD_WHOLE) {
        if (!session_server_answer(session_server.fds[i], record, length)) {
            session_server_die(i);
            return;
        }
    }
    bytes_drop(in, at);
}

static void session_server_accept(int where)
{
    for (int i = 0; i < SERVER_CONNECTIONS; i++) {
        if (session_server.fds[i] >= 0)
            continue;
        session_server.fds[i] = stream_accept(session_server.listeners[where], NULL);
        session_server.came_to[i] = where;
        session_server.in[i].length = 0;
        atomic_fetch_add(&session_server.connections, 1);
        return;
    }
}

static void *session_server_run(void *unused)
{
    enum { FIRST = 3 };
    (void)unused;
    for (;;) {
        struct pollfd polls[FIRST + SERVER_CONNECTIONS] = {
            {session_server.stop[0], POLLIN, 0},
            {session_server.listeners[0], POLLIN, 0},
            {session_server.listeners[1], POLLIN, 0}};
        for (int i = 0; i < SERVER_CONNECTIONS; i++)
            polls[FIRST + i] = (struct pollfd){session_server.fds[i], POLLIN, 0};
        poll(polls, FIRST + SERVER_CONNECTIONS, -1);
        if (polls[0].revents)
            return NULL;
        for (int i = 0; i < 2; i++) {
            if (polls[1 + i].revents)
                session_server_accept(i);
        }
        for (int i = 0; i < SERVER_CONNECTIONS; i++) {
            if (polls[FIRST + i].revents && session_server.fds[i] >= 0 &&
                polls[FIRST + i].fd == session_server.fds[i])
                session_server_receive(i);
        }
    }
}

static unsigned session_server_listen(int *listener)
{
    in_port_t port = 0;
    *listener = stream_bind_loopback(AF_INET, &port);
    if (listen(*listener, 16) != 0)
        abort();
    return port;
}

void session_server_start(void)
{
    memset(&session_server, 0, sizeof(session_server));
    atomic_store(&session_server.slots, SERVER_SLOTS);
    atomic_store(&session_server.target, SERVER_SLOTS - 1);
    atomic_store(&session_server.request_max, SERVER_FILE + 4096);
    atomic_store(&session_server.response_max, SERVER_FILE + 4096);
    for (int i = 0; i < SERVER_CONNECTIONS; i++)
        session_server.fds[i] = -1;
    session_server.port = session_server_listen(&session_server.listeners[0]);
    session_server.other_port = session_server_listen(&session_server.listeners[1]);
    if (pipe(session_server.stop) != 0)
        abort();
    stream_thread(&session_server.thread, session_server_run, NULL);
}

void session_server_stop(void)
{
    if (write(session_server.stop[1], "", 1) != 1)
        abort();
    pthread_join(session_server.thread, NULL);
    for (int i = 0; i < SERVER_CONNECTIONS; i++) {
        if (session_server.fds[i] >= 0)
            close(session_server.fds[i]);
        free(session_server.in[i].data);
    }
    for (int i = 0; i < 2; i++) {
        if (session_server.listeners[i] >= 0)
            close(session_server.listeners[i]);
    }
    close(session_server.stop[0]);
    close(session_server.stop[1]);
}
