/*
 * Servers, their network paths, and the pool of TCP sockets ("channels") on each path.
 *
 *   net_server --- net_path (address pair) --- net_channel (socket)
 *
 * This room connects sockets (connect.h), chooses among them (pool.h, balance.h), and knows which
 * paths are fit for use (health.h). src/rpc looks after what travels over them. It keeps its state
 * of a channel in `transport`.
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
    NET_PROBE_TIMEOUT_MS = 1000, /* a path must answer a probe within it */
    NET_TICK_MS = 100,           /* the longest that receiving from a channel's socket sleeps */
    NET_BULK = 65536 /* bytes that make a call bulk data: short calls shall not wait behind it */
};

/*
 * A socket and its place in the pool. net_channel_get() makes it, and it lives as long as its
 * server. Only net_channel_connect() and net_channel_disconnect() change `fd`. Their callers keep
 * users of the old socket out.
 */
struct net_channel {
    struct net_server *server;
    struct net_path *path;
    struct net_tls_session *tls; /* of the connection; NULL: it is in clear. Changes with `fd` */
    struct directnfs_channel_stats *stats; /* NULL until the first attempt to connect */
    void *transport;                       /* owned by src/rpc */
    _Atomic int fd;                        /* -1 until connected */
    _Atomic bool over;                     /* the connection was given up, or was never made */
    unsigned local_port;                   /* of the last connection, preferred for the next; 0:
                                              none */
    unsigned tried;                        /* how many local ports it took to make it */
    _Atomic uint64_t connected_ns;         /* when the connection was made (CLOCK_MONOTONIC) */
    uint64_t looked_ns;                    /* ports.c: when it was last asked whether others wait
                                              for its port */
    _Atomic uint64_t failed_ns; /* when connecting failed, or brought nothing; 0 after a success */
    _Atomic uint64_t heard_ns;  /* when something was last received */
    _Atomic bool silenced;      /* silent from the first, while other connections are answered:
                                   not to be used. fewer.c; changed under server->lock */
    _Atomic unsigned outstanding;       /* calls in flight; kept by src/rpc */
    _Atomic uint64_t outstanding_bytes; /* the bytes of those calls: see net_load_add() */
    uint64_t oldest_ns;     /* since when its oldest call waits; 0: not long. silence.c */
    _Atomic bool turn_over; /* others wait for its port: close it when nothing is in flight */
    unsigned index;         /* in server->channels */
    bool reserve;           /* the last channel of a full pool: calls wait only briefly on it */
    bool moved;             /* an end of the connection differs from the one before */
    struct sockaddr_storage local; /* address and port of this end */
    struct sockaddr_storage peer;  /* and of the server's */
};

/* DOWN: the last attempt to connect failed, or replies stopped. REFUSED, for ever: it leads to
 * another server than the first path. */
enum net_path_state { NET_PATH_UP, NET_PATH_DOWN, NET_PATH_REFUSED };

/* What is known of a path's speed: see balance.c. Atomics are relaxed. It is only kept for a server
 * with several paths. */
struct net_load {
    _Atomic uint64_t outstanding_bytes;
    _Atomic uint64_t ns_per_unit; /* smoothed service time of 64 KiB; 0: not known */
    _Atomic uint64_t measured_ns; /* when ns_per_unit was last measured */
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
    _Atomic bool offline;           /* an administrator took it offline */
    _Atomic uint64_t heard_ns;      /* when something was last received */
    _Atomic uint64_t told_ns;       /* when options.heard() was last told of it */
    _Atomic uint64_t silent_ns;  /* since when calls wait and nothing comes; 0: not so. silence.c */
    _Atomic uint64_t up_ns;      /* when it last came up */
    _Atomic uint64_t lenient_ns; /* until then it is lenient, as a call took so long: */
    _Atomic uint64_t needed_ns;  /* see rpc/failover.c */
    _Atomic unsigned silenced;   /* how many of its channels are silenced; changed under
                                    server->lock */
    unsigned answering;     /* how many answer, if the log said that some do not; this and the next
                               two under server->lock */
    unsigned retries;       /* how often asking silenced ones failed since then */
    uint64_t retry_ns;      /* when to ask them next */
    uint64_t down_since_ns; /* under server->lock */
    uint64_t probe_ns;      /* when the next probe is due; under server->lock */
    unsigned probes;        /* failed probes since it went down; under server->lock */
    const char *why;        /* why it is down, or was; under server->lock */
    bool said;              /* the log says it is down, from this process or another; under
                               server->lock */
    uint64_t silence_ns, silence_over_ns; /* of the last silence: how long, until when; likewise */
    /* fewer.c: when this process last looked for a starved one; whether to give a connection up for
     * it; and that connection's channel or NULL, which only the thread of health.c uses. */
    _Atomic uint64_t starved_looked_ns;
    _Atomic bool giving;
    struct net_channel *given;
    struct net_load load;
    struct directnfs_path_stats *stats;
};

