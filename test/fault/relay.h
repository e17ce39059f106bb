/*
 * The connections of proxy.c: what comes in on one side goes out on the other, record by record,
 * and suffers what the path's faults say.
 */
#ifndef FAULT_RELAY_H
#define FAULT_RELAY_H

#include "loop.h"

enum { PATHS_MOST = 16, PORTS = 2, IN_FLIGHT = 1024, QUEUED_MOST = 8 << 20 };

enum direction { CALLS, REPLIES }; /* from the client, from the server */
enum field { FIELD_XID, FIELD_STATUS, FIELD_LENGTH, FIELD_MARK, FIELDS };

struct chance {
    unsigned percent;
    uint64_t left; /* times */
};

struct faults {
    uint64_t delay_ms, jitter_ms, split, stall_ms, limit, drop_after, verifier;
    struct chance drop[2], reorder[2], duplicate[2], stall[2], corrupt[FIELDS];
    struct {
        uint32_t status;
        struct chance chance;
    } answer[NFS_PROCEDURES];
    bool blackhole[2], refuse;
    uint64_t hold_count, hold_offset; /* 0, NEVER: none */
    uint32_t hold_procedure;
    bool hold_blackhole, hold_reset, hold_refuse, hold_late;
    uint64_t hold_after_ms; /* NEVER: until `release` */
};

#define COUNTERS   \
    X(connections) \
    X(refused)     \
    X(calls)       \
    X(replies)     \
    X(forwarded)   \
    X(dropped)     \
    X(duplicated)  \
    X(corrupted) X(answered) X(resets) X(same_port) X(other_port) X(held) X(delivered) X(discarded)

struct counters {
#define X(name) uint64_t name;
    COUNTERS
#undef X
};

struct path {
    union address listens;
    struct in_addr address; /* the same, or if that is of IPv6 one by which the server knows it */
    struct watch *listeners[PORTS];
    struct faults faults;
    struct counters counters;
};

/* One direction of a connection. */
struct flow {
    struct input in;
    struct message *out;
    size_t queued;      /* bytes of `out` */
    uint64_t last_due;  /* of what must not be overtaken */
    uint64_t stalled;   /* nothing leaves before */
    bool ending, ended; /* the sender said FIN; it was passed on */
    bool broken;        /* a record went only in part */
};

struct end {
    struct watch watch;
    struct connection *connection;
};

struct connection {
    struct connection *next;
    struct path *path;
    unsigned port; /* 0 NFS, 1 MOUNT */
    struct sockaddr_in client;
    struct end *ends[2]; /* the client's and the server's; NULL: gone, or not yet there */
    bool connecting, dead;
    struct flow flows[2];
    uint64_t calls;
    struct {
        uint32_t xid, procedure; /* of NFS */
    } in_flight[IN_FLIGHT];
    struct held *held;
    bool released;
};

/* A WRITE or SETATTR on its way to the server, for long. */
struct held {
    struct held *next;
    struct path *path;
    struct connection *connection; /* NULL: gone, though not the call */
    struct message *message;       /* NULL: delivered, or lost */
    uint64_t after_ms, due;
    bool late;
    struct sockaddr_in client;
    uint32_t xid;
};

static struct path paths[PATHS_MOST];
static unsigned path_count;
static struct sockaddr_in servers[PORTS];
static uint16_t listen_ports[PORTS]; /* 0: as the server */
static struct connection *connections;
static struct held *helds;
static uint64_t random_state;

static bool happens(struct chance *chance)
{
    if (chance->percent == 0 || chance->left == 0 ||
        random_next(&random_state) % 100 >= chance->percent)
        return false;
    chance->left--;
    return true;
}

static bool dark(const struct connection *c, enum direction direction)
{
    return c->path->faults.blackhole[direction] && !c->released;
}

/* ---- connections ---- */

static void end_close(struct connection *c, enum direction side)
{
    struct end *end = c->ends[side];
    if (!end)
        return;
    socket_reset(&end->watch.fd);
    end->watch.dead = true;
    c->ends[side] = NULL;
}

static void flow_empty(struct flow *flow)
{
    flow->broken |= flow->out && flow->out->sent > 0;
    messages_free(&flow->out);
    flow->queued = 0;
    flow->in.used = 0;
}

/* The client gave the connection up: from now on the held call is one that comes late. */
static void held_abandoned(struct held *held)
{
    if (held && held->due == NEVER && held->after_ms != NEVER)
        held->due = clock_ns() + milliseconds(held->after_ms);
}

static void held_discard(struct held *held)
{
    held->path->counters.discarded++;
    free(held->message);
    held->message = NULL;
}

