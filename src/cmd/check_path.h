/*
 * One path to a server, for check_server.c.
 */
#ifndef CMD_CHECK_PATH_H
#define CMD_CHECK_PATH_H

#include "cmd/check.h"
#include "cmd/check_route.h"
#include "net/net.h"
#include "nfs/mount3.h"
#include "nfs/nfs3_proc.h"

/* What was found out. Set up and freed by check_server(); does not move, as parts point to others.
 */
struct check_path {
    const struct conf_path *conf;
    const char *server_name;
    size_t number;              /* from 1 */
    struct net_address address; /* with the port of NFS */
    struct check_route route;
    struct mount3_target target; /* of the MOUNT service */
    bool mounts;                 /* which answers */
    struct net_server *server;   /* NULL: the NFS service does not answer */
    struct nfs3_client client;
    uint64_t rtt_us;
    double mib_per_s; /* of the read test; 0: none */
};

/* Asks all that needs no export. */
void check_path(struct check *check, const struct conf_server *conf, struct check_path *path,
                const struct mount3_identity *identity, const struct rpc_auth *auth);

enum net_port check_port_policy(const struct conf_tunables *tunables);

/* A server for calls over this path alone. NULL without memory. */
struct net_server *check_connect(const struct check *check, const struct check_path *path,
                                 enum net_port policy, unsigned connections);
void check_disconnect(struct net_server *server); /* NULL is nothing */

#endif
