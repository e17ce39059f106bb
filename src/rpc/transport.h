/*
 * A channel as src/rpc uses it: inside src/rpc only.
 *
 *   rpc_submit()  queue --> table of calls in flight (by xid) --> socket
 *   rpc_wait()    leader: socket --> receiver --> call answered --> its owner wakes
 *
 * At most one thread sends on a channel (`sending`) and at most one reads (`leading`); both work
 * without the lock while they are in the kernel. Only the leader connects, and not while a thread
 * sends, so a descriptor never changes under a system call.
 */
#ifndef RPC_TRANSPORT_H
#define RPC_TRANSPORT_H

#include "stats/count.h"
#include "rpc/receiver.h"
#include "rpc/rpc.h"

enum {
    RPC_SLOTS = 256, /* of the table of calls; a power of two */
    RPC_BATCH = 64,  /* calls in one sendmsg() */
    RPC_BATCH_VECTORS = 256,
    RPC_SAY_EVERY_S = 60 /* on the log */
};

/* A thread that sleeps until its call is answered, or it shall lead, or look again. On its stack.
 */
struct rpc_follower {
    _Atomic uint32_t *word; /* enum rpc_state: of the call, or of the thread that drives */
    struct rpc_call *call;  /* NULL for one that drives, until satisfied(context) */
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
    struct iovec vectors[RPC_BATCH_VECTORS];
    struct iovec parts[RPC_VECTORS_MAX + 2]; /* of one call */
};

/* State of a channel. Made at its first call, lives as long as the channel. `lock` guards all but
 * what is the leader's or of the thread that sends. Here and not on their stacks, which may be
 * those of a signal handler. */
struct rpc_transport {
    pthread_mutex_t lock;
    struct net_channel *channel;
    struct rpc_call *calls[RPC_SLOTS]; /* in flight, by xid */
    unsigned in_flight;
    unsigned payloads; /* of them expect a payload */
    size_t longest;    /* payload that was expected since `payloads` was 0 */
    uint32_t next_xid;
    uint32_t oldest_xid; /* none of those in flight that were first sent here is older */
    struct rpc_call *unsent, **unsent_end;
    size_t unsent_offset; /* bytes of the first unsent call that are sent already */
    unsigned kept;        /* calls, and their bytes, that were queued since the last sending */
    size_t kept_bytes;
    _Atomic bool keeping;                      /* it is in the keeper's list */
    struct rpc_transport *next_keeping;        /* the keeper's */
    struct rpc_call *finished, **finished_end; /* answered, `answered` not called yet */
    struct stats_tally tally;                  /* of the path, while replies are handed out */
    struct rpc_follower *followers;
    bool leading, sending;
    bool receiving; /* the leader is in the kernel, which may write into a call's memory */
    bool connected;
    unsigned withdrawing;      /* threads that take calls back: not to be connected meanwhile */
    unsigned attempts;         /* to connect, since the last answer */
    int failure;               /* of the last attempt to connect; with `once` also why it ended */
    uint64_t attempted_ns;     /* when the last one was over */
    uint64_t connect_after_ns; /* when the next attempt is due */
    uint64_t looked_ns;        /* when calls were last looked after */
    uint64_t received_ns;      /* when something was last received */
    uint64_t silent_since_ns;  /* for saying so: 0 when all is well */
    bool short_of_slots;       /* of an exact call: it can be sent when another one is over */
    bool waits_long;           /* the oldest call does, and src/net was told: which one, */
    uint32_t waits_xid;        /* and when */
    uint64_t waits_looked_ns;
    bool proving;          /* the connection shall answer a ping before it gets calls */
    unsigned given_up;     /* connections, in silence, since a call was answered */
    unsigned overdue;      /* connections that were given up for calls sent again, which are so */
    uint64_t newest_ns;    /* when the last of all calls that were answered was sent; and when it */
    uint64_t overtaken_ns; /* was seen that it was sent after one that was sent again */
    uint64_t again_ns;     /* when one that was sent again was last answered */
    uint64_t elsewhere_ns; /* when it was first seen, in a silence, that others are answered */
    _Atomic bool pinging;  /* `ping` is in flight */
    uint64_t pinged_ns;    /* since this time */
    struct rpc_call ping;  /* NULL: does the path live? */
    struct rpc_receiver receiver;
    struct iovec vectors[RPC_RECEIVER_VECTORS]; /* the leader's: where it receives */
    struct rpc_batch batch;                     /* of the thread that sends */
};

/* The channel's state; made on first use. */
struct rpc_transport *rpc_transport_of(struct net_channel *channel);
/* As new: for one that is made, and in the child of fork(). */
void rpc_transport_init(struct rpc_transport *transport, struct net_channel *channel);

/* All below: under the lock. */

/* Closes the connection, unless it is in use, or was in the last `idle_ns`: false. */
bool rpc_retire(struct rpc_transport *transport, uint64_t idle_ns);

/* A call was submitted or is done: `channel->outstanding` is read without the lock, and changed
 * under it only. A ping does not count, as nobody waits for it. */
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
/* Takes it out of the queue, if it is there. */
void rpc_unsent_remove(struct rpc_transport *transport, struct rpc_call *call);
/* The next one to be sent, behind one that was sent in part. */
void rpc_unsent_next(struct rpc_transport *transport, struct rpc_call *call);
/* The server will know copies of an exact call: it has a slot, or got one now. */
bool rpc_enter(struct rpc_transport *transport, struct rpc_call *call);

/* Something is queued that may be sent now: servers queue so many calls on a connection, but a ping
 * shall not wait for them. */
