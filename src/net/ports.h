/* When ports below 1024 are short: see ports.c. */
#ifndef NET_PORTS_H
#define NET_PORTS_H

#include "net/net.h"

/* The process has no connection, and may have to wait for a port. Who is about to take what other
 * processes wait for makes one first. */
bool net_server_is_open(const struct net_server *server);
static inline bool net_server_lacks_port(const struct net_server *server)
{
    return atomic_load_explicit(&server->ports_short, memory_order_relaxed) &&
           !net_server_is_open(server);
}

/* A connection was made, or failed, after so many ports were tried. If that tells that they are
 * short the connections of this server are given back when they are idle. */
void net_ports_tried(struct net_server *server, unsigned tried);

/* None is left. May another one be used? Asks the server, at most every half minute. */
bool net_ports_take_any(struct net_path *path);

/* Before the server is destroyed: waits for the thread. */
void net_ports_leave(struct net_server *server);

#endif
