/* Which mounts there are, and where: those of the nfstab, as the kernel's mounts are found. */
#ifndef MOUNT_PLACES_H
#define MOUNT_PLACES_H

#include "mount/mount.h"

/* Says on the log that this program has the library, and which mounts are in its reach, if there
 * are any. Of the programs of a service one says so (run/start.h). After run_start(). */
void mounts_say(const char *version);

/* Reads the configuration. fd_start() calls it. */
void mounts_load(void);

/* Does the nfstab have a mount that is to be served, whether it is there or not? */
bool mounts_configured(void);
/* Adds mounts of this device: those of exports at the mount point of which the kernel's table has
 * the device. True: there was one. */
bool mounts_arrived(dev_t device, const struct conf_mountinfo *info);

/* Around fork: locks what src/mount and src/net have. In the child, connections and sessions are
 * new. */
void mounts_fork_prepare(void);
void mounts_fork_parent(void);
void mounts_fork_child(void);

#endif
