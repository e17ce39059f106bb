/* The first contact of a mount. */
#ifndef MOUNT_CONTACT_H
#define MOUNT_CONTACT_H

#include "ledger/file.h"
#include "mount/mount.h"

/* Sets the function that is called with each mount after its first contact succeeded, under
 * `contact`. To be called before mounts_load(). */
void mounts_when_ready(void (*function)(struct mount *mount, const struct rpc_auth *auth));

/*
 * Makes the mount ready: gets the root's handle, proves that it is the same directory. 0, or
 * -errno with a reason (a string constant) for which its files stay with the kernel.
 */
int mount_contact(struct mount *mount, const char **reason);

/*
 * Must an open of a file of the mount fail? Yes, if the mount has a fence and this host does not
 * hold it, or the mount is not ready: the kernel's client knows of no fence.
 */
bool mount_is_shut(struct mount *mount);

/* Is this thread in another network namespace than the one where the mount's connections were made,
 * and is none of them left? Then nothing can be asked of its server: see net_server_is_abroad(). */
bool mount_is_abroad(const struct mount *mount);

/* Was this file of the registry written by a process that asks for the mount's export in the other
 * version of NFS? */
bool mount_is_other_version(const struct mount *mount, const struct ledger_file *file);

#endif
