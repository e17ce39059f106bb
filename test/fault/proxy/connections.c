/* See connections.h. */
#include "connections.h"
#include "tls.h"

struct path paths[PATHS_MOST];

unsigned path_count;

struct sockaddr_in servers[PORTS];

uint16_t listen_ports[PORTS];

struct connection *connections;

struct held *helds;

uint64_t random_state;

uint64_t late_most_ns = NEVER, alive_ns;

uint64_t too_late(void)
{
    return late_most_ns == NEVER ? NEVER : alive_ns + late_most_ns;
}

bool happens(struct chance *chance)
{
    if (chance->percent == 0 || chance->left == 0 ||
        random_next(&random_state) % 100 >= chance->percent)
        return false;
    chance->left--;
    return true;
}

void change_bit(unsigned char *bytes, size_t length)
{
    enum { HEAD_BYTES = 72 };
    size_t most = random_next(&random_state) % 2 && length > HEAD_BYTES ? HEAD_BYTES : length;
    bytes[random_next(&random_state) % most] ^= 1 << random_next(&random_state) % 8;
}

bool dark(const struct connection *c, enum direction direction)
{
    return c->path->faults.blackhole[direction] && !c->released;
}

/* ---- connections ---- */

void end_close(struct connection *c, enum direction side)
{
    struct end *end = c->ends[side];
    if (!end)
        return;
    socket_reset(&end->watch.fd);
    end->watch.dead = true;
    c->ends[side] = NULL;
}

void flow_empty(struct flow *flow)
{
    flow->broken |= flow->out && flow->out->sent > 0;
    messages_free(&flow->out);
    flow->queued = 0;
    flow->in.used = 0;
}

void connection_reset(struct connection *c)
{
    held_lost(c);
    end_close(c, CALLS);
    end_close(c, REPLIES);
    c->dead = true;
}

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

void server_open(struct connection *c)
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

void server_connect(struct connection *c)
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
    tls_accepted(c);
    path->counters.connections++;
    if (!dark(c, CALLS))
        server_connect(c);
}

bool path_listen(struct path *path)
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

void path_refuse(struct path *path)
{
    for (unsigned port = 0; port < PORTS; port++) {
        if (!path->listeners[port])
            continue;
        socket_reset(&path->listeners[port]->fd);
        path->listeners[port]->dead = true;
        path->listeners[port] = NULL;
    }
}
