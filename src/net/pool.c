#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/count.h"
#include "net/pool.h"
#include "net/balance.h"
#include "net/health.h"
#include "net/ports.h"
#include "net/protect.h"
#include "net/tls/tls.h"
#include "sys/alloc.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum {
    PAUSE_FIRST_MS = 100,
    PRIVILEGED_BELOW = 1024,
    RESERVE_BYTES = 16384 /* bytes of data, for which a call without any may wait on the reserve */
};

const char net_no_port[] = "no local port is left";

#define HEARD_NS         UINT64_C(2000000000)  /* a path that was heard so recently works */
#define FAILED_NS        UINT64_C(10000000000) /* a refused channel is not used for so long */
#define NO_PORT_EVERY_NS UINT64_C(60000000000)

/* The counters of probes' channels; nobody reads them. */
static struct directnfs_channel_stats hidden_stats;

void net_server_leave(struct net_server *server)
{
    net_health_leave(server);
    net_ports_leave(server);
}

void net_server_destroy(struct net_server *server)
{
    net_server_leave(server);
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        net_channel_disconnect(channel);
        if (channel->stats && channel->stats != &hidden_stats)
            stats_channel_free(channel->stats);
        sys_free(channel);
    }
    pthread_mutex_destroy(&server->lock);
    sys_free(server);
}

/* Under server->lock. NULL: the path has all channels that it may have, or there is no memory. */
static struct net_channel *channel_add(struct net_path *path)
{
    struct net_server *server = path->server;
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_relaxed);
    if (path->channel_count >= server->options.connections_max)
        return NULL;
    struct net_channel *channel = sys_alloc_zeroed(sizeof(*channel));
    if (!channel)
        return NULL;
    channel->server = server;
    channel->path = path;
    channel->fd = -1;
    channel->index = count;
    path->channel_count++;
    channel->reserve =
        path->channel_count > 1 && path->channel_count == server->options.connections_max;
    server->channels[count] = channel;
    atomic_store_explicit(&server->channel_count, count + 1, memory_order_release);
    return channel;
}

int net_server_create(const struct net_server_options *options, const struct net_address *addresses,
                      unsigned count, struct net_server **out)
{
    if (count == 0 || count > NET_PATHS_MAX)
        return -EINVAL;
    struct net_server *server = sys_alloc_zeroed(sizeof(*server));
    if (!server)
        return -ENOMEM;
    snprintf(server->name, sizeof(server->name), "%s", options->name);
    server->options = *options;
    server->options.name = server->name;
    if (options->connections_max < 1)
        server->options.connections_max = 1;
    if (options->connections_max > NET_CONNECTIONS_MAX)
        server->options.connections_max = NET_CONNECTIONS_MAX;
    server->path_count = count;
    pthread_mutex_init(&server->lock, NULL);
    for (unsigned i = 0; i < count; i++) {
        struct net_path *path = &server->paths[i];
        path->server = server;
        path->address = addresses[i];
        path->index = i;
        path->proven = i == 0 || !options->probe;
        pthread_mutex_init(&path->load.lock, NULL);
        if (!server->options.hidden)
            path->stats =
                stats_path(server->options.id, path->address.peer_text, path->address.local_text);
        net_path_show(path);
    }
    if (!channel_add(&server->paths[0])) {
        sys_free(server);
        return -ENOMEM;
    }
    if (count > 1 || options->probe)
        net_health_enter(server);
    *out = server;
    return 0;
}

/* ---- choosing ---- */

/* A server may limit connections: a channel that it refused, or silences, is not used for a
 * while. */
static bool channel_failed(const struct net_channel *channel)
{
    uint64_t failed_ns = atomic_load_explicit(&channel->failed_ns, memory_order_relaxed);
    return (failed_ns != 0 && sys_now_ns() - failed_ns < FAILED_NS) ||
           atomic_load_explicit(&channel->silenced, memory_order_relaxed);
}

/* Has the reserve enough calls in flight? They are taken to be of this one's size. */
static bool is_left_to_shorter(const struct net_channel *channel, size_t outstanding, size_t bytes)
{
    return channel->reserve && outstanding * bytes >= RESERVE_BYTES;
}

bool net_channel_has_room(const struct net_channel *channel, size_t bytes)
{
    unsigned outstanding = atomic_load_explicit(&channel->outstanding, memory_order_relaxed);
    return outstanding < NET_IN_FLIGHT_MAX && !is_left_to_shorter(channel, outstanding, bytes) &&
           !channel_failed(channel);
}

