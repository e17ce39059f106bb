/* The first contact of a mount. */
#ifndef MOUNT_CONTACT_H
#define MOUNT_CONTACT_H

#include "ledger/file.h"
#include "mount/mount.h"

/* What each mount is given to when its first contact succeeded, under `contact`. Before
 * mounts_load(). */
void mounts_when_ready(void (*function)(struct mount *mount, const struct rpc_auth *auth));

/*
 * Makes the mount ready: gets the root's handle, proves that it is the same directory. 0, or
 * -errno with a reason (a string constant) for which its files stay with the kernel.
 */
int mount_contact(struct mount *mount, const char **reason);

/*
 * Must an open of a file of the mount fail? So it must if the mount has a fence, and this host does
 * not have that, or could not be served yet: the kernel's client knows of no fence.
 */
bool mount_is_shut(struct mount *mount);

/* Is it ready, and this thread in another network namespace than its connections were, with none
 * left? Nothing can be asked of its server then: see net_server_is_abroad(). */
bool mount_is_abroad(const struct mount *mount);

/* Was this file of the registry written by who asks for the mount's export in the other version? */
bool mount_is_other_version(const struct mount *mount, const struct ledger_file *file);

#endif
