/*
 * Servers, their network paths, and the pool of TCP sockets ("channels") on each path.
 *
 *   net_server --- net_path (address pair) --- net_channel (socket)
 *
 * This room connects sockets, chooses among them (balance.c) and knows which paths are fit for use
 * (health.c). What travels over them is the business of src/rpc, which hangs its state of a channel
 * on `transport`.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    NET_PATHS_MAX = 32,
    NET_CONNECTIONS_MAX = 64,
    NET_IN_FLIGHT_MAX = 128,     /* on a channel: servers queue about as many on a connection */
    NET_PROBE_TIMEOUT_MS = 1000, /* a path that is asked whether it works must answer within it */
    NET_TICK_MS = 100,           /* the longest that receiving from a channel's socket sleeps */
    NET_BULK =
        65536 /* bytes from which on a call is bulk data: short calls shall not wait behind it */
};

/*
 * Whether sockets are bound to a port below 1024. NET_PORT_AUTO: to one where that is permitted and
 * one is free, else to any; NET_PORT_LOW: to any only where it is not permitted.
 */
enum net_port { NET_PORT_AUTO, NET_PORT_LOW, NET_PORT_PRIVILEGED, NET_PORT_ANY };

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
 * `fd` changes only in net_channel_connect() and net_channel_disconnect(), whose callers exclude
 * users of the old socket.
 */
struct net_channel {
    struct net_server *server;
    struct net_path *path;
    struct directnfs_channel_stats *stats; /* NULL until the first attempt to connect */
    void *transport;                       /* owned by src/rpc */
    _Atomic int fd;                        /* -1 until connected */
    unsigned local_port;                   /* of the last connection: asked for again; 0: none */
    uint64_t connected_ns;                 /* when it was made (CLOCK_MONOTONIC) */
    uint64_t looked_ns;                    /* ports.c: when it was last asked who waits for it */
    _Atomic uint64_t failed_ns;   /* when connecting failed, or brought nothing, if it last did */
    _Atomic unsigned outstanding; /* calls in flight; kept by src/rpc */
    _Atomic uint64_t outstanding_bytes; /* that they carry: see net_load_add() */
    _Atomic bool turn_over; /* others wait for its port: to be closed when nothing is in flight */
    unsigned index;         /* in server->channels */
    bool reserve;           /* the last of a full pool: what is in flight there stays short */
};

/*
 * DOWN: the last attempt to connect failed, or replies stopped. REFUSED: it leads to another server
 * than the first path does; for ever.
 */
enum net_path_state { NET_PATH_UP, NET_PATH_DOWN, NET_PATH_REFUSED };

/* What is known of the speed of a path: see balance.c. All relaxed; kept when there are several
 * paths. */
struct net_load {
    _Atomic uint64_t outstanding_bytes;
    _Atomic uint64_t ns_per_unit; /* smoothed service time of 64 KiB; 0: not known */
    _Atomic uint64_t measured_ns; /* when that was last measured */
    pthread_mutex_t lock;         /* guards the measurement that runs; held for instructions */
    uint64_t departed_ns;         /* when the last reply came */
    uint64_t window_ns, window_bytes;
};

struct net_path {
    struct net_server *server;
    struct net_address address;
    unsigned index;
    _Atomic unsigned channel_count; /* changed under server->lock */
    _Atomic uint32_t state;         /* enum net_path_state; changed under server->lock */
    _Atomic bool proven;            /* it leads to the same server as the first path */
    _Atomic bool offline;           /* an administrator does not want it to be used */
    _Atomic uint64_t heard_ns;      /* when something was last received */
    _Atomic uint64_t up_ns;         /* when it last came up */
    uint64_t down_since_ns;         /* under server->lock */
    uint64_t probe_ns;              /* when the next probe is due; under server->lock */
    unsigned probes;                /* that failed since it is down; under server->lock */
    const char *why;                /* it is down, or was; under server->lock */
    bool said;                      /* on the log, by this process or another; under server->lock */
    struct net_load load;
    struct directnfs_path_stats *stats;
};

