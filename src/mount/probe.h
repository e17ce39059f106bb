/*
 * Questions over one path alone, on a connection of their own: whether it answers, and leads to the
 * server that was mounted. Inside the engine only. All but the first are for src/net: see struct
 * net_server_options.
 */
#ifndef MOUNT_PROBE_H
#define MOUNT_PROBE_H

#include "mount/mount.h"
#include "net/net.h"

/* For calls over this path, from such a port: client->server is to be destroyed. 0 or -errno. */
int mount_probe_client(const struct mount_server *server, const struct net_address *address,
                       enum net_port ports, const struct rpc_auth *auth, int timeout_ms,
                       struct nfs_client *client);

int mount_probe_path(struct net_path *path, bool proven, int timeout_ms);
/* All that is mounted from the server is asked for: it is an option of each export. */
bool mount_probe_any_port(struct net_path *path, int timeout_ms);
bool mount_probe_elsewhere(struct net_path *path);
void mount_probe_heard(struct net_path *path, const struct sockaddr_storage *peer);

#endif
