/*
 * A channel as src/rpc uses it: inside src/rpc only.
 *
 *   rpc_submit()  queue --> table of calls in flight (by xid) --> socket
 *   rpc_wait()    leader: socket --> receiver --> call answered --> its owner wakes
 *
 * At most one thread sends on a channel (`sending`) and at most one reads (`leading`). Both work
 * without the lock while they are in the kernel. Only the leader connects, and not while a thread
 * sends. So a descriptor never changes under a system call.
 */
#ifndef RPC_TRANSPORT_H
#define RPC_TRANSPORT_H

#include "stats/count.h"
#include "rpc/receiver.h"
#include "rpc/rpc.h"
#include "net/tls/tls.h"
#include "rpc/secure/secure.h"

enum {
    RPC_SLOTS = 256, /* in the table of calls; a power of two */
    RPC_BATCH = 64,  /* calls in one sendmsg() */
    RPC_BATCH_VECTORS = 256,
    RPC_SAY_EVERY_S = 60 /* for one line on the log */
};

/* A thread that sleeps until its call is answered, until it must lead, or until it must look again.
 * It is on that thread's stack. */
struct rpc_follower {
    _Atomic uint32_t *word; /* enum rpc_state: in the call, or of the thread that drives */
    struct rpc_call *call;  /* NULL: the thread drives, until satisfied(context) */
    bool (*satisfied)(void *context);
    void *context;
    struct rpc_follower *next, **link;
};

/* What one sendmsg() carries. The calls may be answered, and gone, before it returns. */
struct rpc_batch {
    unsigned count;
    struct rpc_call *calls[RPC_BATCH];
    uint32_t xids[RPC_BATCH];
    size_t lengths[RPC_BATCH];
    size_t total;
    int vector_count;
    int error; /* of the last call of Kerberos: -ENOMEM or -ETIMEDOUT; else 0 */
    struct iovec vectors[RPC_BATCH_VECTORS];
    struct iovec parts[RPC_VECTORS_MAX + 3]; /* of one call */
};

/*
 * State of a channel. Made at its first call; lives as long as the channel. `lock` guards all but
 * what belongs to the leader or to the thread that sends. Those parts are here and not on their
 * stacks, which may be stacks of a signal handler.
 */
struct rpc_transport {
    pthread_mutex_t lock;
    struct net_channel *channel;
    struct rpc_call *calls[RPC_SLOTS]; /* in flight, by xid */
    unsigned in_flight;
    unsigned payloads; /* how many of them expect a payload */
    size_t longest;    /* the longest payload that was expected since `payloads` was 0 */
    uint32_t next_xid;
    uint32_t oldest_xid; /* no call in flight that was first sent here is older */
    struct rpc_call *unsent, **unsent_end;
    size_t unsent_offset; /* bytes of the first unsent call that are sent already */
    unsigned kept;        /* how many calls, and their bytes, were queued since the last sending */
    size_t kept_bytes;
    _Atomic bool keeping;                      /* it is in the keeper's list */
    struct rpc_transport *next_keeping;        /* the keeper's */
    struct rpc_call *finished, **finished_end; /* answered, and `answered` not called yet */
    struct stats_tally tally;                  /* for the path, while replies are handed out */
    struct rpc_follower *followers;
    bool leading, sending;
    bool secured;   /* nothing but Kerberos may be used here */
    bool special;   /* `secure` is there, or the server is to be used with TLS */
    bool receiving; /* the leader is in the kernel, which may write into a call's memory */
    bool connected;
    unsigned withdrawing;      /* how many threads take calls back: do not connect meanwhile */
    unsigned attempts;         /* to connect, since the last answer */
    int failure;               /* of the last attempt to connect; with `once` also why the
                                  connection ended */
    uint64_t attempted_ns;     /* when the last attempt was over */
    uint64_t connect_after_ns; /* when the next attempt is due */
    uint64_t looked_ns;        /* when calls were last looked after */
    uint64_t received_ns;      /* when something was last received */
    uint64_t silent_since_ns;  /* since when it has been silent, for the log; 0: all is well */
    bool short_of_slots;       /* an exact call must wait until another one is over */
    bool waits_long;           /* the oldest call does, and src/net was told: which call, */
    uint32_t waits_xid;        /* and when */
    uint64_t waits_looked_ns;
    bool proving;          /* the connection must answer a ping before it gets calls */
    unsigned given_up;     /* how many connections were given up in silence, since a call was
                              answered */
    unsigned overdue;      /* how many connections were given up for calls that are overdue */
    uint64_t newest_ns;    /* when the last sent one of all answered calls was sent */
    uint64_t overtaken_ns; /* when `newest_ns` was seen to be after a call that was sent again */
    uint64_t again_ns;     /* when a call that was sent again was last answered */
    uint64_t elsewhere_ns; /* in a silence: when it was first seen that others are answered */
    struct rpc_secure *secure; /* Kerberos: secure/secure.h; NULL: never needed here */
    _Atomic bool pinging;      /* `ping` is in flight */
    uint64_t pinged_ns;        /* since when */
    struct rpc_call ping;      /* procedure NULL: does the path live? */
    struct rpc_receiver receiver;
    struct rpc_receiver_owner owner;            /* of the receiver: this transport */
    struct iovec vectors[RPC_RECEIVER_VECTORS]; /* the leader's: where it receives */
    struct rpc_batch batch;                     /* the sending thread's */
};

