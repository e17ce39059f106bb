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
    RPC_ARGS_MAX = 704, /* arguments without payload: two handles and two names */
    RPC_HEAD_MAX = 4 + 24 + RPC_AUTH_BYTES_MAX + RPC_ARGS_MAX,
    RPC_RESULTS_MAX = 768, /* results without payload */
    RPC_VECTORS_MAX = 160,
    RPC_PAYLOAD_MAX = 1 << 20
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

extern const struct rpc_auth rpc_auth_none; /* AUTH_NONE */

struct rpc_call;

enum rpc_state {
    RPC_WAITING,
    RPC_LEAD,
    RPC_DONE,
    RPC_ADRIFT /* its path is down: whoever waits for it sends it over another */
};

/*
 * Finds the payload in results of which the first `have` bytes are at `results`.
 * 1: starts at *head and is *length bytes long; 0: needs more bytes; -EBADMSG: malformed.
 */
typedef int (*rpc_payload_find)(const uint8_t *results, size_t have, size_t *head,
                                uint32_t *length);

struct nfs_version;

/*
 * Who sees to it that a server carries out calls once, however many copies of them it gets: a
 * session of NFSv4.1. Both are called under the lock of a channel, mostly.
 */
struct rpc_exact {
    /* Writes into the head of a call that is to be sent first, by what the server will know it
     * again. False: that cannot be now, as too many are in flight; it is asked again. */
    bool (*enter)(struct rpc_exact *exact, struct rpc_call *call);
    /* A call that was entered is over: answered, or not, by its `error`. */
    void (*leave)(struct rpc_exact *exact, struct rpc_call *call);
    /* One that was entered goes on only when somebody waits for it: see rpc_take_up(). False: too
     * many do so already, and it is over. */
    bool (*set_aside)(struct rpc_exact *exact);
    void (*take_up)(struct rpc_exact *exact);
};

struct nfs_version;

/*
 * One call. Owned by the caller, who fills the first part, and must leave it and the memory it
 * points to alone from rpc_submit() until rpc_wait() returned. Large: do not zero it, use
 * rpc_call_begin().
 */
struct rpc_call {
    /* set by the caller after rpc_call_begin() */
    const struct iovec *payload; /* sent after the arguments, padded to four bytes */
    int payload_count;           /* at most RPC_VECTORS_MAX */
    size_t payload_length;
    const uint8_t *tail; /* sent behind the payload; four bytes of zeros stand before it */
    size_t tail_length;  /* a multiple of four; 0: there is none */
    rpc_payload_find find_payload; /* NULL: the reply has no payload */
    const struct iovec *destination;
    int destination_count; /* at most RPC_VECTORS_MAX */
    size_t destination_length;
    /*
     * The payload will have at least so many bytes, as far as the caller knows: at most
     * destination_length. Only these are received in place before the head of the reply was read.
     * So `destination` keeps behind the payload what it had. But if fewer come than were known of,
     * the bytes between may be overwritten by what followed in the stream: to save what was there
     * would cost every call a copy.
     */
    size_t certain;
    /*
     * NULL: somebody waits with rpc_wait(). Otherwise it is called once, by whichever thread
     * received the answer, without a lock; it must not wait for any call, and the call may be used
     * again in it. Calls that were answered together and have the same function come together: a
     * list by `next_unsent`. With -ENETDOWN one was not answered before its path went down, or
     * within the server's soft_timeout_s: it must be sent again, by a call that somebody waits for;
     * by this one after rpc_take_up().
     */
    void (*answered)(struct rpc_call *first);
    const struct nfs_version *made_by; /* for src/nfs, which alone knows what it is; and */
    int unready;                       /* why its session was not ready, as -errno; or 0 */
    struct rpc_exact *exact;           /* NULL: copies of the call may be carried out too */
    uint16_t exact_at;                 /* for `exact`: a place in `head`, */
    int16_t exact_slot;                /* -1: not entered, */
    uint32_t exact_generation;         /* and of what was entered */
    /* As what and where src/nfs counts it, by the numbers of directnfs/stats.h. After
     * rpc_call_begin() as nothing, DIRECTNFS_PROCEDURES, and nowhere, NULL. */
    uint32_t procedure;
    struct directnfs_mount_stats *counted;

    /* the answer */
    int error;      /* 0, or -errno: see rpc_wait() */
    bool unsettled; /* an older copy, sent on a connection that died, may yet be carried out */
    bool resent;    /* it was sent more than once, over whatever connections */
    size_t results_length; /* procedure-specific results, without the payload */
    size_t received;       /* payload bytes at `destination` */
    uint64_t queued_ns;    /* when it began to wait for a connection, or for room; 0: never */
    uint64_t sent_ns;      /* when it was first sent (CLOCK_MONOTONIC) */
    uint64_t answered_ns;
    uint64_t connected_ns; /* when the connection that answered was made */

    /* owned by rpc */
    struct net_channel *_Atomic channel;
    uint32_t xid; /* 0: none yet */
    bool sent;    /* in the table of calls in flight */
    bool queued;  /* to be sent, or the rest of it */
    uint64_t last_sent_ns;
    _Atomic uint32_t state;       /* enum rpc_state; a futex that followers wait on */
    struct rpc_call *next_unsent; /* in the list that it is in */
    size_t head_length;
    uint8_t head[RPC_HEAD_MAX]; /* record mark, call header, credential, arguments */
    uint8_t results[RPC_RESULTS_MAX];
};