static inline bool rpc_may_send(struct rpc_transport *transport)
{
    struct rpc_call *call = transport->unsent;
    return call && (__builtin_expect(!transport->proving, true) || call == &transport->ping) &&
           (transport->in_flight < NET_IN_FLIGHT_MAX || call->sent || call == &transport->ping) &&
           (__builtin_expect(call->exact == NULL, true) || rpc_enter(transport, call));
}

/* The call in flight with this xid, of which nothing waits to be sent, or NULL. */
struct rpc_call *rpc_call_sent(void *transport, uint32_t xid);
/* Enters a call into the table; gives it an xid if it has none. */
void rpc_in_flight_add(struct rpc_transport *transport, struct rpc_call *call);
void rpc_in_flight_remove(struct rpc_transport *transport, struct rpc_call *call);

/* For the receiver: the call has its answer. The last access to it, unless `answered` is set. */
void rpc_call_answered(void *transport, struct rpc_call *call);
/*
 * Ends a call without an answer: with an error, or with -ENETDOWN to be sent elsewhere. No
 * connection of ours may still carry a part of it.
 */
void rpc_call_fail(struct rpc_transport *transport, struct rpc_call *call, int error);
/* Calls the `answered` functions that are due, without the lock, and wakes those who drive. */
void rpc_call_finished(struct rpc_transport *transport);

/* Gives the connection up and wakes its reader. The leader will make a new one. */
void rpc_connection_lost(struct rpc_transport *transport);
/* The same, by the leader, when the server ended it, or it is of no use (`error`). If it brought no
 * answer, calls shall go elsewhere. */
void rpc_connection_ended(struct rpc_transport *transport, int error);
/* By a thread that comes back from the kernel: the last one resets a connection that was given up.
 */
void rpc_connection_leave(struct rpc_transport *transport);
/* All calls in flight go back to the head of the queue, the oldest first; `unsettled`: the server
 * may not know them again. */
void rpc_queue_again(struct rpc_transport *transport, bool unsettled);

/* ---- keep.c ---- */

/* May what is queued stay for a moment? While the server has more to do, and nobody waits for it.
 * Under the lock. */
bool rpc_can_keep(const struct rpc_transport *transport);
/* Something was kept. Not under the lock. */
void rpc_keep(struct rpc_transport *transport);
/* Before the transport is freed. */
void rpc_keep_forget(struct rpc_transport *transport);
/* In the child of fork(). */
void rpc_keep_after_fork(void);

/* ---- failover.c ---- */

/*
 * Looks after calls that stay unanswered, by the leader, in the silence: pings, gives the
 * connection up, or the path when another one answers. Under the lock.
 */
void rpc_look_after_silence(struct rpc_transport *transport);
/* The connection was just made: if one before it was silent, it shall answer a ping first. Under
 * the lock. */
void rpc_prove(struct rpc_transport *transport, uint64_t now);
/* A call was answered, and connections were given up before it was. Under the lock. */
void rpc_silence_is_over(struct rpc_transport *transport, const struct rpc_call *call);
/* A line on the log for a server that does not answer, now and then. Under the lock. */
void rpc_say_waiting(struct rpc_transport *transport, const char *why);
/* Looks for the call that waits longest, and tells src/net. Under the lock, as the next. */
void rpc_look_for_oldest(struct rpc_transport *transport, uint64_t now);
/* Something came, or calls ended otherwise, while one waited long. */
void rpc_look_for_oldest_again(struct rpc_transport *transport, uint64_t now);
/*
 * By the leader, who is not connected: if calls can go elsewhere, sets all that are here adrift
 * (ends them with -ENETDOWN if they have an `answered` function); likewise those with an `answered`
 * function when one of them waited for soft_timeout. Where nothing is tried again, ends them with
 * the error of the connection. True if it did.
 */
bool rpc_abandon(struct rpc_transport *transport);
/* By the leader, who has connected, and not said so yet: rpc_follow_path() passed it by. 0;
 * -EAGAIN: the path has another address since, and the connection is closed. */
int rpc_connection_stays(struct rpc_transport *transport);
/* No connection can be made by this thread: its calls end with -ENONET. Others, whose thread may,
 * are adrift. By the leader, after rpc_abandon(). */
void rpc_strand(struct rpc_transport *transport);

/*
 * Sends what is queued, if no other thread does. The lock is free during system calls. Returns when
 * all is sent, or the socket is full and the caller (`lead`) or no one leads, or the connection is
 * lost. While another thread leads, and so reads replies, it waits for room.
 */
void rpc_send_unsent(struct rpc_transport *transport, bool lead);

/* ---- leading: who waits receives for all ---- */

enum { RPC_CONNECT_LEAST_MS = 1000 }; /* of an attempt to connect by who may not wait */

/* One step of the leader: connects, or sends what waits and receives. `own` (may be NULL) is what
 * it waits for. */
void rpc_lead_once(struct rpc_transport *transport, struct rpc_call *own, int timeout_ms);
/* Wakes a follower, if there is one and none is woken already, to lead. */
void rpc_pass_lead(struct rpc_transport *transport);
/* Should the leader look after calls that stay unanswered? */
bool rpc_look_is_due(const struct rpc_transport *transport, uint64_t now_ns);
/* Sends what is adrift again, over a path that works, if possible with the same xid; if the time is
 * over it stays unanswered. */
void rpc_submit_adrift(struct rpc_call *call, bool over);
/* If its calls wait for slots: those that have them may be on channels that nobody leads, or this
 * thread's own, and adrift. Lets the lock go meanwhile. */
void rpc_drive_others(struct rpc_transport *transport);

/* What is left until the deadline (0: none), at most the time for a connection. 0: it has passed.
 */
int rpc_time_left_ms(uint64_t deadline_ns);

#endif
