/* A server is asked: as whom, from which ports, over which path alone. */
#ifndef REACH_SERVER_H
#define REACH_SERVER_H

#include "config/nfstab.h"
#include "config/tunables.h"
#include "net/net.h"
#include "reach/reason.h"

enum { REACH_GROUPS_MAX = 16 }; /* AUTH_SYS has no room for more */

/* Who calls. */
struct reach_identity {
    uint32_t uid, gid;
    unsigned group_count;
    uint32_t groups[REACH_GROUPS_MAX];
    unsigned groups_had; /* with those that there is no room for */
};

/* The calling thread at this moment, but for what the nfstab says of the server. */
void reach_identity_now(const struct conf_server *conf, struct reach_identity *identity);

/* What the tunable privileged_port means. */
enum net_port reach_port_policy(const struct conf_tunables *tunables);

/* Of a server of reach_over() that was called: from where, for reach_why_call(), and the port. */
enum reach_service reach_nfs_from(const struct net_server *server);
unsigned reach_port_of(const struct net_server *server);

/* A server for calls over this path alone, to be destroyed by rpc_server_destroy(). 0, or
 * -errno and NULL. */
int reach_over(const struct net_address *address, enum net_port ports, unsigned connections,
               const struct conf_tunables *tunables, struct net_server **server);

#endif
