/* The paths of proxy.c with their faults, and the connections over them: how they come and go. */
#ifndef FAULT_CONNECTIONS_H
#define FAULT_CONNECTIONS_H

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

static void held_lost(struct connection *c);

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

#endif
