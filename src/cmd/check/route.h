/* The way of a path's packets, and what is wrong with it; for path.c and server.c. */
#ifndef CMD_CHECK_ROUTE_H
#define CMD_CHECK_ROUTE_H

#include <net/if.h>
#include <netinet/in.h>

#include "net/net.h"

struct check_route {
    int error;                      /* -errno: there is no route; 0 otherwise */
    bool ours;                      /* the peer is an address of this host */
    char out[IF_NAMESIZE];          /* packets leave by this interface; empty: not known */
    char gateway[INET6_ADDRSTRLEN]; /* empty: the peer is on the link */
    struct sockaddr_storage source; /* source address of the packets */
    char owner[IF_NAMESIZE];        /* the interface with this address; empty: none */
    unsigned prefix;                /* bits of the source's subnet */
    bool strict;                    /* rp_filter of `owner` is 1 */
    unsigned mtu;                   /* of `out` */
    unsigned speed;                 /* of `out` in Mb/s; 0: not known */
};

/* Asks the kernel. What the kernel does not tell stays 0. */
void check_route_find(const struct net_address *address, struct check_route *route);

/* say: reports on one route; false: nothing can be sent. compare: reports on all routes of a server
 * together. */
bool check_route_say(const struct net_address *address, const struct check_route *route);
void check_routes_compare(const struct check_route *const *routes, size_t count);

#endif
