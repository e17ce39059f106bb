/*
 * ONC RPC over TCP (RFC 5531): many calls in flight on a channel, replies in any order.
 *
 * The caller drives: a thread that waits sends its own calls and reads the socket itself. If
 * several threads wait on one channel, one is the leader: it reads, and hands replies to the
 * others. RPC behaves as a hard mount: a call is sent again, with its xid, until it is answered.
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

struct rpc_identity; /* secure/identity.h */

/* A credential. AUTH_SYS (RFC 5531 appendix A), with an empty verifier, is encoded once. With an
 * identity it is RPCSEC_GSS, and encoded for each call as that is sent. Immutable. */
struct rpc_auth {
    uint32_t uid, gid;
    const struct rpc_identity *identity; /* NULL: AUTH_SYS, or AUTH_NONE */
    uint32_t length;                     /* of bytes[]; 0 with an identity */
    uint8_t bytes[RPC_AUTH_BYTES_MAX];
};

/* Encodes a credential. Groups beyond 16 are left out, as AUTH_SYS has no room for them. */
void rpc_auth_sys(struct rpc_auth *auth, const char *machine, uint32_t uid, uint32_t gid,
                  const uint32_t *groups, unsigned count);

/* The credential of an identity of Kerberos. */
void rpc_auth_secure(struct rpc_auth *auth, uint32_t gid, const struct rpc_identity *identity);

extern const struct rpc_auth rpc_auth_none; /* AUTH_NONE */
/* For calls that are to have an identity, and have none: they end with -EACCES. */
extern const struct rpc_auth rpc_auth_barred;

struct rpc_call;

enum rpc_state {
    RPC_WAITING,
    RPC_LEAD,
    RPC_DONE,
    RPC_ADRIFT /* its path is down: the thread that waits for it sends it over another one */
};

/*
 * Finds the payload in results. Their first `have` bytes are at `results`.
 * 1: the payload starts at *head and has *length bytes.
 * 0: it needs more bytes.
 * -EBADMSG: the results are malformed.
 */
typedef int (*rpc_payload_find)(const uint8_t *results, size_t have, size_t *head,
                                uint32_t *length);

struct nfs_version;

/*
 * Makes a server carry out each call once, however many copies of it arrive: a session of NFSv4.1.
 * enter() and set_aside() are called under the lock of a channel, leave() mostly too, and
 * take_up() without it.
 */
struct rpc_exact {
    /* Before a call is first sent: writes into its head what the server will know it by. False: not
     * now, as too many calls are in flight; it is asked again. */
    bool (*enter)(struct rpc_exact *exact, struct rpc_call *call);
    /* A call that was entered is over, answered or not: see its `error`. */
    void (*leave)(struct rpc_exact *exact, struct rpc_call *call);
    /* A call that was entered goes on only when a thread waits for it: see rpc_take_up(). False:
     * too many calls do so already, and it is over. */
    bool (*set_aside)(struct rpc_exact *exact);
    void (*take_up)(struct rpc_exact *exact);
};

struct nfs_version;

/*
 * One call. The caller owns it and fills the first part. From rpc_submit() until rpc_wait()
 * returns, the caller must not touch it, nor the memory that it points to. It is large: do not zero
 * it, use rpc_call_begin().
 */
struct rpc_call {
    /* Set by the caller after rpc_call_begin(). */
    const struct iovec *payload; /* sent after the arguments, padded to four bytes */
    int payload_count;           /* at most RPC_VECTORS_MAX */
    size_t payload_length;
    const uint8_t *tail; /* sent after the payload; before it in memory are four bytes of zeros */
    size_t tail_length;  /* a multiple of four; 0: there is none */
    rpc_payload_find find_payload; /* NULL: the reply has no payload */
    const struct iovec *destination;
    int destination_count; /* at most RPC_VECTORS_MAX */
    size_t destination_length;
    /*
     * The payload has at least so many bytes, as far as the caller knows; at most
     * destination_length. Only these are received in place before the head of the reply is read. So
     * `destination` keeps what it had after the payload. But if fewer bytes come, what follows in
     * the stream may overwrite the rest of `certain`: to save that would cost every call a copy.
     */
    size_t certain;
    /*
     * NULL: a thread waits with rpc_wait(). Otherwise the thread that receives the answer calls
     * this once, without a lock. It must not wait for any call. It may use the call again. Calls
     * that were answered together and have one function come together, as a list by `next_unsent`.
     *
     * -ENETDOWN: the call was not answered before its path went down, or within the server's
     * soft_timeout_s. It must be sent again, by a call that a thread waits for; by this one after
     * rpc_take_up().
     */
    void (*answered)(struct rpc_call *first);
    const struct nfs_version *made_by; /* for src/nfs: which version made it */
    int unready;                       /* and why its session was not ready, as -errno; 0: it was */
    struct rpc_exact *exact;           /* NULL: copies of the call may be carried out too */
    uint16_t exact_at;                 /* for `exact`: a place in `head`, */
    int16_t exact_slot;                /* a slot (-1: not entered), */
    uint32_t exact_generation;         /* and which session it entered */
    const struct rpc_identity *identity; /* as its credential has it */
    /* Where src/nfs counts it, by the numbers of directnfs/stats.h. rpc_call_begin() sets nowhere:
     * DIRECTNFS_PROCEDURES and NULL. */
    uint32_t procedure;
    struct directnfs_mount_stats *counted;

