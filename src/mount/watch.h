/* Mounts that are made after the process began. */
#ifndef MOUNT_WATCH_H
#define MOUNT_WATCH_H

#include "mount/mount.h"

/*
 * A regular file was opened, of a device that no mount has: was one of ours mounted there after the
 * process began (watch.c)? Then it is a mount from now on. For a device that was asked for less
 * than a second ago this costs a load and a look at the clock.
 */
bool mount_watch_arrived(dev_t device);
/* At the start: all mounts were looked for in this table, which was read at `asked_ns`. So its
 * devices count as asked for then, but for those of NFS: a file system that is mounted elsewhere
 * may be mounted at one of our places next. */
void mount_watch_begin(const struct conf_mountinfo *info, uint64_t asked_ns);
/* Does the table say that files at this path are on the device? */
bool mount_watch_is_at(const struct conf_mountinfo *info, dev_t device, const char *path);
/* In the child of fork(): makes the lock free that is held while the table is read. */
void mount_watch_fork_child(void);

#endif