/* The server's end of the connection dies: what is not late dies with it. */
static void held_lost(struct connection *c)
{
    struct held *held = c->held;
    if (!held)
        return;
    c->held = NULL;
    held->connection = NULL;
    held_abandoned(held);
    if (!held->late)
        held_discard(held);
}

static void connection_reset(struct connection *c)
{
    held_lost(c);
    end_close(c, CALLS);
    end_close(c, REPLIES);
    c->dead = true;
}

static void end_ready(struct watch *watch, short events);

static struct end *end_make(struct connection *c, int fd, short events)
{
    struct end *end = need(sizeof *end);
    end->watch = (struct watch){.fd = fd, .events = events, .ready = end_ready};
    end->connection = c;
    watch_add(&end->watch);
    return end;
}

static bool same_client(const struct connection *a, const struct connection *b)
{
    return a->path == b->path && a->port == b->port && same_address(&a->client, &b->client);
}

/* Connects to the server, from the client's port if that is free. */
static void server_open(struct connection *c)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in local = {
        .sin_family = AF_INET, .sin_addr = c->path->address, .sin_port = c->client.sin_port};
    if (fd < 0)
        die("socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&local, sizeof local) < 0) {
        local.sin_port = 0;
        c->path->counters.other_port++; /* the server will not know its calls again */
        if (bind(fd, (struct sockaddr *)&local, sizeof local) < 0)
            die("%s: %s", inet_ntoa(local.sin_addr), strerror(errno));
    }
    socket_ready(fd);
    c->ends[REPLIES] = end_make(c, fd, POLLOUT);
    c->connecting = true;
    if (connect(fd, (struct sockaddr *)&servers[c->port], sizeof servers[0]) < 0 &&
        errno != EINPROGRESS)
        connection_reset(c);
}

/* The client's SYN reaches the server. */
static void server_connect(struct connection *c)
{
    for (struct connection *old = connections; old; old = old->next) {
        if (old == c || old->dead || !same_client(old, c))
            continue;
        c->path->counters.same_port++;
        connection_reset(old);
    }
    server_open(c);
}

static void listener_ready(struct watch *watch, short events)
{
    struct path *path = NULL;
    unsigned port = 0, open = 0;
    (void)events;
    for (unsigned i = 0; i < path_count && !path; i++) {
        for (port = 0; port < PORTS; port++) {
            if (paths[i].listeners[port] == watch) {
                path = &paths[i];
                break;
            }
        }
    }
    union address client;
    socklen_t length = sizeof client;
    int fd = accept4(watch->fd, &client.any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !path)
        return;
    if (client.any.sa_family == AF_INET6) /* all from one address */
        client.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = client.v6.sin6_port};
    for (struct connection *c = connections; c; c = c->next)
        open += !c->dead && c->path == path && c->port == port && c->ends[CALLS];
    if (path->faults.limit && open >= path->faults.limit) {
        path->counters.refused++;
        socket_reset(&fd);
        return;
    }
    socket_ready(fd);
    struct connection *c = need(sizeof *c);
    c->path = path;
    c->port = port;
    c->client = client.v4;
    c->ends[CALLS] = end_make(c, fd, POLLIN);
    c->next = connections;
    connections = c;
    path->counters.connections++;
    if (!dark(c, CALLS))
        server_connect(c);
}

static bool path_listen(struct path *path)
{
    for (unsigned port = 0; port < PORTS; port++) {
        if (path->listeners[port] || !servers[port].sin_port)
            continue;
        uint16_t number = listen_ports[port] ?: ntohs(servers[port].sin_port);
        int fd = tcp_listen(path->listens, number);
        if (fd < 0)
            return false;
        path->listeners[port] = need(sizeof(struct watch));
        *path->listeners[port] =
            (struct watch){.fd = fd, .events = POLLIN, .ready = listener_ready};
        watch_add(path->listeners[port]);
    }
    return true;
}

static void path_refuse(struct path *path)
{
    for (unsigned port = 0; port < PORTS; port++) {
        if (!path->listeners[port])
            continue;
        socket_reset(&path->listeners[port]->fd);
        path->listeners[port]->dead = true;
        path->listeners[port] = NULL;
    }
}

/* ---- records ---- */