    /* The answer. */
    int error;             /* 0 or -errno: see rpc_wait() */
    bool unsettled;        /* an older copy, from a connection that died, may yet be carried out */
    bool resent;           /* it was sent more than once, on any connections */
    size_t results_length; /* the procedure's results, without the payload */
    size_t received;       /* payload bytes at `destination` */
    uint64_t queued_ns;    /* when it began to wait for a connection, or for room on it; 0: it did
                              not */
    uint64_t sent_ns;      /* when it was first sent (CLOCK_MONOTONIC) */
    uint64_t answered_ns;
    uint64_t connected_ns; /* when the connection that answered was made */

    /* Owned by rpc. */
    struct rpc_dress *dress; /* how it is sent by RPCSEC_GSS; NULL: not sent yet, or not so */
    struct net_channel *_Atomic channel;
    uint32_t xid; /* 0: none yet */
    bool sent;    /* it is in the table of calls in flight */
    bool queued;  /* it waits to be sent, or the rest of it does */
    uint64_t last_sent_ns;
    _Atomic uint32_t state;       /* enum rpc_state; a futex for followers */
    struct rpc_call *next_unsent; /* in the list that has it */
    size_t head_length;
    uint8_t head[RPC_HEAD_MAX]; /* record mark, call header, credential, arguments */
    uint8_t results[RPC_RESULTS_MAX];
};

/* Starts a call: writes everything up to the arguments. Returns where those go, with room for
 * RPC_ARGS_MAX bytes. Tell rpc_call_end() where they ended. */
uint8_t *rpc_call_begin(struct rpc_call *call, const struct rpc_auth *auth, uint32_t program,
                        uint32_t version, uint32_t procedure);
void rpc_call_end(struct rpc_call *call, const uint8_t *end);

/*
 * Sends calls without waiting for replies. With one path, all go on one channel, in as few system
 * calls as possible. With several paths, each goes where it should be over first. Never fails:
 * rpc_wait() sends what cannot be sent now.
 */
void rpc_submit(struct net_server *server, struct rpc_call *const *calls, unsigned count);

/* The bytes that a call carries; its channel is chosen by them. */
static inline size_t rpc_call_bytes(const struct rpc_call *call)
{
    return call->payload_length + call->destination_length;
}

/* As rpc_submit(), on this channel: calls of one origin leave together. With `count` 0 it sends
 * what was kept. */
void rpc_submit_on(struct net_channel *channel, struct rpc_call *const *calls, unsigned count);

/*
 * As rpc_submit_on(), for calls that others follow at once. Short ones are kept for a moment, while
 * enough are in flight on the channel (one for four that are kept). They leave when a batch is
 * complete, or when a thread drives the channel or submits to it; at the latest after little more
 * than a millisecond.
 */
void rpc_submit_later(struct net_channel *channel, struct rpc_call *const *calls, unsigned count);

/*
 * Drives a channel for calls that have an `answered` function, until one of these holds:
 * - satisfied(context) is true; it is called under the channel's lock;
 * - the deadline (CLOCK_MONOTONIC ns; 0: never) has passed;
 * - nothing is in flight;
 * - a signal was deferred for this thread, and it is not patient (sys/critical.h).
 *
 * A deadline in the past takes what has arrived. Returns what satisfied() said last.
 */
bool rpc_drive(struct net_channel *channel, bool (*satisfied)(void *context), void *context,
               uint64_t deadline_ns);

enum { RPC_DRIVE_MAX = 64 };

/* As rpc_drive(), for up to RPC_DRIVE_MAX channels at once; `satisfied` is called without a lock. A
 * call that is submitted meanwhile to a channel with nothing in flight is noticed after 50 ms. */