bool net_channel_is_heard(const struct net_channel *channel, uint64_t since_ns)
{
    return atomic_load_explicit(&channel->fd, memory_order_relaxed) >= 0 &&
           atomic_load_explicit(&channel->heard_ns, memory_order_relaxed) > since_ns;
}

bool net_channel_has_sister(const struct net_channel *channel)
{
    struct net_server *server = channel->server;
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        const struct net_channel *other = server->channels[i];
        if (other != channel && other->path == channel->path && other->fd >= 0 &&
            !atomic_load_explicit(&other->silenced, memory_order_relaxed))
            return true;
    }
    return false;
}

bool net_channel_has_other(const struct net_channel *channel)
{
    return (!net_path_usable(channel->path) && net_path_has_other(channel->path)) ||
           (channel_failed(channel) && net_channel_has_sister(channel));
}

/* High bits that count for more than what a channel has to do: the lower rank is better. If the
 * server is silent on some connections, one that brought an answer is better than a new one. */
static uint64_t rank(const struct net_channel *channel, bool failed, bool kept_free)
{
    uint64_t rank = (uint64_t)failed << 62 | (uint64_t)kept_free << 61;
    if (atomic_load_explicit(&channel->path->silenced, memory_order_relaxed) > 0)
        rank |= (uint64_t)atomic_load_explicit(&channel->silenced, memory_order_relaxed) << 63 |
                (uint64_t)!net_channel_is_heard(channel, channel->connected_ns) << 60;
    return rank;
}

/*
 * The channel of the path with the least to do: less bulk data, then fewer calls in flight. Bulk
 * data leaves one channel of a full pool, the reserve, to short calls. Those do not queue up there
 * as long as there are others. NULL: there is none. *grow: another channel would help.
 */
static struct net_channel *least_busy(struct net_path *path, size_t bytes, bool *grow)
{
    struct net_server *server = path->server;
    struct net_channel *best = NULL;
    uint64_t least = 0;
    bool bulk = bytes >= NET_BULK, any_failed = false;
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    unsigned usable = server->options.connections_max, used = 0;
    if (bulk && usable > 1)
        usable--;
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        if (channel->path != path)
            continue;
        used++;
        uint64_t busy = atomic_load_explicit(&channel->outstanding, memory_order_relaxed);
        bool failed = channel_failed(channel);
        bool kept_free = channel->reserve && (bulk || is_left_to_shorter(channel, busy, bytes));
        if (!bulk)
            busy +=
                (atomic_load_explicit(&channel->outstanding_bytes, memory_order_relaxed) / NET_BULK)
                << 32;
        busy |= rank(channel, failed, kept_free);
        any_failed = any_failed || failed;
        if (!best || busy < least) {
            best = channel;
            least = busy;
        }
    }
    *grow = !best || (least != 0 && used < usable && !any_failed);
    return best;
}

struct net_channel *net_path_channel(struct net_path *path, size_t bytes)
{
    struct net_server *server = path->server;
    bool grow;
    struct net_channel *best = least_busy(path, bytes, &grow);
    if (!grow)
        return best;
    pthread_mutex_lock(&server->lock);
    best = least_busy(path, bytes, &grow);
    struct net_channel *added = grow ? channel_add(path) : NULL;
    pthread_mutex_unlock(&server->lock);
    return added ? added : best ? best : server->channels[0];
}

/* No path is usable: takes one that may become so, best one that is not offline. */
static struct net_path *last_resort(struct net_server *server)
{
    struct net_path *chosen = NULL;
    for (unsigned i = 0; i < server->path_count; i++) {
        struct net_path *path = &server->paths[i];
        if (!atomic_load(&path->proven) || atomic_load(&path->state) == NET_PATH_REFUSED)
            continue;
        if (!chosen || (chosen->offline && !path->offline))
            chosen = path;
    }
    return chosen ? chosen : &server->paths[0];
}

