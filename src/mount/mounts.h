/* The mounts that there are. */
#ifndef MOUNT_MOUNTS_H
#define MOUNT_MOUNTS_H

#include "mount/mount.h"

/* How many mounts there are, and one of them by its place. Mounts are added, and never taken away.
 */
unsigned mounts_count(void);
struct mount *mounts_at(unsigned index);
/* Adds a mount. False: there are too many (the log says so), and it is freed. */
bool mounts_add(struct mount *mount);
/* Notes the path of the mount's directory, by a descriptor of it, as /proc/self/fd shows it. 0 or
 * -errno. */
int mount_learn_path(struct mount *mount, int fd);
/* Around fork: nobody adds a mount, or changes what `lock` of a mount guards. */
void mounts_lock(void);
void mounts_unlock(void);

/*
 * Around chroot(): afterwards mounts have the paths that they have below the new root directory.
 * `held`: room for MOUNTS_MAX descriptors, which the second closes.
 */
void mount_root_prepare(int *held);
void mount_root_changed(int *held);

/* The deepest mount on this device that has this absolute path below it; NULL: none. */
struct mount *mounts_find(dev_t device, const char *path);
/* Does a mount of ours have this device, and is it a kernel NFS mount? The second asks the former
 * only. */
bool mount_is_nfs_device(dev_t device);
bool mount_has_device(dev_t device);

/* A mount of this device; NULL: none. */
struct mount *mount_of_device(dev_t device);

/*
 * May the log say that contacting the server had this result? Once a minute for all processes of
 * the host. A result that does not concern this mount alone is said once for all mounts of the
 * server. `what` tells several lines apart.
 */
bool mount_may_say(const struct mount *mount, const char *what, int result);

/* The client for calls on files of the mount with this credential. */
struct nfs_client mount_client(const struct mount *mount, const struct rpc_auth *auth);

#endif
