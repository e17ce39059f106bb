/* The handle of a mount's root: it may become stale, as those of files (renew.h). */
#ifndef MOUNT_ROOT_H
#define MOUNT_ROOT_H

#include "mount/mount.h"

/* The root's handle now. Another one, with what the server said of it when it was asked at
 * `asked_ns`: all handles of directories below it are forgotten. */
struct nfs_fh mount_root(struct mount *mount);
void mount_set_root(struct mount *mount, const struct nfs_fh *root, const struct nfs_attr *attr,
                    uint64_t asked_ns);

/* As mount_renew(), under `contact`. */
int mount_root_renew(struct mount *mount, const struct rpc_auth *auth);
/*
 * Sees to it that the root's handle is good, after something below it was stale: asks the server,
 * and mounts again if it has to, for half a minute. 0, or -errno if that failed. Takes `contact`.
 */
int mount_renew(struct mount *mount, const struct rpc_auth *auth);

#endif
