/* Which mounts there are, and where: those of the nfstab, as the kernel's mounts are found. */
#ifndef MOUNT_PLACES_H
#define MOUNT_PLACES_H

#include "mount/mount.h"

/* Says that this program has the library, and which mounts it has in reach, if it has some; one of
 * the programs of a service does (run/start.h). After run_start(). */
void mounts_say(const char *version);

/* Reads the configuration (fd_start()). */
void mounts_load(void);

/* Is any mount to be served, if it is there? */
bool mounts_configured(void);
/* Adds the mounts of this device, of exports at whose mount point the kernel's table has it. */
bool mounts_arrived(dev_t device, const struct conf_mountinfo *info);

void mounts_fork_prepare(void);
void mounts_fork_parent(void);
void mounts_fork_child(void);

#endif
