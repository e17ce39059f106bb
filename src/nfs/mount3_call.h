/*
 * One remote procedure call over a TCP connection of its own: what mount3.c needs and nothing more.
 * The calls of NFS itself go through src/rpc.
 */
#ifndef NFS_MOUNT3_CALL_H
#define NFS_MOUNT3_CALL_H

#include <stdbool.h>
#include <stdint.h>
/* libtirpc's parts one by one: its rpc/rpc.h bears the name of a header of ours. */
#include <rpc/types.h>
#include <rpc/xdr.h>
#include "nfs/mount3.h"

/* One remote procedure call; lives on the caller's stack. put_args and get_results may be NULL. */
struct mount3_exchange {
    uint32_t program;
    uint32_t version;
    uint32_t procedure;
    bool (*put_args)(XDR *xdrs, void *args);
    void *args;
    bool (*get_results)(XDR *xdrs, void *results);
    void *results;
    const struct mount3_identity *identity; /* NULL: AUTH_NONE */
};

/* The point in time (CLOCK_MONOTONIC, nanoseconds) at which a call that starts now gives up. */
uint64_t mount3_deadline(int timeout_ms);

/*
 * Connects to this port of target->peer, calls, decodes the results and closes the connection.
 * target->port, privileged, timeout_ms and identity are not looked at: the parameters and the
 * exchange say. Returns 0 or what mount3.h lists; -EBADMSG also if get_results() returns false.
 */
int mount3_call(const struct mount3_target *target, uint16_t port, bool privileged,
                uint64_t deadline, const struct mount3_exchange *exchange);

#endif