/* Queues a record for its way on. */
static void forward(struct connection *c, enum direction direction, struct message *m)
{
    struct faults *faults = &c->path->faults;
    struct flow *flow = &c->flows[direction];
    uint64_t jitter = faults->jitter_ms ? random_next(&random_state) % (faults->jitter_ms + 1) : 0;
    m->due = clock_ns() + milliseconds(faults->delay_ms + jitter);
    struct message **link = &flow->out;
    if (happens(&faults->reorder[direction]))
        m->due += milliseconds(1 + random_next(&random_state) % 10);
    else if (m->due < flow->last_due) /* jitter alone changes no order */
        m->due = flow->last_due;
    if (!faults->reorder[direction].percent)
        flow->last_due = m->due;
    while (*link && ((*link)->sent || (*link)->due <= m->due))
        link = &(*link)->next;
    m->next = *link;
    *link = m;
    flow->queued += m->length;
}

static void pass_on(struct connection *c, enum direction direction, struct message *m)
{
    struct faults *faults = &c->path->faults;
    c->path->counters.forwarded++;
    if (happens(&faults->duplicate[direction])) {
        c->path->counters.duplicated++;
        forward(c, direction, message_make(m->data, m->length));
    }
    forward(c, direction, m);
}

/* Answers a call itself: accepted, and as the result a failure without attributes. */
static void answer_failure(struct connection *c, uint32_t xid, uint32_t procedure, uint32_t status)
{
    unsigned char reply[64];
    struct wire_writer w = {reply, reply + sizeof reply, false};
    const uint32_t head[] = {0, xid,         RPC_REPLY, RPC_ACCEPTED, RPC_AUTH_NONE,
                             0, RPC_SUCCESS, status};
    for (unsigned i = 0; i < sizeof head / sizeof *head; i++)
        wire_put32(&w, head[i]);
    bool changes = procedure == NFS_WRITE || procedure == NFS_COMMIT || procedure == NFS_SETATTR ||
                   procedure == NFS_CREATE;
    for (int i = 0; i < (procedure == NFS_GETATTR ? 0 : changes ? 2 : 1); i++)
        wire_put32(&w, 0);
    size_t length = (size_t)(w.at - reply);
    wire_store32(reply, (uint32_t)(length - 4) | RPC_LAST_FRAGMENT);
    c->path->counters.answered++;
    forward(c, REPLIES, message_make(reply, length));
}

static uint64_t write_offset(const struct call *call)
{
    struct wire_reader r = call->args;
    struct nfs_handle handle;
    wire_get_handle(&r, &handle);
    return wire_get64(&r);
}

/* Is this call the one to be kept? */
static bool hold(struct connection *c, struct message *m, const struct call *call)
{
    struct faults *faults = &c->path->faults;
    bool wanted = faults->hold_count > 0 ? --faults->hold_count == 0
                                         : write_offset(call) == faults->hold_offset;
    if (!wanted || c->held)
        return false;
    faults->hold_offset = NEVER;
    c->held = need(sizeof *c->held);
    *c->held = (struct held){.next = helds,
                             .path = c->path,
                             .connection = c,
                             .message = m,
                             .after_ms = faults->hold_after_ms,
                             .due = NEVER,
                             .late = faults->hold_late,
                             .client = c->client,
                             .xid = call->xid};
    helds = c->held;
    c->path->counters.held++;
    if (faults->hold_blackhole)
        faults->blackhole[CALLS] = faults->blackhole[REPLIES] = true;
    if (faults->hold_refuse)
        path_refuse(c->path);
    if (faults->hold_reset || faults->hold_refuse)
        connection_reset(c);
    return true;
}

/*
 * A server that has queued a call knows it again by xid, address and port, when it comes a second
 * time: it is executed once.
 */
static void recognise(const struct connection *c, const struct call *call)
{
    for (struct held *held = helds; held; held = held->next) {
        if (held->message && held->late && held->path == c->path && held->connection != c &&
            held->xid == call->xid && same_address(&held->client, &c->client))
            held_discard(held);
    }
}

static void call_came(struct connection *c, struct message *m)
{
    struct faults *faults = &c->path->faults;
    c->path->counters.calls++;
    c->calls++;
    struct call call;
    bool nfs = call_parse(m->data + 4, m->length - 4, &call) && call.program == NFS_PROGRAM &&
               call.procedure < NFS_PROCEDURES;
    if (nfs) {
        c->in_flight[call.xid % IN_FLIGHT].xid = call.xid;
        c->in_flight[call.xid % IN_FLIGHT].procedure = call.procedure;
        recognise(c, &call);
    }
    if (nfs && call.procedure == faults->hold_procedure && hold(c, m, &call))
        return;
    if (nfs && happens(&faults->answer[call.procedure].chance)) {
        answer_failure(c, call.xid, call.procedure, faults->answer[call.procedure].status);
        free(m);
    } else if (nfs && happens(&faults->drop[CALLS])) {
        c->path->counters.dropped++;
        free(m);
    } else {
        pass_on(c, CALLS, m);
    }
}

