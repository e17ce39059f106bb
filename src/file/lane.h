/* Lanes from inside: what lane.c, async.c and submit.c share. */
#ifndef FILE_LANE_H
#define FILE_LANE_H

#include "file/async.h"
#include "sys/sys.h"

enum { FILE_LANE_CHANNELS = RPC_DRIVE_MAX };

enum file_attended {
    FILE_NOT_ATTENDED = 0,
    FILE_DESERTED,       /* it was asked for, and no thread can be started */
    FILE_ATTENDED_NOW,   /* until somebody waits for the lane */
    FILE_ATTENDED_ALWAYS /* it was asked for */
};

/*
 * Owned by the caller from file_lane_new() to file_lane_free(); its memory stays, to be used again.
 * `lock` guards the list of troubled requests and the channels.
 */
struct file_lane {
    pthread_mutex_t lock;
    /* Those that were used, few on each path; only added to, so that they are read without it. */
    struct net_channel *channels[FILE_LANE_CHANNELS];
    _Atomic unsigned channel_count;
    struct file_request *troubled; /* need more than one reply */
    _Atomic unsigned troubled_count;
    _Atomic unsigned in_flight;  /* submitted and not done */
    _Atomic uint32_t events;     /* futex: changes when a request is done or troubled */
    _Atomic unsigned sleepers;   /* on `events` */
    _Atomic unsigned waiters;    /* in file_lane_wait() */
    _Atomic unsigned users;      /* threads that still look at the lane */
    _Atomic bool shared;         /* one thread submits while another waits */
    _Atomic int attended;        /* enum file_attended */
    struct file_lane *next_lane; /* in its list, under the lock of all lanes */
};

/* Changes with `events` of any lane. */
extern _Atomic uint32_t file_lane_events;

/* Wakes who waits for the lane: a request of it is done, or needs more than one reply. */
static inline void file_lane_event(struct file_lane *lane)
{
    atomic_fetch_add(&lane->events, 1);
    atomic_fetch_add_explicit(&file_lane_events, 1, memory_order_relaxed);
    if (atomic_load(&lane->sleepers) > 0)
        sys_futex(&lane->events, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/*
 * The channel for a request of `bytes`. A lane keeps to one channel on each path, so that many
 * calls leave together, while that has room. held: see net_path_choose(). NULL: too many channels.
 */
struct net_channel *file_lane_channel(struct file_lane *lane, struct net_server *server,
                                      size_t bytes, const uint64_t *held);
/* Attendants drive the lane until somebody waits for it. False: not all of it, as no thread can be
 * started; then who waits drives it. */
bool file_lane_attend_now(struct file_lane *lane);
/* The same for all lanes. False: nothing is in flight in any. This thread drives what is its own to
 * drive (rpc_attended), and what has no attendant, for a moment or until `events` changes. */
bool file_lanes_attend(uint32_t events);
/* Drives the lane until nothing is in flight in it, whatever waits for this thread. */
void file_lane_finish(struct file_lane *lane);
/* The next lane in the list from `number` on that has troubled requests, held by `users`. */
struct file_lane *file_lane_troubled(unsigned *number);

/* Ends a request; after this it is the caller's again, and its lane may be gone. */
void file_request_done(struct file_request *request, ssize_t result);
/* `answered` of the calls of requests. */
void file_requests_answered(struct rpc_call *first);
/* Carries out the troubled requests of a lane. */
void file_lane_carry_out(struct file_lane *lane);

/* Sends what this thread is about to. */
void file_submit_announced(void);

#endif
