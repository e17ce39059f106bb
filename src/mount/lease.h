/* Leases of sessions, and their end. */
#ifndef MOUNT_LEASE_H
#define MOUNT_LEASE_H

#include "mount/mount.h"

/* Ends the sessions of this process at their servers, before exec and exit. A process that goes on,
 * as exec failed, makes others. */
void mounts_end_sessions(void);

/* A session with the server (a struct mount_server) was made: from now on a thread renews its
 * lease. */
void mount_lease_begin(void *server);

#endif