/* The place of the status, of the count of a READ, and of the verifier; 0: none. */
static void corrupt(struct connection *c, struct message *m)
{
    struct faults *faults = &c->path->faults;
    if (m->length < 32)
        return;
    uint32_t xid = wire_load32(m->data + 4), status = wire_load32(m->data + 28);
    uint32_t procedure = c->in_flight[xid % IN_FLIGHT].procedure;
    if (c->in_flight[xid % IN_FLIGHT].xid != xid || c->port != 0)
        return;
    bool verifies = procedure == NFS_WRITE || procedure == NFS_COMMIT;
    if (verifies && status == NFS_OK && faults->verifier && m->length >= 40)
        wire_store32(m->data + m->length - 4,
                     wire_load32(m->data + m->length - 4) ^ (uint32_t)mix(faults->verifier));
    size_t count = 32 + 4 + (m->length >= 36 && wire_load32(m->data + 32) ? NFS_FATTR_BYTES : 0);
    struct {
        enum field field;
        size_t at;
        uint32_t value;
    } damage[FIELDS] = {
        {FIELD_XID, 4, xid ^ 0x55555555},
        {FIELD_STATUS, 28, 0x7fffffff},
        {FIELD_LENGTH, procedure == NFS_READ ? count + 8 : 0, 0x7ffffffe},
        {FIELD_MARK, 0, 0x7fffffff},
    };
    for (unsigned i = 0; i < FIELDS; i++) {
        if ((damage[i].at == 0 && damage[i].field != FIELD_MARK) || damage[i].at + 4 > m->length ||
            !happens(&faults->corrupt[damage[i].field]))
            continue;
        wire_store32(m->data + damage[i].at, damage[i].value);
        c->path->counters.corrupted++;
    }
}

static void reply_came(struct connection *c, struct message *m)
{
    c->path->counters.replies++;
    if (!c->ends[CALLS]) {
        free(m);
        if (c->released) /* the held call was executed */
            connection_reset(c);
    } else if (happens(&c->path->faults.drop[REPLIES])) {
        c->path->counters.dropped++;
        free(m);
    } else {
        corrupt(c, m);
        pass_on(c, REPLIES, m);
    }
}

/* ---- sockets ---- */

/* Sends what is due. False when the connection was reset. */
static bool flow_send(struct connection *c, enum direction direction, uint64_t now)
{
    struct flow *flow = &c->flows[direction];
    struct faults *faults = &c->path->faults;
    struct end *to = c->ends[!direction];
    if (!to || (direction == CALLS && c->connecting))
        return true;
    while (flow->out && flow->out->due <= now && flow->stalled <= now && !dark(c, direction)) {
        struct message *m = flow->out;
        size_t part = m->length - m->sent;
        if (m->sent == 0 && m->length > 8 && happens(&faults->stall[direction])) {
            part = m->length / 2;
            flow->stalled = now + milliseconds(faults->stall_ms);
        } else if (faults->split) {
            size_t most = 1 + random_next(&random_state) % faults->split;
            part = part < most ? part : most;
        }
        ssize_t sent = send(to->watch.fd, m->data + m->sent, part, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            to->watch.events |= POLLOUT;
            return true;
        }
        if (sent < 0) {
            connection_reset(c);
            return false;
        }
        m->sent += (size_t)sent;
        if (m->sent < m->length)
            continue;
        flow->out = m->next;
        flow->queued -= m->length;
        free(m);
    }
    if (flow->ending && !flow->ended && !flow->out) {
        shutdown(to->watch.fd, SHUT_WR);
        flow->ended = true;
    }
    to->watch.events &= (short)~POLLOUT;
    return true;
}

/* One side's connection is no more. */
static void end_lost(struct connection *c, enum direction side)
{
    if (side == CALLS)
        held_abandoned(c->held);
    if (dark(c, side) && c->ends[!side]) { /* the other side does not learn of it */
        end_close(c, side);
        flow_empty(&c->flows[side]);
        flow_empty(&c->flows[!side]);
    } else if (side == CALLS && c->held) {
        end_close(c, CALLS);
        flow_empty(&c->flows[CALLS]);
        flow_empty(&c->flows[REPLIES]);
    } else {
        connection_reset(c);
    }
}