/*
 * Starts a call: writes everything up to the arguments. Returns where they go, with room for
 * RPC_ARGS_MAX bytes. rpc_call_end() is told where they ended.
 */
uint8_t *rpc_call_begin(struct rpc_call *call, const struct rpc_auth *auth, uint32_t program,
                        uint32_t version, uint32_t procedure);
void rpc_call_end(struct rpc_call *call, const uint8_t *end);

/*
 * Sends calls (with one path all on the same channel, in as few system calls as possible; with
 * several each where it should be over first) without waiting for replies. Never fails: what cannot
 * be sent now is sent by rpc_wait().
 */
void rpc_submit(struct net_server *server, struct rpc_call *const *calls, unsigned count);

/* The bytes that a call carries, for the choice of its channel. */
static inline size_t rpc_call_bytes(const struct rpc_call *call)
{
    return call->payload_length + call->destination_length;
}

/* As rpc_submit(), on a channel of src/net: calls of one origin leave together. Of no calls: sends
 * what was kept. */
void rpc_submit_on(struct net_channel *channel, struct rpc_call *const *calls, unsigned count);

/*
 * As rpc_submit_on(), for calls that others follow at once. Short ones are kept for a moment, while
 * enough are in flight there (one for four that are kept), until a batch is complete or anybody
 * drives the channel or submits to it; for little more than a millisecond, should nobody.
 */
void rpc_submit_later(struct net_channel *channel, struct rpc_call *const *calls, unsigned count);

/*
 * Drives a channel for calls that have an `answered` function, until satisfied(context) is true,
 * the deadline (CLOCK_MONOTONIC ns; 0: never) has passed, nothing is in flight, or a signal was
 * deferred for this thread, unless it is patient (sys/critical.h). A deadline in the past takes
 * what has arrived. Returns what satisfied() said last; it is called under the channel's lock.
 */
bool rpc_drive(struct net_channel *channel, bool (*satisfied)(void *context), void *context,
               uint64_t deadline_ns);

enum { RPC_DRIVE_MAX = 64 };

/* The same for up to RPC_DRIVE_MAX channels at once; `satisfied` is called without a lock. What is
 * submitted meanwhile to a channel on which nothing was in flight is noticed after 50 ms. */
bool rpc_drive_all(struct net_channel *const *channels, unsigned count,
                   bool (*satisfied)(void *context), void *context, uint64_t deadline_ns);

/*
 * A call that has an `answered` function and was told -ENETDOWN: may the server still know it, so
 * that it is carried out once if it is sent again? Then it is as one that was submitted without
 * such a function, and is to be waited for. Once.
 */
bool rpc_take_up(struct rpc_call *call);

/*
 * Waits until all these calls, which were submitted together, are answered; sends, receives,
 * reconnects and resends as needed, over other paths when theirs is down, for ever, with a line on
 * the log at most once a minute for a server that does not answer. Afterwards each call's `error`
 * tells how the RPC went (RFC 5531 section 9): 0, -EACCES (credential refused), -EPROTONOSUPPORT
 * (program or version), -EOPNOTSUPP (procedure), -EREMOTEIO (system error there), -EBADMSG (the
 * answer, or what the server made of the call, is garbage).
 */
void rpc_wait(struct rpc_call *const *calls, unsigned count);

/* Channels that this thread should be driving, and nobody else may be: while it waits for something
 * else it does so in rpc_pause(). `count` 0: none. */
struct rpc_attended {
    struct net_channel *const *channels;
    unsigned count; /* at most RPC_DRIVE_MAX */
};
extern __thread struct rpc_attended rpc_attended;

/*
 * Calls that this thread waits for, or will. While it waits for a slot it sends those of them again
 * whose path is down: they may have all slots. Calls that are over, or were not submitted yet, and
 * are all zeros, may be among them.
 */
struct rpc_owned {
    struct rpc_call *const *calls;
    unsigned count;
    struct rpc_owned *outer;
};
extern __thread struct rpc_owned *rpc_owned;

/* Sleeps for so long, and drives those channels meanwhile. */
void rpc_pause(int milliseconds);

/*
 * As rpc_wait(), but gives up after `timeout_ms` (for checks, and for the first contact with a
 * server); calls that are not answered by then are withdrawn and have error -ETIMEDOUT, or the
 * error of the attempt to connect.
 */
void rpc_wait_for(struct rpc_call *const *calls, unsigned count, int timeout_ms);

/*
 * One call over a connection of its own, which is made for it, and reset after it. Nothing is tried
 * again. Returns the call's error, which may be that of connecting, -ECONNRESET: the connection
 * ended before the answer came, or -ETIMEDOUT.
 */
int rpc_call_once(const struct net_address *address, enum net_port ports, struct rpc_call *call,
                  int timeout_ms);

/* In the child of fork(): forgets the parent's calls and state of every channel of the server. */
void rpc_after_fork(struct net_server *server);

/* Closes the channel's connection, unless it is in use, or was in the last `idle_ns`: false (struct
 * net_server_options). */
bool rpc_close_idle(struct net_channel *channel, uint64_t idle_ns);

/* The path was moved (net_path_move()): its connections to the address before are given up. */
void rpc_follow_path(struct net_path *path);

/* Does the channel answer a ping? (struct net_server_options) */
bool rpc_answers(struct net_channel *channel, bool connect, int timeout_ms);

/* net_server_destroy() of a server that was called: what rpc keeps for its channels goes with it.
 * NULL is nothing. */
void rpc_server_destroy(struct net_server *server);

#endif
