/*
 * Servers, their network paths, and the pool of TCP sockets ("channels") on each path.
 *
 *   net_server --- net_path (address pair) --- net_channel (socket)
 *
 * This room connects sockets (connect.h), chooses among them (pool.h, balance.h) and knows which
 * paths are fit for use (health.h). What travels over them is the business of src/rpc, which hangs
 * its state of a channel on `transport`.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "net/connect.h"

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
    _Atomic bool over;                     /* the connection was given up, or was never made */
    unsigned local_port;                   /* of the last connection: asked for again; 0: none */
    _Atomic uint64_t connected_ns;         /* when it was made (CLOCK_MONOTONIC) */
    uint64_t looked_ns;                    /* ports.c: when it was last asked who waits for it */
    _Atomic uint64_t failed_ns;   /* when connecting failed, or brought nothing, if it last did */
    _Atomic uint64_t heard_ns;    /* when something was last received */
    _Atomic bool silenced;        /* it was silent from the first, while others are answered: not to
                                     be used. fewer.c; changed under server->lock */
    _Atomic unsigned outstanding; /* calls in flight; kept by src/rpc */
    _Atomic uint64_t outstanding_bytes; /* that they carry: see net_load_add() */
    uint64_t oldest_ns;     /* since when its oldest call waits, if that is long: silence.c */
    _Atomic bool turn_over; /* others wait for its port: to be closed when nothing is in flight */
    unsigned index;         /* in server->channels */
    bool reserve;           /* the last of a full pool: what is in flight there stays short */
    bool moved;             /* the connection has other ends than the one before it; */
    struct sockaddr_storage local; /* whence: address and port; */
    struct sockaddr_storage peer;  /* and where to */
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
    struct net_address address; /* .peer: under server->lock, see net_path_address() */
    unsigned index;
    _Atomic unsigned channel_count; /* changed under server->lock */
    _Atomic uint32_t state;         /* enum net_path_state; changed under server->lock */
    _Atomic bool proven;            /* it leads to the same server as the first path */
    _Atomic bool offline;           /* an administrator does not want it to be used */
    _Atomic uint64_t heard_ns;      /* when something was last received */
    _Atomic uint64_t told_ns;       /* when options.heard() was told so */
    _Atomic uint64_t silent_ns; /* since when calls wait and nothing comes, if they do: silence.c */
    _Atomic uint64_t up_ns;     /* when it last came up */
    _Atomic uint64_t lenient_ns; /* until then it is, as a call needed so long: */
    _Atomic uint64_t needed_ns;  /* see rpc/failover.c */
    _Atomic unsigned silenced;   /* channels that are; changed under server->lock, */
    unsigned answering;     /* which guards what follows: how many are not, if that was said; */
    unsigned retries;       /* that failed since, */
    uint64_t retry_ns;      /* and when the next one is due */
    uint64_t down_since_ns; /* under server->lock */
    uint64_t probe_ns;      /* when the next probe is due; under server->lock */
    unsigned probes;        /* that failed since it is down; under server->lock */
    const char *why;        /* it is down, or was; under server->lock */
    bool said;              /* on the log, by this process or another; under server->lock */
    uint64_t silence_ns, silence_over_ns; /* how long it last was silent, until when; likewise */
    /* fewer.c: when it was looked whether another process has no connection; one is to be given up
     * for it; and that one, or NULL, by the thread of health.c. */
    _Atomic uint64_t starved_looked_ns;
    _Atomic bool giving;
    struct net_channel *given;
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
    unsigned path_timeout_ms;      /* of a path, while another one of the server answers; half of it
                                      of a connection, while another one of the path does. 0: none */
    unsigned silence_warning_ms;   /* of the server, until that is on the log; 0: never */
    unsigned soft_timeout_s;       /* calls unanswered for so long fail; 0: never (hard) */
    unsigned nfs_version;          /* in which it is asked whether it lives; 0: any */
    bool hidden;                   /* a probe: not on the log, not in the statistics */
    bool once;                     /* a connection that fails, or ends, is an error of its calls */
    /* The only path is down: is another address of it known, where a probe may find the server?
     * Called under transport->lock. Else nothing is probed. NULL: there is none. */
    bool (*elsewhere)(struct net_path *path);
    /* It was answered at this address: once a second, likewise. May be NULL. */
    void (*heard)(struct net_path *path, const struct sockaddr_storage *peer);
    /*
     * Asks over a connection of its own whether the path answers, and unless it is `proven`,
     * whether it leads to the same server. 0, -EXDEV (another server), -EAGAIN (cannot be told
     * now), -EADDRINUSE (nor, as no local port is left), or -errno. Called by several threads at
     * once for several paths. May be NULL for a server with one path, of which a connection that is
     * silent is not given up early then; the paths beside the first are used only after it said 0.
     */
    int (*probe)(struct net_path *path, bool proven, int timeout_ms);
    /* Closes the channel's connection by net_channel_retire(), unless it is in use, or brought
     * something in the last `idle_ns`: false. */
    bool (*close_idle)(struct net_channel *channel, uint64_t idle_ns);
    /* Does the channel answer a ping within the time? Not asked, and false, if somebody drives it.
     * `connect`: connects one that is not connected, and closes it if it does not answer. May be
     * NULL, as close_idle. */
    bool (*answers)(struct net_channel *channel, bool connect, int timeout_ms);
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
    _Atomic bool privileged;     /* the last connection came from a port below 1024 */
    _Atomic unsigned reconnects; /* connections that took the place of others */
    _Atomic bool abroad;         /* a thread found it so, or nobody looked since a fork */
    _Atomic bool elsewhere;      /* options.elsewhere() said so of the only path, which is down */
    unsigned path_count;
    struct net_path paths[NET_PATHS_MAX];

    pthread_mutex_t lock; /* guards growth of the pool and the state of paths; held briefly */
    _Atomic unsigned channel_count;
    struct net_channel *channels[NET_PATHS_MAX * NET_CONNECTIONS_MAX];
    struct net_channel *_Atomic unbound; /* one that the server wants src/nfs to bind to a session;
                                            NULL: none */

    /* ports.c */
    _Atomic bool ports_short; /* ports below 1024 are */
    _Atomic bool any_port;    /* the server answers others as well */
    _Atomic uint64_t any_port_asked_ns;
    unsigned found_at_once;    /* so often in a row; under `lock` */
    bool giving_back, leaving; /* its thread runs; it shall end: under `lock` */

    /* health.c */
    struct net_server *next;       /* of those that can be probed */
    _Atomic uint32_t paths_seen;   /* run_offline_generation() that `offline` is of */
    _Atomic bool draining;         /* connections of paths that are offline may be open */
    _Atomic bool more_wanted;      /* one path is not enough: the others shall be proven */
    _Atomic uint64_t suspected_ns; /* when a path fell silent: do the others answer? */
    uint64_t asked_ns;             /* the last `suspected_ns` that they were asked for */
    _Atomic unsigned unheard;      /* times in a row that nobody answered then */
    _Atomic uint64_t said_ns;      /* when waiting was last said on the log */
    _Atomic uint64_t waiting_ns;   /* since when, if somebody said so and nothing was heard since */
};

#endif
