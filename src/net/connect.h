/* Sockets of one path: inside src/net only. */
#ifndef NET_CONNECT_H
#define NET_CONNECT_H

#include "net/net.h"

/*
 * As net_connect(), from the local port `preferred_port` (0: none) if that is free, so that the
 * server's duplicate request cache can recognise a call that is sent again. -EADDRINUSE: no local
 * port is left; the path is not at fault. *tried becomes how many ports below 1024 were tried.
 */
int net_connect_from(const struct net_address *address, enum net_port policy,
                     unsigned preferred_port, int timeout_ms, unsigned *tried);

/* The port a socket is bound to, 0 if unknown. */
unsigned net_local_port(int fd);

#endif
