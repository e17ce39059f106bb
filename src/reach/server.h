/* How a server is called: as which user, from which ports, and over which single path. */
#ifndef REACH_SERVER_H
#define REACH_SERVER_H

#include "config/nfstab.h"
#include "config/tunables.h"
#include "net/net.h"
#include "reach/reason.h"

enum { REACH_GROUPS_MAX = 16 }; /* AUTH_SYS has no room for more */

/* The user and groups of a call. */
struct reach_identity {
    uint32_t uid, gid;
    unsigned group_count;
    uint32_t groups[REACH_GROUPS_MAX];
    unsigned groups_had; /* with those that have no room */
};

struct nfs_version;

/* The calling thread's user and groups now, except where the nfstab sets others for the server. */
void reach_identity_now(const struct conf_server *conf, struct reach_identity *identity);

/* The port policy that the tunable privileged_port asks for. */
enum net_port reach_port_policy(const struct conf_tunables *tunables);

/* For a server of reach_over() that was called: the service for reach_why_call(), by the port that
 * the call came from; and that port. */
enum reach_service reach_nfs_from(const struct net_server *server);
unsigned reach_port_of(const struct net_server *server);

/* How the stanza wants its connections protected, for files in a version of NFS; for
 * net_tls_free(). NULL: no memory. */
struct net_tls *reach_tls_new(const struct conf_server *conf, enum conf_tls tls,
                              const struct nfs_version *version,
                              const struct conf_tunables *tunables);
/* What the nfstab writes for the path, if that may be in a certificate; else NULL. */
const char *reach_tls_written(const struct conf_server *conf, const struct conf_path *path);

/* Makes a server for calls over this path alone, protected by `tls` (NULL: in clear);
 * rpc_server_destroy() destroys it. 0, or -errno and NULL. */
int reach_over(const struct net_address *address, enum net_port ports, unsigned connections,
               const struct conf_tunables *tunables, struct net_tls *tls,
               struct net_server **server);

#endif
