/* Credentials of this process. */
#ifndef MOUNT_CREDENTIALS_H
#define MOUNT_CREDENTIALS_H

#include "mount/mount.h"
#include "ledger/store/users.h"

/* The credential of this user and these groups for calls of the mount: immutable, kept for ever.
 * NULL: no memory. */
const struct rpc_auth *mount_credentials_of(const struct mount *mount,
                                            const struct ledger_user *user);
/* The number by which all processes of the registry know a credential that mount_auth_now() gave.
 * 0: there is no room. One load, but for the first call. */
uint32_t mount_auth_user(const struct rpc_auth *auth);
/* The process goes over to another registry, where credentials have other numbers. */
void mount_auth_move(void);

/* Learns the name of this host, which all credentials carry. To be called once. */
void mount_auth_start(void);
/* The credential of the calling thread at this moment: immutable, kept for ever. NULL: no memory.
 */
const struct rpc_auth *mount_auth_now(const struct mount *mount);
/* The same by AUTH_SYS, however the mount is protected: for services that know nothing else. */
const struct rpc_auth *mount_auth_plain(const struct mount *mount);

#endif
