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
#include "sys/sys.h"

enum {
    RESERVE_BYTES = 16384 /* bytes of data, for which a call without any may wait on the reserve */
};

#define FAILED_NS UINT64_C(10000000000) /* a refused channel is not used for so long */

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
        if (channel->stats && !server->options.hidden)
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

/* ---- where a path leads ---- */

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
