/*
 * ONC RPC over TCP (RFC 5531): many calls in flight on a channel, replies in any order.
 *
 * The caller drives: a thread that waits sends its own calls and reads the socket itself. Of
 * several threads waiting on one channel one is the leader, reads, and hands replies to the others.
 * Behaves as a hard mount: a call is sent again, with the same xid, until it is answered.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "net/net.h"

enum {
    RPC_AUTH_BYTES_MAX = 8 + 4 + 4 + 256 + 4 + 4 + 4 + 16 * 4 + 8, /* credential and verifier */
    RPC_CALL_HEAD_MAX = 4 + 24 + RPC_AUTH_BYTES_MAX,
    RPC_ARGS_MAX = 640,   /* arguments of a call without payload: two handles and two names */
    RPC_RESULTS_MAX = 768 /* results of a reply without payload */
};

/* An AUTH_SYS credential (RFC 5531 appendix A) and empty verifier, encoded once. Immutable. */
struct rpc_auth {
    uint32_t uid, gid;
    uint32_t length;
    uint8_t bytes[RPC_AUTH_BYTES_MAX];
};

/* Encodes a credential; groups beyond 16 are left out, as AUTH_SYS cannot carry more. */
void rpc_auth_sys(struct rpc_auth *auth, const char *machine, uint32_t uid, uint32_t gid,
                  const uint32_t *groups, unsigned count);

enum rpc_state { RPC_IDLE, RPC_WAITING, RPC_DONE };

/*
 * Finds the payload in results of which the first `have` bytes are at `results`.
 * 1: starts at *head and is *length bytes long; 0: needs more bytes; -EBADMSG: malformed.
 */
typedef int (*rpc_payload_find)(const uint8_t *results, size_t have, size_t *head,
                                uint32_t *length);

/*
 * One call. Owned by the caller, who fills the first part, and must leave it and the memory it
 * points to alone from rpc_submit() until rpc_wait() returned.
 */
struct rpc_call {
    /* filled by the caller */
    const struct rpc_auth *auth;
    uint32_t program, version, procedure;
    size_t args_length;
    uint8_t args[RPC_ARGS_MAX];
    const struct iovec *payload; /* sent after the arguments, padded to four bytes */
    int payload_count;
    size_t payload_length;
    rpc_payload_find find_payload; /* NULL: the reply has no payload */
    const struct iovec *destination;
    int destination_count;
    size_t destination_length;

    /* filled by rpc: the answer */
    int error;             /* 0, or -errno: -EBADMSG, -EACCES (credential), -EPROTONOSUPPORT, ... */
    size_t results_length; /* procedure-specific results without the payload */
    uint8_t results[RPC_RESULTS_MAX];
    size_t received;               /* payload bytes at `destination` */
    uint64_t sent_ns, answered_ns; /* CLOCK_MONOTONIC */
    uint64_t connected_ns;         /* when the connection that answered was made */

    /* owned by rpc */
    struct net_channel *channel;
    uint32_t xid;
    _Atomic uint32_t state; /* enum rpc_state; a futex that followers wait on */
    struct rpc_call *next_unsent;
    size_t head_length;
    uint8_t head[RPC_CALL_HEAD_MAX];
};

/*
 * Sends calls (all on the same channel, in as few system calls as possible) without waiting for
 * replies. Never fails: what cannot be sent now is sent by rpc_wait().
 */
void rpc_submit(struct net_server *server, struct rpc_call *const *calls, unsigned count);

/*
 * Waits until all these calls are answered; sends, receives, reconnects and resends as needed, for
 * ever, with a line on the log at most once a minute for a server that does not answer.
 * Afterwards each call's `error` tells how it went.
 */
void rpc_wait(struct rpc_call *const *calls, unsigned count);

/*
 * As rpc_wait(), but gives up after `timeout_ms` (for checks, and for the first contact with a
 * server); calls that are not answered by then are withdrawn and have error -ETIMEDOUT, or the
 * error of the attempt to connect.
 */
void rpc_wait_for(struct rpc_call *const *calls, unsigned count, int timeout_ms);

/* In the child of fork(): forgets the parent's calls and state of every channel of the server. */
void rpc_after_fork(struct net_server *server);

/* Frees what rpc keeps for the channels of a server; before net_server_destroy(). */
void rpc_server_release(struct net_server *server);

#endif