bool rpc_drive_all(struct net_channel *const *channels, unsigned count,
                   bool (*satisfied)(void *context), void *context, uint64_t deadline_ns);

/*
 * For a call that has an `answered` function and was told -ENETDOWN. True: the server may still
 * know it, so that it is carried out once if it is sent again. It is then as if it was submitted
 * without such a function, and must be waited for. Once for each call.
 */
bool rpc_take_up(struct rpc_call *call);

/*
 * Waits until all these calls, which were submitted together, are answered. It sends, receives,
 * reconnects and resends as needed, over other paths while theirs is down, for ever. For a server
 * that does not answer, it puts a line on the log at most once a minute. Afterwards each call's
 * `error` tells how the RPC went (RFC 5531 section 9):
 * 0: it is answered.
 * -EACCES: the credential was refused, or the user has none.
 * -EPROTONOSUPPORT: the server lacks the program or version.
 * -EOPNOTSUPP: it lacks the procedure.
 * -EREMOTEIO: it has a system error.
 * -EBADMSG: the answer is garbage, or the server says that the call was.
 * -EFAULT: memory of the caller is missing.
 * -ENONET: this thread cannot connect from its network namespace.
 * -ELIBACC: this process cannot use the TLS library (any more).
 * -ELIBSCN: this thread cannot, in a handler.
 */
void rpc_wait(struct rpc_call *const *calls, unsigned count);

/* Channels that this thread should be driving, and no other thread may be. While this thread waits
 * for something else in rpc_pause(), it drives them. `count` 0: there are none. */
struct rpc_attended {
    struct net_channel *const *channels;
    unsigned count; /* at most RPC_DRIVE_MAX */
};
extern __thread struct rpc_attended rpc_attended;

/*
 * Calls that this thread waits for, or will. While it waits for a slot, it sends those again that
 * are adrift, as they may have all slots. Calls that are over may be among them, and so may calls
 * that were not submitted yet and are all zeros.
 */
struct rpc_owned {
    struct rpc_call *const *calls;
    unsigned count;
    struct rpc_owned *outer;
};
extern __thread struct rpc_owned *rpc_owned;

/* Sleeps for so long; drives the channels of rpc_attended meanwhile. */
void rpc_pause(int milliseconds);

/*
 * As rpc_wait(), but gives up after `timeout_ms`: for checks, and for the first contact with a
 * server. Calls without an answer by then are withdrawn. Their error is -ETIMEDOUT, or that of the
 * attempt to connect.
 */
void rpc_wait_for(struct rpc_call *const *calls, unsigned count, int timeout_ms);
/* As rpc_wait(), but a call that waits for its user's ticket, or for a KDC, for more than a second
 * is withdrawn: -EKEYEXPIRED. For a thread for which other users wait. */
void rpc_wait_in_turn(struct rpc_call *const *calls, unsigned count);

/*
 * Sends one call over a connection of its own, which is reset afterwards. Nothing is tried again.
 * `tls`: protects the connection; NULL: it is in clear.
 * Returns the call's error, as rpc_wait() sets it, or:
 * -ECONNRESET: the connection ended before the answer came.
 * -ETIMEDOUT: no answer came in time.
 * Another -errno: that of connecting.
 */
int rpc_call_once(const struct net_address *address, enum net_port ports, struct net_tls *tls,
                  struct rpc_call *call, int timeout_ms);

/* In the child of fork(): forgets the parent's calls, and the state of every channel of the
 * server. */
void rpc_after_fork(struct net_server *server);

/* Closes the channel's connection. False: it is in use, or received something in the last
 * `idle_ns`. See struct net_server_options. */
bool rpc_close_idle(struct net_channel *channel, uint64_t idle_ns);

/* The path was moved (net_path_move()): gives up its connections to the address before. */
void rpc_follow_path(struct net_path *path);

/* Does the channel answer a ping? See struct net_server_options. */
bool rpc_answers(struct net_channel *channel, bool connect, int timeout_ms);

/* The contexts of Kerberos are not needed any more: tells the server. It waits for little. */
void rpc_contexts_end(struct net_server *server);

/* The only connection of `from`, which nobody else calls and which has no call in flight, becomes
 * that of the first channel of `to`, unless that has one. */
void rpc_hand_over(struct net_server *from, struct net_server *to);

/* net_server_destroy() for a server that was called: also frees what rpc keeps for its channels.
 * NULL: does nothing. */
void rpc_server_destroy(struct net_server *server);

#endif
