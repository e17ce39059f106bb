/* The paths of a server: mounting over the first that answers. */
#ifndef MOUNT_PATHS_H
#define MOUNT_PATHS_H

#include "mount/mount.h"

/* The root of a mount, over the path that answered first. */
struct mount_root_found {
    struct nfs_fh fh;
    bool told;            /* by the kernel */
    bool proven;          /* it is the directory at the mount point; then */
    struct nfs_attr attr; /* what the server said of it, */
    uint64_t asked_ns;    /* and when it was asked */
    /* The path and the address that said so, if this process has the server there. path NULL: it
     * was another address. */
    const struct conf_path *path;
    struct sockaddr_storage peer;
    struct net_server *asked; /* inside paths.c: what was called, until server->net is made */
};

struct mount_root_fact;
/*
 * Gets the root over the first path of the server that answers: *root, and server->net if this is
 * the server's first mount. The handle is the kernel's, if the kernel tells one that the server
 * knows as this directory. Else it is the one of `fact` (NULL: none), on the same condition. Else
 * MOUNT is asked, or the server itself in NFSv4.1. Waits 10 s for all paths together, or
 * mnt_timeout if that is less. The log says what is wrong with paths. 0 or -errno.
 */
int mount_over_paths(struct mount *mount, const struct mount_root_fact *fact,
                     struct mount_root_found *root);

#endif
