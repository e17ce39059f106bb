/* When ports below 1024 are short: see ports.c. */
#ifndef NET_PORTS_H
#define NET_PORTS_H

#include "net/net.h"

/* Does the process have no connection, and may it have to wait for a port? Before it takes what
 * other processes wait for, it makes a connection. */
bool net_server_is_open(const struct net_server *server);
static inline bool net_server_lacks_port(const struct net_server *server)
{
    return atomic_load_explicit(&server->ports_short, memory_order_relaxed) &&
           !net_server_is_open(server);
}

/* A connection was made, or failed, after so many ports were tried. If few are free, idle
 * connections of this server are closed from now on. */
void net_ports_tried(struct net_server *server, unsigned tried);

/* No port below 1024 is left: may another one be used? Asks the server, at most every half
 * minute. */
bool net_ports_take_any(struct net_path *path);

/* To be called before the server is destroyed: waits for the thread. */
void net_ports_leave(struct net_server *server);

#endif