/* The channel's state; makes it on first use. */
struct rpc_transport *rpc_transport_of(struct net_channel *channel);
/* Sets a new state: for one that is made, and in the child of fork(). */
void rpc_transport_init(struct rpc_transport *transport, struct net_channel *channel);

/* All that follows: under the lock. */

/* Closes the connection. False: it is in use, or received something in the last `idle_ns`. */
bool rpc_retire(struct rpc_transport *transport, uint64_t idle_ns);

/* A call was submitted or is done. `channel->outstanding` is read without the lock, and only
 * changed under it. A ping does not count, as no thread waits for it. */
static inline void rpc_outstanding_add(struct rpc_transport *transport, int count)
{
    _Atomic unsigned *outstanding = &transport->channel->outstanding;
    atomic_store_explicit(outstanding,
                          atomic_load_explicit(outstanding, memory_order_relaxed) + (unsigned)count,
                          memory_order_relaxed);
}

void rpc_unsent_append(struct rpc_transport *transport, struct rpc_call *call);
struct rpc_call *rpc_unsent_take(struct rpc_transport *transport);
void rpc_unsent_prepend(struct rpc_transport *transport, struct rpc_call *call);
/* Takes a call out of the queue, if it is there. */
void rpc_unsent_remove(struct rpc_transport *transport, struct rpc_call *call);
/* Puts a call first in the queue, but behind a ping, or a call that was sent in part. */
void rpc_unsent_next(struct rpc_transport *transport, struct rpc_call *call);
/* Enters the exact call that is first in the queue, if it is not yet. True: the first one now has a
 * slot, so that the server will know its copies. It may be another one that was entered before. */
bool rpc_enter(struct rpc_transport *transport, struct rpc_call *call);

/* Is something queued that may be sent now? Servers queue only so many calls on a connection; a
 * ping does not wait for them. */
static inline bool rpc_may_send(struct rpc_transport *transport)
{
    struct rpc_call *call = transport->unsent;
    if (call && __builtin_expect(call->identity || transport->secured, false))
        call = rpc_secure_first(transport);
    return call && (__builtin_expect(!transport->proving, true) || call == &transport->ping) &&
           (transport->in_flight < NET_IN_FLIGHT_MAX || call->sent || call == &transport->ping) &&
           (__builtin_expect(call->exact == NULL, true) || rpc_enter(transport, call));
}

/* For a thread that waits: makes a context that is wanted, if no thread of ours can. *lead: it
 * leads; then it gives up the lead. */
static inline void rpc_secure_help(struct rpc_transport *transport, bool *lead)
{
    if (__builtin_expect(transport->secure != NULL, false))
        rpc_secure_make_here(transport, lead);
}

/* Is this thread of no use here, as it is in a handler in which nothing can be signed? */
static inline bool rpc_is_helpless(const struct rpc_transport *transport)
{
    return __builtin_expect(transport->secure != NULL, false) && !rpc_gss_can();
}

/* The call in flight with this xid, if no part of it waits to be sent; or NULL. */
struct rpc_call *rpc_call_sent(void *transport, uint32_t xid);
/* Enters a call into the table; gives it an xid if it has none. */
void rpc_in_flight_add(struct rpc_transport *transport, struct rpc_call *call);
void rpc_in_flight_remove(struct rpc_transport *transport, struct rpc_call *call);

/* For the receiver: the call has its answer. This is the last access to the call, unless `answered`
 * is set. */
void rpc_call_answered(void *transport, struct rpc_call *call);
/* Ends a call without an answer: with an error, or with -ENETDOWN to be sent elsewhere. No
 * connection of ours may still carry a part of it. */
void rpc_call_fail(struct rpc_transport *transport, struct rpc_call *call, int error);
/* Calls the `answered` functions that are due, without the lock, and wakes the threads that
 * drive. */
void rpc_call_finished(struct rpc_transport *transport);

/* Gives the connection up and wakes its reader. The leader will make a new one. */
void rpc_connection_lost(struct rpc_transport *transport);
/* For the leader: the server ended the connection, or it is of no use (`error`). Gives it up. If it
 * brought no answer, calls go elsewhere. */
void rpc_connection_ended(struct rpc_transport *transport, int error);
/* For a thread that comes back from the kernel: the last such thread resets a connection that was
 * given up. */
void rpc_connection_leave(struct rpc_transport *transport);
/* All calls in flight go back to the head of the queue, the oldest first. `unsettled`: the server
 * may not know them again. */
void rpc_queue_again(struct rpc_transport *transport, bool unsettled);

/* ---- keep.c ---- */

