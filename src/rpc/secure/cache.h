/* Which cache has the tickets of an identity, and as whom it is read: for gss.c. */
#ifndef RPC_SECURE_CACHE_H
#define RPC_SECURE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "rpc/secure/identity.h"

struct rpc_cache {
    const char *name; /* NULL: the library chooses, as it cannot be asked for the name */
    bool is_own;      /* it is that of the user that this process is */
    int fd;           /* -1, or to be closed after use: the name is that of this descriptor */
    char text[64];
};

/* Takes functions of the library, which may lack them. */
void rpc_cache_resolve(void *library);

/* The cache of an identity without a keytab. Inside the gate. False: there is none. */
bool rpc_cache_find(const struct rpc_identity *identity, struct rpc_cache *cache);
/* Is the process still that user? Else what was read may be another user's. */
bool rpc_cache_is_still(const struct rpc_identity *identity, const struct rpc_cache *cache);

/* Until rpc_cache_leave(), this thread accesses files as the user of the identity, if it may, or as
 * root. It may be a thread that was started by one that had set another user. */
struct rpc_cache_user {
    uint32_t uid, gid; /* before */
};
void rpc_cache_enter(const struct rpc_identity *identity, struct rpc_cache_user *before);
void rpc_cache_leave(const struct rpc_cache_user *before);

#endif