/* What is wanted of a server. */
struct net_server_options {
    const char *name;
    unsigned id;              /* index in the shared statistics */
    unsigned connections_max; /* channels per path: 1..NET_CONNECTIONS_MAX */
    enum net_port port_policy;
    unsigned reconnect_max_s;      /* longest pause between attempts to connect */
    unsigned retransmit_timeout_s; /* silence after which a connection is given up */
    unsigned path_timeout_ms;      /* the same, while another path of the server answers */
    unsigned soft_timeout_s;       /* calls unanswered for so long fail; 0: never (hard) */
    bool hidden;                   /* a probe: not on the log, not in the statistics */
    bool once;                     /* a connection that fails, or ends, is an error of its calls */
    /*
     * Asks over a connection of its own whether the path answers, and unless it is `proven`,
     * whether it leads to the same server. 0, -EXDEV (another server), -EAGAIN (cannot be told
     * now), -EADDRINUSE (nor, as no local port is left), or -errno. Called by several threads at
     * once for several paths. May be NULL for a server with one path; the paths beside the first
     * are used only after it said 0.
     */
    int (*probe)(struct net_path *path, bool proven, int timeout_ms);
    /* Closes the channel's connection by net_channel_retire(), unless it is in use, or brought
     * something in the last `idle_ns`: false. */
    bool (*close_idle)(struct net_channel *channel, uint64_t idle_ns);
    /* Asks over a connection from a port above 1023 whether the server answers such. May be NULL,
     * as close_idle. */
    bool (*takes_any_port)(struct net_path *path, int timeout_ms);
};

/*
 * A server as this process uses it. Immutable after net_server_create() but for what `lock` guards
 * and atomics. Never freed while the process uses the library (handles and calls point here).
 */
struct net_server {
    char name[256];
    struct net_server_options options;
    _Atomic bool privileged; /* the last connection came from a port below 1024 */
    unsigned path_count;
    struct net_path paths[NET_PATHS_MAX];

    pthread_mutex_t lock; /* guards growth of the pool and the state of paths; held briefly */
    _Atomic unsigned channel_count;
    struct net_channel *channels[NET_PATHS_MAX * NET_CONNECTIONS_MAX];

    /* ports.c */
    _Atomic bool ports_short; /* ports below 1024 are */
    _Atomic bool any_port;    /* the server answers others as well */
    _Atomic uint64_t any_port_asked_ns;
    unsigned found_at_once;    /* so often in a row; under `lock` */
    bool giving_back, leaving; /* its thread runs; it shall end: under `lock` */

    /* health.c */
    struct net_server *next;       /* of those with several paths */
    _Atomic uint32_t paths_seen;   /* run_offline_generation() that `offline` is of */
    _Atomic bool draining;         /* connections of paths that are offline may be open */
    _Atomic bool more_wanted;      /* one path is not enough: the others shall be proven */
    _Atomic uint64_t suspected_ns; /* when a path fell silent: do the others answer? */
    uint64_t asked_ns;             /* the last `suspected_ns` that they were asked for */
    _Atomic uint64_t said_ns;      /* when waiting was last said on the log */
    _Atomic uint64_t waiting_ns;   /* since when, if that was said and nothing was heard since */
};

/* Makes a server with these paths (1..NET_PATHS_MAX), of which the first is known to lead there. No
 * traffic yet. 0, -EINVAL or -ENOMEM. */
int net_server_create(const struct net_server_options *options, const struct net_address *addresses,
                      unsigned count, struct net_server **server);

/* Closes all sockets and frees the server. Only for programs that have no calls in flight. */
void net_server_destroy(struct net_server *server);

/*
 * Chooses the channel for the next call, which carries `bytes` (of arguments and results together):
 * a path by its load, on it the channel with the fewest calls in flight; while all are busy a new
 * one is added, up to connections_max on a path. The channel may not be connected yet.
 */
struct net_channel *net_channel_get(struct net_server *server, size_t bytes);

/*
 * The same in two steps, for callers that keep to a channel on each path. held[path->index] (NULL:
 * nothing) are bytes that the caller is about to send over each path.
 */
struct net_path *net_path_choose(struct net_server *server, size_t bytes, const uint64_t *held);
struct net_channel *net_path_channel(struct net_path *path, size_t bytes);

/* Another call of `bytes` fits on the channel: it was not refused lately, has not as many in flight
 * as servers queue on a connection, and is not left to calls that are shorter. */
bool net_channel_has_room(const struct net_channel *channel, size_t bytes);

/* ---- load (balance.c) ---- */

/* The policy: the usable path for a call of `bytes`; NULL when none is. `held`: see
 * net_path_choose(). */
struct net_path *net_balance(struct net_server *server, size_t bytes, const uint64_t *held);

/* A call that carries `bytes` goes to this channel; it left it again, answered or not. */
void net_load_add(struct net_channel *channel, size_t bytes);
void net_load_remove(struct net_channel *channel, size_t bytes);
/* It was answered: sent at `sent_ns`, at `now_ns`. */
void net_load_answered(struct net_channel *channel, size_t bytes, uint64_t sent_ns,
                       uint64_t now_ns);

/* What was measured before the path was down says nothing. */
void net_load_forget(struct net_path *path);

/* ---- health (health.c) ---- */

