/* A channel is connected, and its connection given up. */
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <string.h>

#include "net/health.h"
#include "net/pool.h"
#include "net/ports.h"
#include "net/protect.h"
#include "net/tls/tls.h"
#include "stats/count.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum { PAUSE_FIRST_MS = 100, PRIVILEGED_BELOW = 1024 };

#define HEARD_NS         UINT64_C(2000000000) /* a path that was heard so recently works */
#define NO_PORT_EVERY_NS UINT64_C(60000000000)

const char net_no_port[] = "no local port is left";

/* The counters of probes' channels; nobody reads them. */
static struct directnfs_channel_stats hidden_stats;

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

static void show_counters(struct net_channel *channel)
{
    const struct net_server *server = channel->server;
    const struct net_address *address = &channel->path->address;
    if (!channel->stats)
        __atomic_store_n(
            &channel->stats,
            server->options.hidden
                ? &hidden_stats
                : stats_channel(server->options.id, address->peer_text, address->local_text),
            __ATOMIC_SEQ_CST); /* see net_server_show_security() */
}

/* The channel has this connection from now on. False: its path has moved to another address. */
static bool enter(struct net_channel *channel, int fd, const struct sockaddr_storage *local,
                  unsigned port, const struct sockaddr_storage *peer)
{
    struct net_server *server = channel->server;
    atomic_store(&channel->failed_ns, 0);
    atomic_store(&server->abroad, false);
    channel->local_port = port;
    channel->moved = memcmp(local, &channel->local, sizeof(*local)) != 0;
    channel->local = *local;
    if (!channel_opened(channel, fd, peer))
        return false;
    net_ports_tried(server, channel->tried);
    stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_UP);
    net_channel_show(channel);
    net_path_show(channel->path);
    if (!server->options.hidden)
        log_info("server %s: connected over %s (local port %u)", server->name,
                 channel->path->address.peer_text, port);
    return true;
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
    show_counters(channel);
    if (fd < 0) {
        stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_DOWN);
        if (fd == -EADDRINUSE)
            no_port(channel, tried);
        else if (fd != -EAGAIN || !server->options.tls)
            net_channel_failed(channel, net_error_text(server, fd));
        return fd;
    }
    /* Wakes the reader now and then, to look after calls without an answer. */
    struct timeval tick = {.tv_usec = NET_TICK_MS * 1000};
    sys_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
    int unacknowledged_ms = (int)server->options.retransmit_timeout_s * 1000;
    sys_setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
                   sizeof(unacknowledged_ms));
    struct sockaddr_storage local;
    unsigned port = net_local_port(fd, &local);
    note_port(server, path, port, how.policy);
    channel->tried = tried;
    channel->connected_ns = sys_now_ns();
    if (!enter(channel, fd, &local, port, &address.peer)) {
        channel->fd = fd;
        net_channel_close(channel, false);
        return -EAGAIN;
    }
    if (!first) {
        stats_add(&channel->stats->reconnects, 1);
        atomic_fetch_add(&server->reconnects, 1);
    }
    return 0;
}

int net_channel_connect(struct net_channel *channel, int timeout_ms)
{
    return net_channel_connect_looking(channel, timeout_ms, NULL, NULL);
}

bool net_channel_take(struct net_channel *channel, struct net_channel *from)
{
    const struct net_address *to = &channel->path->address, *of = &from->path->address;
    int fd = atomic_load(&from->fd);
    if (fd < 0 || from->tls || channel->server->options.tls || atomic_load(&from->over) ||
        atomic_load(&channel->fd) >= 0 || !same_peer(&to->local, &of->local) ||
        !same_peer(&to->peer, &from->peer) || to->dontroute != of->dontroute)
        return false;
    show_counters(channel);
    channel->tried = from->tried;
    channel->connected_ns = from->connected_ns;
    note_port(channel->server, channel->path, from->local_port, net_port_policy(channel->server));
    if (!enter(channel, fd, &from->local, from->local_port, &from->peer))
        return false;
    atomic_store(&channel->heard_ns, atomic_load(&from->heard_ns));
    atomic_store(&from->fd, -1);
    return true;
}

static void channel_close(struct net_channel *channel)
{
    net_channel_close(channel, false);
    if (channel->stats)
        stats_set(&channel->stats->state, DIRECTNFS_CHANNEL_DOWN);
}

/* Linux, since 2025, does not disconnect a socket whose records it makes (kTLS). Then it hears
 * nothing any more (socket(7), SO_ATTACH_FILTER): so no acknowledgement lets it send what is
 * queued, and the next of its timers ends the connection, whoever has a copy of the socket. Readers
 * are woken. */
static void end_connection(int fd)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    const int unacknowledged_ms = 1;
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &nothing};
    if (sys_connect(fd, &nobody, sizeof(nobody)) == 0)
        return;
    sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
    sys_setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
                   sizeof(unacknowledged_ms));
    sys_shutdown(fd, SHUT_RD);
}

void net_channel_reset(struct net_channel *channel)
{
    atomic_store(&channel->over, true);
    if (channel->fd >= 0)
        end_connection(channel->fd);
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
