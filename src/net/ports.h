/* When ports below 1024 are short: inside src/net only. */
#ifndef NET_PORTS_H
#define NET_PORTS_H

#include "net/net.h"

/* A connection was made, or failed, after so many ports were tried. If that tells that they are
 * short the connections of this server are given back when they are idle. */
void net_ports_tried(struct net_server *server, unsigned tried);

/* None is left. May another one be used? Asks the server, at most every half minute. */
bool net_ports_take_any(struct net_path *path);

/* Before the server is destroyed: waits for the thread. */
void net_ports_leave(struct net_server *server);

#endif
