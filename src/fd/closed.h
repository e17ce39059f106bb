/*
 * Closed mounts (mount/protection.h): their files do not go to the kernel's world.
 *
 * What would hand a file over fails with EIO, and a map of memory with ENODEV. The streams of libc
 * and the standard descriptors are the kernel's all the same, as many programs could not even read
 * their configuration; the log says so.
 */
#ifndef FD_CLOSED_H
#define FD_CLOSED_H

#include <stdbool.h>
#include <sys/types.h>

#include "mount/protection.h"

/* Says that a file was refused to the kernel, and why it would have gone there: once in a while for
 * a mount and a reason. Returns -EIO. */
int fd_closed_refuse(const struct mount *mount, const char *path, const char *reason);

/* Says that a stream, or a descriptor that came from elsewhere, is read and written by the kernel:
 * once in a while for a mount. */
void fd_closed_is_open(const struct mount *mount, const char *path, const char *reason);

/* Has a closed mount files on this device? */
bool fd_closed_has_device(dev_t device);

/* A file of this device that is below no mount of the nfstab was opened, perhaps in another place
 * of a closed mount. 0, or -EIO: it is refused. */
int fd_closed_elsewhere(dev_t device, const char *path);

/* Is the managed descriptor's mount closed? False: it is not managed. */
bool fd_is_closed(int fd);

#endif
