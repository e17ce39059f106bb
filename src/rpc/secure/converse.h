/* A context that is made: between maker.c and converse.c. */
#ifndef RPC_SECURE_CONVERSE_H
#define RPC_SECURE_CONVERSE_H

#include "rpc/secure/secure.h"

enum { RPC_MAKING_REPLY = 16384 };

/* Owned by the thread that makes the context. */
struct rpc_making {
    struct rpc_secure *secure;
    struct rpc_place *place;
    const struct rpc_identity *identity;
    uint32_t program, version;
    bool is_ours; /* the thread is: it waits for the server as calls do */
    struct rpc_context *context;
    struct rpc_gss_making gss;
    struct rpc_gss_fault fault;
    struct rpc_call call;
    uint8_t reply[RPC_MAKING_REPLY];
};

/* May the thread use the transport? It is not freed before rpc_secure_unpin(). */
bool rpc_secure_pin(struct rpc_secure *secure);
void rpc_secure_unpin(struct rpc_secure *secure);

/* Makes the context with the server, once there is a credential. False: see `fault`. */
bool rpc_converse(struct rpc_making *making);

#endif
