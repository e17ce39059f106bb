/*
 * The way that packets of a path take, and what is wrong with it, for check_path.c.
 */
#ifndef CMD_CHECK_ROUTE_H
#define CMD_CHECK_ROUTE_H

#include <net/if.h>
#include <netinet/in.h>

#include "net/net.h"

struct check_route {
    int error;                      /* -errno: there is no route; else 0, if `out` is set */
    bool ours;                      /* the peer is an address of this host */
    char out[IF_NAMESIZE];          /* packets leave here; empty: not known */
    char gateway[INET6_ADDRSTRLEN]; /* empty: the peer is on the link */
    struct sockaddr_storage source; /* of the packets */
    char owner[IF_NAMESIZE];        /* has this address; empty: none has */
    unsigned prefix;                /* bits of its subnet */
    bool strict;                    /* rp_filter of `owner` is 1 */
    unsigned mtu;                   /* of `out` */
    unsigned speed;                 /* of `out` in Mb/s; 0: not known */
};

/* Asks the kernel. What it does not tell stays 0. */
void check_route_find(const struct net_address *address, struct check_route *route);

/* What one route tells (false: nothing can be sent), and all of a server together. */
bool check_route_say(const struct net_address *address, const struct check_route *route);
void check_routes_compare(const struct check_route *const *routes, size_t count);

#endif
