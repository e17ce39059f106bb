#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/stats.h"
#include "net/connect.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { PAUSE_FIRST_MS = 100 };

void net_server_destroy(struct net_server *server)
{
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        net_channel_disconnect(channel);
        if (channel->stats)
            host_stats_channel_free(channel->stats);
        free(channel);
    }
    pthread_mutex_destroy(&server->lock);
    free(server);
}

/* Under server->lock, or before anyone knows the server. The path with the fewest channels gets the
 * next one. */
static struct net_channel *channel_add(struct net_server *server)
{
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_relaxed);
    if (count >= server->connections_max * server->path_count)
        return NULL;
    struct net_channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return NULL;
    channel->server = server;
    channel->path = &server->paths[count % server->path_count];
    channel->fd = -1;
    channel->index = count;
    server->channels[count] = channel;
    atomic_store_explicit(&server->channel_count, count + 1, memory_order_release);
    return channel;
}

int net_server_create(const struct net_server_options *options, const struct net_address *addresses,
                      unsigned count, struct net_server **out)
{
    if (count == 0 || count > NET_PATHS_MAX)
        return -EINVAL;
    struct net_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    snprintf(server->name, sizeof(server->name), "%s", options->name);
    server->id = options->id;
    server->connections_max = options->connections_max;
    if (server->connections_max < 1)
        server->connections_max = 1;
    if (server->connections_max > NET_CONNECTIONS_MAX)
        server->connections_max = NET_CONNECTIONS_MAX;
    server->port_policy = options->port_policy;
    server->reconnect_max_s = options->reconnect_max_s;
    server->retransmit_timeout_s = options->retransmit_timeout_s;
    server->path_count = count;
    for (unsigned i = 0; i < count; i++)
        server->paths[i].address = addresses[i];
    pthread_mutex_init(&server->lock, NULL);
    if (!channel_add(server)) {
        free(server);
        return -ENOMEM;
    }
    *out = server;
    return 0;
}

static struct net_channel *least_busy(struct net_server *server, unsigned *outstanding)
{
    struct net_channel *best = NULL;
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        unsigned busy = atomic_load_explicit(&channel->outstanding, memory_order_relaxed);
        if (!best || busy < *outstanding) {
            best = channel;
            *outstanding = busy;
        }
    }
    return best;
}

struct net_channel *net_channel_get(struct net_server *server)
{
    unsigned busy = 0;
    struct net_channel *best = least_busy(server, &busy);
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_relaxed);
    if (busy == 0 || count >= server->connections_max * server->path_count)
        return best;
    pthread_mutex_lock(&server->lock);
    best = least_busy(server, &busy);
    if (busy != 0) {
        struct net_channel *added = channel_add(server);
        if (added)
            best = added;
    }
    pthread_mutex_unlock(&server->lock);
    return best;
}

static void path_changed(struct net_channel *channel, int result)
{
    struct net_server *server = channel->server;
    struct net_path *path = channel->path;
    pthread_mutex_lock(&server->lock);
    bool was_down = path->down;
    uint64_t since = path->down_since_ns;
    path->down = result != 0;
    if (result != 0 && !was_down)
        path->down_since_ns = sys_now_ns();
    pthread_mutex_unlock(&server->lock);
    if (result != 0 && !was_down)
        log_warning(
            "server %s: path %s is down: connecting failed: %s; trying again until it works",
            server->name, path->address.peer_text, strerrordesc_np(-result));
    else if (result == 0 && was_down)
        log_warning("server %s: path %s is up again after %.1f s", server->name,
                    path->address.peer_text, (double)(sys_now_ns() - since) / 1e9);
}

int net_channel_connect(struct net_channel *channel, int timeout_ms)
{
    struct net_server *server = channel->server;
    bool first = channel->local_port == 0;
    net_channel_disconnect(channel);
    int fd = net_connect_from(&channel->path->address, server->port_policy, channel->local_port,
                              timeout_ms);
    path_changed(channel, fd < 0 ? fd : 0);
    if (!channel->stats)
        channel->stats = host_stats_channel(server->id, channel->path->address.peer_text,
                                            channel->path->address.local_text);
    if (fd < 0) {
        if (fd == -EADDRNOTAVAIL) /* another connection has the old port: ask for it no more */
            channel->local_port = 0;
        host_stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_DOWN);
        return fd;
    }
    /* Wakes the reader now and then, to look after calls that stay unanswered. */
    struct timeval tick = {.tv_sec = 1};
    sys_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
    int unacknowledged_ms = (int)server->retransmit_timeout_s * 1000;
    sys_setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
                   sizeof(unacknowledged_ms));
    channel->local_port = net_local_port(fd);
    channel->connected_ns = sys_now_ns();
    channel->fd = fd;
    if (!first)
        host_stats_add(&channel->stats->reconnects, 1);
    host_stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_UP);
    log_info("server %s: connected over %s (local port %u)", server->name,
             channel->path->address.peer_text, channel->local_port);
    return 0;
}

void net_channel_disconnect(struct net_channel *channel)
{
    sys_fd_close(channel->fd);
    channel->fd = -1;
}

int net_reconnect_pause_ms(const struct net_server *server, unsigned attempt)
{
    if (attempt == 0)
        return 0;
    int longest = (int)server->reconnect_max_s * 1000;
    int pause = attempt > 10 ? longest : PAUSE_FIRST_MS << (attempt - 1);
    return pause < longest ? pause : longest;
}

void net_server_after_fork(struct net_server *server)
{
    pthread_mutex_init(&server->lock, NULL);
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        net_channel_disconnect(channel);
        channel->stats = NULL;
        channel->local_port = 0;
        atomic_store(&channel->outstanding, 0);
    }
}
