/* The handle of a mount's root. It may become stale, as those of files (file/renew.h). */
#ifndef MOUNT_ROOT_H
#define MOUNT_ROOT_H

#include "mount/mount.h"

/* The root's handle now. The second gives it another one, with what the server said of it when it
 * was asked at `asked_ns`. All handles of directories below it are forgotten then. */
struct nfs_fh mount_root(struct mount *mount);
void mount_set_root(struct mount *mount, const struct nfs_fh *root, const struct nfs_attr *attr,
                    uint64_t asked_ns);

/* As mount_renew(); the caller holds `contact`. */
int mount_root_renew(struct mount *mount, const struct rpc_auth *auth);
/*
 * Makes sure that the root's handle is good, after something below it was stale. Asks the server,
 * and mounts again if it has to, for half a minute. 0, or -errno if that failed. Takes `contact`.
 */
int mount_renew(struct mount *mount, const struct rpc_auth *auth);

#endif
