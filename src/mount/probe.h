/*
 * Questions over one path alone, on a connection of their own: does it answer, and does it lead to
 * the server that was mounted? Inside the engine only. All but the first are for src/net: struct
 * net_server_options says what each has to do.
 */
#ifndef MOUNT_PROBE_H
#define MOUNT_PROBE_H

#include "mount/mount.h"
#include "net/net.h"

/* Makes a client for calls over this path alone, from such a port. The caller destroys
 * client->server. 0 or -errno. */
int mount_probe_client(const struct mount_server *server, const struct net_address *address,
                       enum net_port ports, const struct rpc_auth *auth, int timeout_ms,
                       struct nfs_client *client);

/* Does the path answer and, unless it is `proven`, lead to the same server? 0 or -errno. */
int mount_probe_path(struct net_path *path, bool proven, int timeout_ms);
/* Does the server take calls from any port? Asks for the root of each of its mounts, since that is
 * an option of each export. */
bool mount_probe_any_port(struct net_path *path, int timeout_ms);
/* Is another address known for the path? */
bool mount_probe_elsewhere(struct net_path *path);
/* The server answered at this address: others look for it there. */
void mount_probe_heard(struct net_path *path, const struct sockaddr_storage *peer);

#endif