/* How a server is to be used. */
struct net_server_options {
    const char *name;
    unsigned id;              /* index in the shared statistics */
    unsigned connections_max; /* channels per path: 1..NET_CONNECTIONS_MAX */
    enum net_port port_policy;
    unsigned reconnect_max_s;      /* longest pause between attempts to connect */
    unsigned retransmit_timeout_s; /* a connection that is silent for so long is given up */
    unsigned path_timeout_ms;      /* the same for a path, while another path of the server answers;
                                      half of it for a connection, while another one of the path
                                      answers. 0: never */
    unsigned silence_warning_ms;   /* a server that is silent for so long is on the log; 0: never */
    unsigned soft_timeout_s;       /* a call that waits so long fails; 0: never (hard) */
    unsigned nfs_version;          /* the version for pings; 0: any */
    bool kerberos_only;            /* AUTH_SYS is never used */
    bool kerberos;                 /* some calls may be under Kerberos */
    struct net_tls *tls;           /* protects the connections; NULL: they are in clear */
    uint32_t tls_program;          /* of the call that asks for TLS, with its version; 0: NFS */
    uint32_t tls_version;
    bool hidden; /* for a probe: not on the log, not in the statistics */
    bool once;   /* a connection that fails, or ends, is an error for its calls */
    /* The only path is down: is another address known, where a probe may find the server? False:
     * nothing is probed. Called under transport->lock. NULL: there is no other address. */
    bool (*elsewhere)(struct net_path *path);
    /* The path was answered at this address. Called once a second, under transport->lock. May be
     * NULL. */
    void (*heard)(struct net_path *path, const struct sockaddr_storage *peer);
    /*
     * Asks over a connection of its own whether the path answers. Unless the path is `proven`, asks
     * too whether it leads to this server.
     * 0: yes. A path other than the first is used only after this.
     * -EXDEV: it leads to another server.
     * -EAGAIN: it cannot be told now.
     * -EADDRINUSE: nor this, as no local port is left.
     * Another -errno: it does not answer.
     *
     * Several threads may call it at once for several paths. A server with one path may have NULL.
     * Then connections that are silent are not given up early.
     */
    int (*probe)(struct net_path *path, bool proven, int timeout_ms);
    /* Closes the channel's connection by net_channel_retire(). False: it is in use, or brought
     * something in the last `idle_ns`. */
    bool (*close_idle)(struct net_channel *channel, uint64_t idle_ns);
    /*
     * Does the channel answer a ping within the time? False, without asking, while another thread
     * drives it. `connect`: connects the channel if necessary, and closes it again if it does not
     * answer. May be NULL, as close_idle.
     */
    bool (*answers)(struct net_channel *channel, bool connect, int timeout_ms);
    /* Asks over a connection from a port above 1023 whether the server answers such ports. May be
     * NULL, as close_idle. */
    bool (*takes_any_port)(struct net_path *path, int timeout_ms);
};

/*
 * A server as this process uses it. Immutable after net_server_create(), except for atomics and
 * what `lock` guards. Never freed while the process uses the library, as handles and calls point
 * here.
 */
struct net_server {
    char name[256];
    struct net_server_options options;
    _Atomic bool privileged;     /* the last connection came from a port below 1024 */
    _Atomic unsigned reconnects; /* connections that replaced others */
    _Atomic bool abroad;         /* a thread was abroad, or none has looked since a fork */
    _Atomic uint32_t security;   /* DIRECTNFS_SECURITY_... of its mounts, without TLS */
    _Atomic bool elsewhere;      /* options.elsewhere() was true for the only path, which is down */
    unsigned path_count;
    struct net_path paths[NET_PATHS_MAX];

    pthread_mutex_t lock; /* guards growth of the pool and the state of paths; held briefly */
    _Atomic unsigned channel_count;
    struct net_channel *channels[NET_PATHS_MAX * NET_CONNECTIONS_MAX];
    struct net_channel *_Atomic unbound; /* a channel that the server wants src/nfs to bind to a
                                            session; NULL: none */

    /* ports.c */
    _Atomic bool ports_short; /* ports below 1024 are short */
    _Atomic bool any_port;    /* the server answers ports above 1023 too */
    _Atomic uint64_t any_port_asked_ns;
    unsigned found_at_once;    /* how often in a row the first port tried was free; under `lock` */
    bool giving_back, leaving; /* the thread that gives back runs; it shall end: under `lock` */

    /* health.c */
    struct net_server *next;       /* in the list of servers that can be probed */
    _Atomic uint32_t paths_seen;   /* the run_offline_generation() that each `offline` is of */
    _Atomic bool draining;         /* connections of offline paths may be open */
    _Atomic bool more_wanted;      /* one path is not enough: prove the others */
    _Atomic uint64_t suspected_ns; /* when a path fell silent, so that the others are asked */
    uint64_t asked_ns;             /* the last `suspected_ns` for which they were asked */
    _Atomic unsigned unheard;      /* how many times in a row none answered then */
    _Atomic uint64_t said_ns;      /* when the log last said that it waits */
    _Atomic uint64_t waiting_ns;   /* since when it waits, if the log said so and nothing was heard
                                      since; else 0 */
};

#endif
