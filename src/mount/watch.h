/* Mounts that are made after the process began. */
#ifndef MOUNT_WATCH_H
#define MOUNT_WATCH_H

#include "mount/mount.h"

/*
 * A regular file of a device that no mount has was opened: was one of ours mounted there after the
 * process began (watch.c)? Then it is a mount from now on. Costs a load and the time of day for a
 * device that was asked for less than a second ago.
 */
bool mount_watch_arrived(dev_t device);
/* Does the table say that files at this path are of the device? */
bool mount_watch_is_at(const struct conf_mountinfo *info, dev_t device, const char *path);
void mount_watch_fork_child(void);

#endif