struct net_path *net_path_choose(struct net_server *server, size_t bytes, const uint64_t *held)
{
    if (server->path_count == 1)
        return &server->paths[0];
    net_server_look_offline(server);
    net_server_drain(server);
    struct net_path *path = net_balance(server, bytes, held);
    if (!path) {
        net_server_want_more(server); /* a path that was not needed so far may be usable */
        return last_resort(server);
    }
    if (atomic_load_explicit(&path->load.outstanding_bytes, memory_order_relaxed) > 0 ||
        (held && held[path->index] > 0))
        net_server_want_more(server);
    return path;
}

struct net_channel *net_channel_get(struct net_server *server, size_t bytes)
{
    return net_path_channel(net_path_choose(server, bytes, NULL), bytes);
}

/* ---- connecting ---- */

void net_path_address(struct net_path *path, struct net_address *address)
{
    pthread_mutex_lock(&path->server->lock);
    *address = path->address;
    pthread_mutex_unlock(&path->server->lock);
}

/* net_path_is_down_for() under server->lock. */
static bool is_down_for(const struct net_path *path, uint64_t least_ns)
{
    const struct net_server *server = path->server;
    bool down = atomic_load(&path->state) == NET_PATH_DOWN &&
                sys_now_ns() - path->down_since_ns >= least_ns;
    for (unsigned i = 0; i < server->channel_count && down; i++)
        down = server->channels[i]->path != path ||
               !net_channel_is_heard(server->channels[i], path->down_since_ns);
    return down;
}

bool net_path_is_down_for(struct net_path *path, uint64_t least_ns)
{
    pthread_mutex_lock(&path->server->lock);
    bool down = is_down_for(path, least_ns);
    pthread_mutex_unlock(&path->server->lock);
    return down;
}

bool net_path_move(struct net_path *path, const struct sockaddr_storage *peer)
{
    pthread_mutex_lock(&path->server->lock);
    bool moves = is_down_for(path, 0);
    if (moves)
        path->address.peer = *peer;
    pthread_mutex_unlock(&path->server->lock);
    return moves;
}

static bool same_peer(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    return memcmp(a, b, sizeof(*a)) == 0; /* if they are equal, one is a copy of the other */
}

bool net_channel_is_astray(const struct net_channel *channel)
{
    struct net_server *server = channel->server;
    pthread_mutex_lock(&server->lock);
    bool astray =
        atomic_load(&channel->fd) >= 0 && !same_peer(&channel->peer, &channel->path->address.peer);
    pthread_mutex_unlock(&server->lock);
    return astray;
}

/* Enters a connection to that address. False: the path has moved to another one. */
static bool channel_opened(struct net_channel *channel, int fd, const struct sockaddr_storage *peer)
{
    struct net_server *server = channel->server;
    pthread_mutex_lock(&server->lock);
    bool there = same_peer(&channel->path->address.peer, peer);
    if (there) {
        channel->moved = channel->moved || !same_peer(&channel->peer, peer);
        channel->peer = *peer;
        atomic_store(&channel->over, false);
        atomic_store(&channel->fd, fd);
    }
    pthread_mutex_unlock(&server->lock);
    return there;
}

bool net_server_is_at_home(const struct net_server *server)
{
    return server->options.hidden || sys_network_is_home(); /* a probe is made wherever it is */
}

/* A connection that is over is closed only when the next one is made: it does not count. */
static bool is_connected(const struct net_server *server)
{
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    bool connected = false;
    for (unsigned i = 0; i < count && !connected; i++)
        connected =
            atomic_load(&server->channels[i]->fd) >= 0 && !atomic_load(&server->channels[i]->over);
    return connected;
}

bool net_server_look_abroad(struct net_server *server)
{
    bool abroad = !is_connected(server) && !net_server_is_at_home(server);
    atomic_store(&server->abroad, abroad);
    return abroad;
}

/* Said once for the process and its children. */
static void say_abroad(const struct net_server *server)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        log_warning("server %s: this process is in another network namespace than its connections "
                    "(unshare, setns), where it makes none: the kernel serves its files from now "
                    "on, and one with data of other processes that is not sent yet fails with EIO",
                    server->name);
}

/* Calls go over another connection, if there is one, perhaps on another path. */
static int refuse_abroad(struct net_channel *channel)
{
    atomic_store(&channel->failed_ns, sys_now_ns());
    if (!net_channel_has_sister(channel) && net_path_has_other(channel->path))
        net_path_failed(channel->path, "it cannot be made in another network namespace");
    if (net_server_look_abroad(channel->server))
        say_abroad(channel->server);
    return -ENONET;
}

