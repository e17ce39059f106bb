/* Credentials of this process. */
#ifndef FILE_AUTH_H
#define FILE_AUTH_H

#include "file/mount.h"
#include "ledger/store/users.h"

/* The credential of this user and these groups: immutable, kept for ever. NULL: no memory. */
const struct rpc_auth *file_auth_of(const struct ledger_user *user);
/* The number of a credential, got from file_auth_now(), for all processes of the registry; 0: there
 * is no room. A load, but at first. */
uint32_t file_auth_user(const struct rpc_auth *auth);
/* The process goes over to another registry, where they have other numbers. */
void file_auth_move(void);

#endif
