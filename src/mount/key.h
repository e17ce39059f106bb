/* How the kernel and the registry name a file of a mount. */
#ifndef MOUNT_KEY_H
#define MOUNT_KEY_H

#include "mount/mount.h"
#include "ledger/file.h"

/* The path of an open file, as the kernel names it. False when it cannot be had. */
bool mount_path_of(int fd, char path[PATH_MAX]);

/* The key by which the registry knows a file of the mount with this handle. */
struct ledger_file_key mount_registry_key(dev_t device, ino_t number, struct mount *mount,
                                          const struct nfs_fh *fh);
/* The key by which it may know the file of a descriptor, if `path` is empty, or of a path: by its
 * handle if the kernel tells that, else by its number. */
struct ledger_file_key mount_key_of(int fd, const char *path, const struct stat *status);

#endif