enum net_port net_port_policy(const struct net_server *server)
{
    return server->options.port_policy == NET_PORT_AUTO && atomic_load(&server->privileged) &&
                   !atomic_load(&server->any_port)
               ? NET_PORT_LOW
               : server->options.port_policy;
}

/* The process lacks ports, not the server: it says so once a minute, whatever it wants one for. */
static void say_no_port(const struct net_server *server, const struct net_path *path)
{
    static _Atomic uint64_t said_ns;
    uint64_t now = sys_now_ns(), said = atomic_load(&said_ns);
    if ((said != 0 && now - said < NO_PORT_EVERY_NS) ||
        !atomic_compare_exchange_strong(&said_ns, &said, now))
        return;
    if (net_port_policy(server) == NET_PORT_ANY)
        log_warning(
            "server %s: no local port is left for a connection over %s; its calls use other "
            "connections, or wait. Widen net.ipv4.ip_local_port_range (sysctl), or lower "
            "`connections` in directnfs.conf",
            server->name, path->address.peer_text);
    else
        log_warning("server %s: no local port from 512 to 1023 is left for a connection over %s; "
                    "its calls use other connections, or wait. Set privileged_port = \"no\" in "
                    "directnfs.conf if the server answers other ports (export option `insecure`), "
                    "or lower `connections`",
                    server->name, path->address.peer_text);
}

static void note_port(struct net_server *server, const struct net_path *path, unsigned port,
                      enum net_port policy)
{
    bool low = port != 0 && port < PRIVILEGED_BELOW;
    atomic_store(&server->privileged, low);
    if (policy == NET_PORT_LOW && !low && !server->options.hidden)
        log_warning("server %s: this process may not use ports below 1024 any more; it connects "
                    "over %s from port %u, which the server must allow (export option `insecure`). "
                    "CAP_NET_BIND_SERVICE as an ambient capability keeps that right",
                    server->name, path->address.peer_text, port);
}

void net_channel_failed(struct net_channel *channel, const char *why)
{
    struct net_path *path = channel->path;
    uint64_t now = sys_now_ns();
    atomic_store(&channel->failed_ns, now);
    if (atomic_load(&channel->silenced)) /* the connection before was silenced, too */
        return;
    if (now - atomic_load(&path->heard_ns) > HEARD_NS || !net_channel_has_other(channel))
        net_path_failed(path, why);
}

static void no_port(struct net_channel *channel, unsigned tried)
{
    net_ports_tried(channel->server, tried);
    atomic_store(&channel->failed_ns, sys_now_ns());
    say_no_port(channel->server, channel->path);
    if (!net_channel_has_sister(channel))
        net_path_failed(channel->path, net_no_port);
}

int net_channel_connect_looking(struct net_channel *channel, int timeout_ms, void (*look)(void *),
                                void *context)
{
    struct net_server *server = channel->server;
    struct net_path *path = channel->path;
    bool first = channel->local_port == 0;
    struct net_connecting how = {.policy = net_port_policy(server),
                                 .preferred_port = channel->local_port,
                                 .timeout_ms = timeout_ms,
                                 .look = look,
                                 .context = context};
    net_channel_disconnect(channel);
    if (!net_server_is_at_home(server))
        return refuse_abroad(channel);
    struct net_address address;
    net_path_address(path, &address);
    uint64_t deadline_ns = sys_now_ns() + (uint64_t)timeout_ms * 1000000;
    int fd = net_connect_from(&address, &how);
    unsigned tried = how.tried;
    if (fd == -EADDRINUSE && how.policy == NET_PORT_LOW && net_ports_take_any(path)) {
        how.policy = NET_PORT_ANY;
        how.preferred_port = 0;
        how.timeout_ms = net_left_ms(deadline_ns);
        fd = net_connect_from(&address, &how);
    }
    if (fd >= 0 && server->options.tls)
        fd = net_channel_protect(channel, fd, &address, &how, deadline_ns);
    if (!channel->stats)
        channel->stats = server->options.hidden
                             ? &hidden_stats
                             : stats_channel(server->options.id, path->address.peer_text,
                                             path->address.local_text);
    if (fd < 0) {
        stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_DOWN);
        if (fd == -EADDRINUSE)
            no_port(channel, tried);
        else if (fd != -EAGAIN || !server->options.tls)
            net_channel_failed(channel, net_error_text(server, fd));
        return fd;
    }
    atomic_store(&channel->failed_ns, 0);
    atomic_store(&server->abroad, false);
    /* Wakes the reader now and then, to look after calls without an answer. */
    struct timeval tick = {.tv_usec = NET_TICK_MS * 1000};
    sys_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
    int unacknowledged_ms = (int)server->options.retransmit_timeout_s * 1000;
    sys_setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
                   sizeof(unacknowledged_ms));
    struct sockaddr_storage local;
    channel->local_port = net_local_port(fd, &local);
    channel->moved = memcmp(&local, &channel->local, sizeof(local)) != 0;
    channel->local = local;
    note_port(server, path, channel->local_port, how.policy);
    channel->connected_ns = sys_now_ns();
    if (!channel_opened(channel, fd, &address.peer)) {
        channel->fd = fd;
        net_channel_close(channel, false);
        return -EAGAIN;
    }
    net_ports_tried(server, tried);
    if (!first) {
        stats_add(&channel->stats->reconnects, 1);
        atomic_fetch_add(&server->reconnects, 1);
    }
    stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_UP);
    net_channel_show(channel);
    net_path_show(path);
    if (!server->options.hidden)
        log_info("server %s: connected over %s (local port %u)", server->name,
                 path->address.peer_text, channel->local_port);
    return 0;
}

