/*
 * Servers, their network paths, and the pool of TCP sockets ("channels") on each path.
 *
 *   net_server --- net_path (address pair) --- net_channel (socket)
 *
 * This room connects sockets and chooses among them. What travels over them is the business of
 * src/rpc, which hangs its state of a channel on `transport`.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { NET_PATHS_MAX = 16, NET_CONNECTIONS_MAX = 64 };

/* Whether sockets are bound to a port below 1024: NET_PORT_AUTO binds one where it is permitted. */
enum net_port { NET_PORT_AUTO, NET_PORT_PRIVILEGED, NET_PORT_ANY };

/* One network path: where to connect (port included), and from where. */
struct net_address {
    struct sockaddr_storage peer;
    struct sockaddr_storage local; /* ss_family AF_UNSPEC: any */
    bool dontroute;
    char peer_text[64];
    char local_text[64];
};

/*
 * A socket and its place in the pool. Created by net_channel_get(), lives as long as its server.
 * `fd` changes only in net_channel_connect(), whose caller excludes users of the old socket.
 */
struct net_channel {
    struct net_server *server;
    struct net_path *path;
    struct directnfs_channel_stats *stats; /* NULL until the first attempt to connect */
    void *transport;                       /* owned by src/rpc */
    int fd;                                /* -1 until connected */
    unsigned local_port;                   /* of the last connection: asked for again; 0: none */
    uint64_t connected_ns;                 /* when it was made (CLOCK_MONOTONIC) */
    _Atomic unsigned outstanding;          /* calls in flight; kept by src/rpc */
    unsigned index;                        /* in server->channels */
};

struct net_path {
    struct net_address address;
    bool down;              /* under server->lock; the last attempt to connect failed */
    uint64_t down_since_ns; /* under server->lock */
};

/*
 * A server as this process uses it. Immutable after net_server_create() but for what `lock` guards.
 * Never freed while the process uses the library (handles and calls point here).
 */
struct net_server {
    char name[256];
    unsigned id;              /* index in the shared statistics */
    unsigned connections_max; /* channels per path */
    enum net_port port_policy;
    unsigned reconnect_max_s;      /* longest pause between attempts to connect */
    unsigned retransmit_timeout_s; /* silence after which a connection is given up */
    unsigned path_count;
    struct net_path paths[NET_PATHS_MAX];

    pthread_mutex_t lock; /* guards growth of the pool and the state of paths; held briefly */
    _Atomic unsigned channel_count;
    struct net_channel *channels[NET_PATHS_MAX * NET_CONNECTIONS_MAX];
};

struct net_server_options {
    const char *name;
    unsigned id;
    unsigned connections_max;
    enum net_port port_policy;
    unsigned reconnect_max_s;
    unsigned retransmit_timeout_s;
};

/* Makes a server with these paths (1..NET_PATHS_MAX). No traffic yet. 0, -EINVAL or -ENOMEM. */
int net_server_create(const struct net_server_options *options, const struct net_address *addresses,
                      unsigned count, struct net_server **server);

/* Closes all sockets and frees the server. Only for programs that have no calls in flight. */
void net_server_destroy(struct net_server *server);

/*
 * Chooses the channel for the next call: the one with the fewest calls in flight; while all are
 * busy a new one is added, up to connections_max on a path. The channel may not be connected yet.
 */
struct net_channel *net_channel_get(struct net_server *server);

/*
 * Connects the channel's socket (closing an old one abortively: linger 0), once. Non-blocking
 * connect bounded by `timeout_ms`; TCP_NODELAY, keepalive, FD_CLOEXEC, descriptor high in the
 * table. Returns 0 or -errno of the failure (-ETIMEDOUT, -ECONNREFUSED, ...). Logs path up and
 * down.
 */
int net_channel_connect(struct net_channel *channel, int timeout_ms);

/* Milliseconds to wait before attempt number `attempt` (0, 1, ...) to connect: 0, then growing. */
int net_reconnect_pause_ms(const struct net_server *server, unsigned attempt);

/* Closes the channel's socket abortively. The channel can be connected again. */
void net_channel_disconnect(struct net_channel *channel);

/* In the child of fork(): closes inherited sockets silently and forgets the channels. */
void net_server_after_fork(struct net_server *server);

/*
 * Opens, binds and connects one socket as net_channel_connect() does. For callers without a server
 * (checks of a path). Returns the descriptor or -errno.
 */
int net_connect(const struct net_address *address, enum net_port policy, int timeout_ms);

#endif
