/* Lanes from inside: what lane.c, settle.c and submit.c share. */
#ifndef ASYNC_LANE_H
#define ASYNC_LANE_H

#include "async/async.h"
#include "sys/sys.h"

enum { ASYNC_LANE_CHANNELS = RPC_DRIVE_MAX };

enum async_attended {
    ASYNC_NOT_ATTENDED = 0,
    ASYNC_DESERTED,       /* attendants were asked for, and no thread can be started */
    ASYNC_ATTENDED_NOW,   /* attended until a thread waits for the lane */
    ASYNC_ATTENDED_ALWAYS /* attendants were asked for, for good */
};

/*
 * Owned by the caller from async_lane_new() to async_lane_free(); its memory stays, to be used
 * again. `lock` guards the list of troubled requests and the channels.
 */
struct async_lane {
    pthread_mutex_t lock;
    /* The channels that were used, few on each path. They are only added to, and read without
     * `lock`. */
    struct net_channel *channels[ASYNC_LANE_CHANNELS];
    _Atomic unsigned channel_count;
    struct async_request *troubled; /* requests that need more than one reply */
    _Atomic unsigned troubled_count;
    _Atomic unsigned in_flight;   /* submitted and not done */
    _Atomic uint32_t events;      /* futex: changes when a request is done or troubled */
    _Atomic unsigned sleepers;    /* on `events` */
    _Atomic unsigned waiters;     /* in async_lane_wait() */
    _Atomic unsigned users;       /* threads that still look at the lane */
    _Atomic bool shared;          /* one thread submits while another waits */
    _Atomic int attended;         /* enum async_attended */
    struct async_lane *next_lane; /* in its list, under the lock of all lanes */
};

/* Changes with `events` of any lane. */
extern _Atomic uint32_t async_lane_events;

/* Wakes threads that wait for the lane: a request of it is done, or needs more than one reply. */
static inline void async_lane_event(struct async_lane *lane)
{
    atomic_fetch_add(&lane->events, 1);
    atomic_fetch_add_explicit(&async_lane_events, 1, memory_order_relaxed);
    if (atomic_load(&lane->sleepers) > 0)
        sys_futex(&lane->events, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/*
 * The channel for a request of `bytes`. While a channel has room, a lane keeps to one on each path,
 * so that many calls leave together. held: see net_path_choose(). NULL: too many channels.
 */
struct net_channel *async_lane_channel(struct async_lane *lane, struct net_server *server,
                                       size_t bytes, const uint64_t *held);
/* Has attendants drive the lane until a thread waits for it. False: not all of it, as no thread can
 * be started; then the thread that waits drives it. */
bool async_lane_attend_now(struct async_lane *lane);
/* As async_lane_attend_now(), for all lanes. False: nothing is in flight in any. This thread drives
 * what is its own to drive (rpc_attended), and what has no attendant, for a moment or until
 * `async_lane_events` is not `events`. */
bool async_lanes_attend(uint32_t events);
/* Drives the lane until nothing is in flight in it; signals wait. */
void async_lane_finish(struct async_lane *lane);
/* The next lane from number `*number` of the list on that has troubled requests; its `users` is one
 * more. NULL: none. */
struct async_lane *async_lane_troubled(unsigned *number);

/* Ends a request; after this it is the caller's again, and its lane may be gone. */
void async_request_done(struct async_request *request, ssize_t result);
/* `answered` of requests' calls: settles them. Called by any thread, as the leader of the channel:
 * must not wait. */
void async_requests_answered(struct rpc_call *first);
/* Carries out the troubled requests of a lane. */
void async_lane_carry_out(struct async_lane *lane);

/* Sends what this thread has announced and not sent yet. */
void async_submit_announced(void);

#endif
