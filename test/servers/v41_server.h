/*
 * A server of NFS version 4.1 (RFC 8881) in threads of the test, or of a program of its own: files
 * in memory, sessions whose slots keep replies, no back channel, no delegations, no locks. It does
 * to its client what a test asks for: see struct v41_control. All that it knows is told by
 * AUTH_SYS or AUTH_NONE, and nobody is refused anything.
 *
 *     struct v41_server *server = v41_server_start(NULL, INADDR_LOOPBACK, 0);
 *     v41_node_at(&server->state.store, "/export/file");
 *     ... server->port ... server->control->calls[V41_WRITE] ...
 *     v41_server_stop(server);
 */
#ifndef TEST_V41_SERVER_H
#define TEST_V41_SERVER_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"
#include "v41_compound.h"

enum { V41_HELD = 256 };

struct v41_connection {
    struct v41_server *server;
    unsigned number;
    pthread_t thread;
    pthread_mutex_t sending; /* guards `fd` too */
    int fd;                  /* -1: ended */
    _Atomic bool cut;        /* what else has come over it is not executed */
};

struct v41_held {
    unsigned connection;
    bool executed; /* `data` is the reply, not the call */
    uint8_t *data;
    size_t length;
};

struct v41_server {
    struct v41_control *control; /* `own`, or the caller's */
    struct v41_control own;
    in_port_t port;
    int listener;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows; taken before `sending` */
    struct v41_state state;
    bool stopping;
    unsigned count; /* of connections, also of those that ended */
    struct v41_connection *connections[V41_CONNECTIONS];
    struct v41_held held[V41_HELD];
};

/* ---- for tests ---- */

/* Listens at an address of this host (INADDR_LOOPBACK, INADDR_ANY) and a port, 0 for any. With
 * `control`, which has been initialized, or with its own. NULL: errno says why not. */
struct v41_server *v41_server_start(struct v41_control *control, in_addr_t host, in_port_t port);

/* What is not stable is gone, all connections, clients and sessions too; another verifier. */
void v41_lose_power(struct v41_server *server);

/* As after leases have ended: data and connections stay. */
void v41_forget_sessions(struct v41_server *server);
void v41_break_all(struct v41_server *server);

/* What was held is executed and answered, over the connections on which it came; in this order, or
 * the last first. Nothing more is held. */
void v41_release(struct v41_server *server, bool reverse);

/* Ends all its threads and connections. */
void v41_server_stop(struct v41_server *server);

#endif
