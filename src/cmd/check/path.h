/*
 * One path to a server, for check_server.c.
 */
#ifndef CMD_CHECK_PATH_H
#define CMD_CHECK_PATH_H

#include "cmd/check/check.h"
#include "cmd/check/route.h"
#include "net/net.h"
#include "nfs/mount3.h"
#include "nfs/nfs3_proc.h"
#include "reach/server.h"

/* What was found out. Set up and freed by check_server(); does not move, as parts point to others.
 */
struct check_path {
    const struct conf_path *conf;
    size_t number; /* from 1 */
    bool is_one_of_several;
    struct net_address address; /* with the port of NFS */
    struct check_route route;
    struct mount3_target target; /* of the MOUNT service */
    bool mounts;                 /* which answers */
    bool needs_mount;            /* the library would have to ask it */
    uint16_t kernel_port;        /* of NFS, as the kernel's own mount has it; 0: not known */
    struct net_server *server;   /* NULL: the NFS service does not answer */
    struct nfs3_client client;
    uint64_t rtt_us;
    double mib_per_s; /* of the read test; 0: none */
};

/* Asks all that needs no export. */
void check_path(struct check *check, const struct conf_server *conf, struct check_path *path,
                const struct rpc_auth *auth);

#endif