static void end_receive(struct connection *c, enum direction side)
{
    struct flow *flow = &c->flows[side];
    struct end *end = c->ends[side];
    bool garbage = false;
    int got = input_receive(&flow->in, end->watch.fd);
    if (got == -2) {
        end_lost(c, side);
        return;
    }
    if (got == -1) {
        flow->ending = true;
        end->watch.events &= (short)~POLLIN;
    }
    struct message *m;
    while (!c->dead && (m = input_record(&flow->in, &garbage))) {
        if (side == CALLS)
            call_came(c, m);
        else
            reply_came(c, m);
        uint64_t most = c->path->faults.drop_after;
        if (side == CALLS && most && c->calls >= most) {
            c->path->counters.resets++;
            connection_reset(c);
        }
    }
    if (garbage)
        connection_reset(c);
    else if (flow->ending && !c->ends[!side] && !dark(c, side))
        connection_reset(c);
}

static void end_ready(struct watch *watch, short events)
{
    struct connection *c = ((struct end *)watch)->connection;
    enum direction side = c->ends[CALLS] && &c->ends[CALLS]->watch == watch ? CALLS : REPLIES;
    if (side == REPLIES && c->connecting && events) {
        int error = 0;
        socklen_t length = sizeof error;
        getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error) {
            connection_reset(c);
            return;
        }
        c->connecting = false;
        watch->events = POLLIN;
    }
    if (events & (POLLIN | POLLERR | POLLHUP))
        end_receive(c, side);
}

/* ---- what is held ---- */

/* Puts the call on its way: over its own connection, or after that is gone, over a new one. */
static void held_deliver(struct held *held)
{
    struct connection *c = held->connection;
    struct message *m = held->message;
    if (!c) {
        c = need(sizeof *c);
        c->path = held->path;
        c->client.sin_family = AF_INET; /* of nobody */
        c->next = connections;
        connections = c;
        server_open(c);
    } else if (!c->ends[REPLIES] || c->flows[CALLS].broken) {
        c->held = NULL;
        held_discard(held);
        return;
    }
    c->held = NULL;
    c->released = true; /* no fault of now stops it */
    held->message = NULL;
    held->path->counters.delivered++;
    m->due = 0;
    struct message **link = &c->flows[CALLS].out;
    while (*link && (*link)->sent)
        link = &(*link)->next;
    m->next = *link;
    *link = m;
    c->flows[CALLS].queued += m->length;
}

static uint64_t helds_due(uint64_t now)
{
    uint64_t next = NEVER;
    for (struct held **link = &helds; *link;) {
        struct held *held = *link;
        if (held->message && held->due <= now)
            held_deliver(held);
        if (!held->message) {
            *link = held->next;
            free(held);
            continue;
        }
        next = held->due < next ? held->due : next;
        link = &held->next;
    }
    return next;
}

/* ---- what is due ---- */

static uint64_t connection_due(struct connection *c, uint64_t now)
{
    uint64_t next = NEVER;
    if (!c->ends[REPLIES] && !dark(c, CALLS) && c->ends[CALLS])
        server_connect(c);
    for (enum direction d = CALLS; d <= REPLIES && !c->dead; d++) {
        struct flow *flow = &c->flows[d];
        if (!flow_send(c, d, now))
            break;
        struct end *from = c->ends[d];
        if (from && !flow->ending)
            from->watch.events = (short)(flow->queued > QUEUED_MOST ? from->watch.events & ~POLLIN
                                                                    : from->watch.events | POLLIN);
        if (flow->out && !dark(c, d) && c->ends[!d]) {
            uint64_t at = flow->out->due > flow->stalled ? flow->out->due : flow->stalled;
            if (at > now && at < next)
                next = at;
        }
    }
    /* Both sides said all they had to say; or nobody is left who would. */
    if ((c->flows[CALLS].ended && c->flows[REPLIES].ended) ||
        (!c->ends[CALLS] && !c->held && !c->released && !dark(c, CALLS)))
        connection_reset(c);
    return next;
}

/* Moves all that can be moved. Says when more is to be done. */
static uint64_t relay_due(uint64_t now)
{
    uint64_t next = helds_due(now), at;
    for (struct connection *c = connections; c; c = c->next) {
        if (!c->dead && (at = connection_due(c, now)) < next)
            next = at;
    }
    for (struct connection **link = &connections; *link;) {
        struct connection *c = *link;
        if (!c->dead) {
            link = &c->next;
            continue;
        }
        *link = c->next;
        for (enum direction d = CALLS; d <= REPLIES; d++) {
            flow_empty(&c->flows[d]);
            free(c->flows[d].in.bytes);
        }
        free(c);
    }
    return next;
}

#endif