/* May the queue wait for a moment? It may while the server has more to do, and no thread waits for
 * it. Under the lock. */
bool rpc_can_keep(const struct rpc_transport *transport);
/* Something was kept. Not under the lock. */
void rpc_keep(struct rpc_transport *transport);
/* To be called before the transport is freed. */
void rpc_keep_forget(struct rpc_transport *transport);
/* In the child of fork(). */
void rpc_keep_after_fork(void);

/* ---- failover.c ---- */

/* For the leader, in the silence: looks after calls without an answer. It pings, gives the
 * connection up, or the path when another one answers. Under the lock. */
void rpc_look_after_silence(struct rpc_transport *transport);
/* The connection was just made. If one before it was silent, it must answer a ping first. Under the
 * lock. */
void rpc_prove(struct rpc_transport *transport, uint64_t now);
/* A call was answered after connections were given up. Under the lock. */
void rpc_silence_is_over(struct rpc_transport *transport, const struct rpc_call *call);
/* Puts a line on the log, now and then, for a server that does not answer. Under the lock. */
void rpc_say_waiting(struct rpc_transport *transport, const char *why);
/* Looks for the call that waits longest, and tells src/net. Under the lock. */
void rpc_look_for_oldest(struct rpc_transport *transport, uint64_t now);
/* While a call waited long, something came, or calls ended otherwise: looks again if necessary.
 * Under the lock. */
void rpc_look_for_oldest_again(struct rpc_transport *transport, uint64_t now);
/*
 * For the leader that is not connected. True: it did one of these.
 * - If calls can go elsewhere, it sets all calls here adrift; those with an `answered` function end
 *   with -ENETDOWN.
 * - If such a call waited for soft_timeout, all calls with an `answered` function end so.
 * - If nothing is tried again (`once`), all calls end with the error of the connection.
 */
bool rpc_abandon(struct rpc_transport *transport);
/* For the leader that has just connected and not said so yet, so that rpc_follow_path() missed the
 * connection. 0: it stays. -EAGAIN: the path has moved since, and the connection is closed. */
int rpc_connection_stays(struct rpc_transport *transport);
/* Does this thread wait for the call? See rpc_owned. */
bool rpc_is_own(const struct rpc_call *call);
/* For the leader, after rpc_abandon(). -ENONET: this thread cannot connect. Its own calls end so.
 * Those of other threads, which may be able to, are adrift. Another error: no thread of this
 * process can, and all calls end with it. */
void rpc_strand(struct rpc_transport *transport, int error);

/*
 * Sends what is queued, unless another thread does. The lock is free during system calls. Returns
 * when all is sent, or the connection is lost. Returns too when the socket is full and the caller
 * (`lead`) or no thread leads. While another thread leads, and so reads replies, it waits for room.
 */
void rpc_send_unsent(struct rpc_transport *transport, bool lead);

/* ---- tls.c: connections with TLS ---- */

/* As receive() of call.c does it in clear. `full`: something waits to be sent. */
ssize_t rpc_tls_receive(struct net_tls_session *tls, const struct iovec *vectors, int count,
                        bool full, int timeout_ms);
/* Are there bytes of the connection that the socket has not taken? Only while it is connected, or
 * this thread leads or sends, the session cannot go. */
static inline bool rpc_owes(const struct rpc_transport *transport)
{
    const struct net_tls_session *tls = transport->connected ? transport->channel->tls : NULL;
    return __builtin_expect(tls != NULL, false) && net_tls_owes(tls);
}
/* Is there something to receive of which poll() knows nothing? */
static inline bool rpc_has_more(const struct rpc_transport *transport)
{
    const struct net_tls_session *tls = transport->connected ? transport->channel->tls : NULL;
    return __builtin_expect(tls != NULL, false) && net_tls_has_more(tls);
}

/* ---- leading: a thread that waits receives for all ---- */

enum { RPC_CONNECT_LEAST_MS = 1000 }; /* for an attempt to connect by a thread that may not wait */

/* One step of the leader: connects, or sends what waits and receives. `own` (may be NULL) is the
 * call that it waits for. */
void rpc_lead_once(struct rpc_transport *transport, struct rpc_call *own, int timeout_ms);
/* Wakes a follower to lead, if there is one and none is woken already. */
void rpc_pass_lead(struct rpc_transport *transport);
/* Is it time for the leader to look after calls without an answer? */
bool rpc_look_is_due(const struct rpc_transport *transport, uint64_t now_ns);
/* Sends an adrift call again over a path that works, if possible with its xid. `over`: the time is
 * up, so it ends without an answer. */
void rpc_submit_adrift(struct rpc_call *call, bool over);
/* If calls here wait for slots: drives other channels. The calls that have the slots may be on
 * channels without a leader, or may be this thread's own and adrift. Frees the lock meanwhile. */
void rpc_drive_others(struct rpc_transport *transport);

/* Milliseconds until the deadline (0: there is none), at most the time for a connection. 0: it has
 * passed. */
int rpc_time_left_ms(uint64_t deadline_ns);

#endif
