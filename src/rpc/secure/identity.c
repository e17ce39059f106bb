#include "rpc/secure/identity.h"

#include <string.h>

#include "sys/alloc.h"

static _Atomic(struct rpc_identity *) identities; /* only added to */

const struct rpc_identity rpc_identity_barred = {.service = RPC_SERVICE_PRIVACY};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same(const struct rpc_identity *a, const struct rpc_identity *b)
{
    return a->uid == b->uid && a->service == b->service && strcmp(a->server, b->server) == 0 &&
           same_text(a->keytab, b->keytab) && same_text(a->principal, b->principal) &&
           same_text(a->cache, b->cache) && a->usual == b->usual;
}

const struct rpc_identity *rpc_identity_of(const struct rpc_identity *like)
{
    struct rpc_identity *first = atomic_load(&identities);
    for (struct rpc_identity *at = first; at; at = at->next) {
        if (is_same(at, like))
            return at;
    }
    struct rpc_identity *made = sys_alloc_zeroed(sizeof(*made));
    if (!made)
        return NULL;
    made->uid = like->uid;
    made->service = like->service;
    memcpy(made->server, like->server, sizeof(made->server));
    made->keytab = like->keytab;
    made->principal = like->principal;
    made->cache = like->cache;
    made->usual = like->usual;
    made->next = first;
    while (!atomic_compare_exchange_weak(&identities, &made->next, made))
        ;
    return made;
}

const struct rpc_identity *rpc_identities(void)
{
    return atomic_load(&identities);
}