/* New calls may go there: up, proven, and not offline. */
bool net_path_usable(const struct net_path *path);
/* Calls of the channel can go over another: its path is not usable and another is, or it failed
 * while others of its path work. */
bool net_channel_has_other(const struct net_channel *channel);
/* Another channel of the same path is connected, as far as is known. */
bool net_channel_has_sister(const struct net_channel *channel);
/* The server ended a connection that had brought nothing: it limits them, or does not work behind
 * this address. `why`: see net_path_failed(). */
void net_channel_failed(struct net_channel *channel, const char *why);
/* Another path of the server is usable. */
bool net_path_has_other(const struct net_path *path);
/* Another usable path received something since then. */
bool net_path_other_heard(const struct net_path *path, uint64_t since_ns);
/* Something was received over it at this time. */
void net_path_heard(struct net_path *path, uint64_t now_ns);
/* No replies, though calls wait: asks the other paths, in a thread of our own, whether they answer.
 */
void net_path_suspect(struct net_path *path, uint64_t now_ns);
/* The path does not work, for a reason that completes a sentence. True if it was up. Others are
 * probed in a thread of our own until they work again. */
bool net_path_failed(struct net_path *path, const char *why);
/* The reason when it is not the path that fails: the log has it already. */
extern const char net_no_port[];
/* A new path is known not to work, which is on the log. It is probed with the others. */
void net_path_begin_down(struct net_path *path, const char *why);
/* It brought an answer. */
void net_path_works(struct net_path *path);
/* One path is not enough for what is asked for: have the others proven. */
void net_server_want_more(struct net_server *server);
/* Reads again what administrators want offline, if that changed: one atomic load if not. */
void net_server_look_offline(struct net_server *server);
/* Closes what is idle of paths that are offline, if it is not done. False: some is in use. */
bool net_server_drain(struct net_server *server);
/* True once in `interval_s` for the whole server, in all processes: to limit what is said on the
 * log. */
bool net_server_may_say(struct net_server *server, unsigned interval_s);

/* Shows the path's state, and why it is or was so, in the statistics. */
void net_path_show(struct net_path *path);
/* A server with several paths is made, and goes (waits while it is looked after; a second time: no
 * effect). */
void net_health_enter(struct net_server *server);
void net_health_leave(struct net_server *server);
/* Before its channels are destroyed: no thread of ours looks after the server any more. */
void net_server_leave(struct net_server *server);

/*
 * Connects the channel's socket (closing an old one abortively: linger 0), once. Non-blocking
 * connect bounded by `timeout_ms`; TCP_NODELAY, keepalive, FD_CLOEXEC, descriptor high in the
 * table. Returns 0 or -errno of the failure (-ETIMEDOUT, -ECONNREFUSED, ...). Logs path up and
 * down.
 */
int net_channel_connect(struct net_channel *channel, int timeout_ms);

/* Which ports further connections come from: a server that may insist on ports below 1024 gets no
 * other ones when these are used up. Only a process that may no longer bind them uses any. */
enum net_port net_port_policy(const struct net_server *server);

/* Milliseconds to wait before attempt number `attempt` (0, 1, ...) to connect: 0, then growing. */
int net_reconnect_pause_ms(const struct net_server *server, unsigned attempt);

/* Ends the connection by a reset; the socket stays. Not while another thread sleeps in it. */
void net_channel_reset(struct net_channel *channel);

/* Closes the channel's socket abortively. The channel can be connected again. */
void net_channel_disconnect(struct net_channel *channel);

/* The same, of one that is not needed for now: that its path was taken offline is shown. */
void net_channel_retire(struct net_channel *channel);

/* The process has no connection, and may have to wait for a port. Who is about to take what other
 * processes wait for makes one first. */
bool net_server_is_open(const struct net_server *server);
static inline bool net_server_lacks_port(const struct net_server *server)
{
    return atomic_load_explicit(&server->ports_short, memory_order_relaxed) &&
           !net_server_is_open(server);
}

/* Around fork(): no thread is in the middle of a change of the list of servers. */
void net_fork_prepare(void);
void net_fork_parent(void);
void net_fork_child(void);
/* In the child of fork(): closes inherited sockets silently and forgets the channels. */
void net_server_after_fork(struct net_server *server);

/*
 * Opens, binds and connects one socket as net_channel_connect() does. For callers without a server
 * (checks of a path). Returns the descriptor or -errno.
 */
int net_connect(const struct net_address *address, enum net_port policy, int timeout_ms);

void net_address_set_port(struct sockaddr_storage *address, unsigned port);

/* A socket can be bound to it, as far as the address is concerned. True of AF_UNSPEC. */
bool net_address_is_ours(const struct sockaddr_storage *local);

#endif
