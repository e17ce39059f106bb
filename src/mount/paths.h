/* The paths of a server: mounting over the first that answers. */
#ifndef MOUNT_PATHS_H
#define MOUNT_PATHS_H

#include "mount/mount.h"

/* The root of a mount, over the path that answered first. */
struct mount_root_found {
    struct nfs_fh fh;
    bool told;            /* by the kernel */
    bool proven;          /* to be the directory at the mount point; then */
    struct nfs_attr attr; /* what the server said of it, */
    uint64_t asked_ns;    /* when it was asked at this time */
    /* Where this process has the server, if that said so; path NULL: it was another address. */
    const struct conf_path *path;
    struct sockaddr_storage peer;
};

struct mount_root_fact;
/*
 * The root over the first path of the server that answers: *root, and server->net if this is its
 * first mount. The handle is the kernel's, if that tells one which the server knows as this
 * directory, or likewise the one of `fact` (NULL: none); else it is asked for by MOUNT. Waits 10 s
 * for all paths together, or mnt_timeout if that is less. What is wrong with paths is said on the
 * log. 0 or -errno.
 */
int mount_over_paths(struct mount *mount, const struct mount_root_fact *fact,
                     struct mount_root_found *root);

#endif
