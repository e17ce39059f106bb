/* The mounts that there are. */
#ifndef MOUNT_MOUNTS_H
#define MOUNT_MOUNTS_H

#include "mount/mount.h"

/* They are never taken away. */
unsigned mounts_count(void);
struct mount *mounts_at(unsigned index);
/* Adds a mount. False: there are too many (said on the log), and it is freed. */
bool mounts_add(struct mount *mount);
/* Notes where the directory of this descriptor is, by its name. 0 or -errno. */
int mount_learn_path(struct mount *mount, int fd);
/* Around fork: nobody adds one, or changes one of them. */
void mounts_lock(void);
void mounts_unlock(void);

/*
 * Around chroot(): mounts are found by the names that they have below the new root directory.
 * `held` has room for MOUNTS_MAX descriptors.
 */
void mount_root_prepare(int *held);
void mount_root_changed(int *held);

/* The mount that has this absolute path below it on this device; NULL if none. */
struct mount *mounts_find(dev_t device, const char *path);
/* Is the device a kernel NFS mount of ours? */
bool mount_is_nfs_device(dev_t device);
bool mount_has_device(dev_t device);

/* A mount of this device; NULL: none. */
struct mount *mount_of_device(dev_t device);

/*
 * May it be said that contacting the server had this result? Once a minute for all processes of the
 * host and, where it is no matter of this mount, for all mounts of the server. `what` tells several
 * lines apart.
 */
bool mount_may_say(const struct mount *mount, const char *what, int result);

/* The client for calls on files of the mount with this credential. */
struct nfs_client mount_client(const struct mount *mount, const struct rpc_auth *auth);

#endif