int net_channel_connect(struct net_channel *channel, int timeout_ms)
{
    return net_channel_connect_looking(channel, timeout_ms, NULL, NULL);
}

static void channel_close(struct net_channel *channel)
{
    net_channel_close(channel, false);
    if (channel->stats)
        stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_DOWN);
}

void net_channel_reset(struct net_channel *channel)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    atomic_store(&channel->over, true);
    if (channel->fd >= 0)
        sys_connect(channel->fd, &nobody, sizeof(nobody));
}

void net_channel_disconnect(struct net_channel *channel)
{
    /* A forked process may not have closed its copy yet, nor called exec. It would keep the
     * connection alive beyond close(), and the queued data would be sent. */
    net_channel_reset(channel);
    channel_close(channel);
}

void net_channel_retire(struct net_channel *channel)
{
    net_channel_disconnect(channel);
    channel->local_port = 0; /* a connection that is needed again is no reconnect */
    atomic_store(&channel->turn_over, false);
    if (channel->stats && atomic_load(&channel->path->offline))
        stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_OFFLINE);
}

int net_reconnect_pause_ms(const struct net_server *server, unsigned attempt)
{
    int longest = (int)server->options.reconnect_max_s * 1000;
    int pause = attempt == 0 ? 0 : attempt > 10 ? longest : PAUSE_FIRST_MS << (attempt - 1);
    return pause < longest ? pause : longest;
}

/* The child finds out anew what a path does: the thread that would probe it does not exist here. */
static void path_after_fork(struct net_path *path)
{
    if (atomic_load(&path->state) == NET_PATH_DOWN)
        atomic_store(&path->state, NET_PATH_UP);
    path->said = false;
    atomic_store(&path->silenced, 0);
    path->answering = path->retries = 0;
    path->given = NULL;
    atomic_store(&path->giving, false);
    atomic_store(&path->silent_ns, 0);
    atomic_store(&path->load.outstanding_bytes, 0);
    pthread_mutex_init(&path->load.lock, NULL);
}

void net_server_after_fork(struct net_server *server)
{
    pthread_mutex_init(&server->lock, NULL);
    atomic_store(&server->more_wanted, false);
    atomic_store(&server->elsewhere, false);
    atomic_store(&server->said_ns, 0);
    atomic_store(&server->unheard, 0);
    server->giving_back = false;
    if (server->options.tls)
        net_tls_after_fork(server->options.tls);
    for (unsigned i = 0; i < server->path_count; i++)
        path_after_fork(&server->paths[i]);
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        channel->stats = NULL;
        net_channel_close(channel, true);
        channel->local_port = 0;
        atomic_store(&channel->turn_over, false);
        atomic_store(&channel->failed_ns, 0);
        atomic_store(&channel->silenced, false);
        atomic_store(&channel->outstanding, 0);
        atomic_store(&channel->outstanding_bytes, 0);
        channel->oldest_ns = 0;
    }
    atomic_store(&server->abroad, true); /* the first user looks: see net_server_is_abroad() */
}
