/* From paths to handles, below a mount's root. */
#ifndef MOUNT_LOOKUP_H
#define MOUNT_LOOKUP_H

#include "mount/mount.h"

/*
 * Finds the handle of the file with this absolute path below the mount. Takes directory handles
 * from the cache unless `fresh`. 0 or -errno.
 */
int mount_lookup(struct mount *mount, const struct rpc_auth *auth, const char *path, bool fresh,
                 struct nfs_fh *fh, struct nfs_post_attr *attr);

#endif
