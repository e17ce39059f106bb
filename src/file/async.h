/*
 * Asynchronous reads and writes: for libaio, io_uring and POSIX AIO of the face.
 *
 * A lane is what one application context (io_context_t, ring) submits to; its calls share channels,
 * so that many leave in one system call. The caller drives: whoever waits on a lane sends and
 * receives. Where nobody waits (completions announced by eventfd, signal or plain memory),
 * attendants do: threads of ours, one for each channel that needs it, started on first need.
 *
 * As in file.h, callers are in a critical section and errors are -errno.
 */
#ifndef FILE_ASYNC_H
#define FILE_ASYNC_H

#include "file/file.h"
#include "host/registry.h"
#include "nfs/nfs3_proc.h"
#include "rpc/rpc.h"

enum file_operation { FILE_READ, FILE_WRITE, FILE_SYNC };

enum { FILE_LANE_CHANNELS = RPC_DRIVE_MAX };

struct file_request;
struct file_inode;

/*
 * Requests that are waited for together. Owned by the caller, from file_lane_init() to
 * file_lane_end(). `lock` guards the list of troubled requests and the channels.
 */
struct file_lane {
    pthread_mutex_t lock;
    /* Those that were used, few on each path; only added to, so that they are read without it. */
    struct net_channel *channels[FILE_LANE_CHANNELS];
    _Atomic unsigned channel_count;
    struct file_request *troubled; /* need more than one reply */
    _Atomic unsigned troubled_count;
    _Atomic unsigned in_flight;   /* submitted and not done */
    _Atomic uint32_t events;      /* futex: changes when a request is done or troubled */
    _Atomic unsigned sleepers;    /* on `events` */
    _Atomic unsigned waiters;     /* in file_lane_wait() */
    _Atomic unsigned users;       /* threads that still look at the lane */
    _Atomic bool shared;          /* one thread submits while another waits */
    _Atomic bool attended;        /* attendants look after it now */
    _Atomic bool attended_always; /* and it was asked for */
    struct file_lane *next_lane;  /* under the lock of all lanes */
};

/*
 * One operation. The first part is the caller's; all of it, and the memory it points to, belongs to
 * this room from file_submit() until `done` is called. Large: keep requests and use them again.
 */
struct file_request {
    enum file_operation operation;
    struct file_open *open; /* with the caller's reference, which file_submit() takes over */
    int fd;
    const struct iovec *vectors;
    int count;
    off_t offset;
    int flags; /* RWF_* */
    /*
     * Called once, by any thread, possibly before file_submit() returns, with a list by `next` of
     * requests of the lane that ended together and have the same function. It must be short, must
     * not block, and must not submit; the requests may be used again from then on.
     */
    void (*done)(struct file_request *first);
    /* Bytes, 0 for FILE_SYNC, -errno, or FILE_KERNEL (the file was demoted before any I/O: submit
     * it to the kernel; never for FILE_SYNC). */
    ssize_t result;
    struct file_request *next;

    /* owned by this room */
    struct file_lane *lane;
    size_t length;
    enum nfs3_stable stable;
    uint64_t epoch, replays;
    struct host_write write;
    int kept_count;
    struct iovec kept[HOST_WRITE_VECTORS]; /* the data in the ledger */
    struct rpc_call call;
};

void file_lane_init(struct file_lane *lane);
/* When no request is in flight. */
void file_lane_end(struct file_lane *lane);

/*
 * Submits requests: those that fit in one READ or WRITE leave together, in one system call for each
 * channel where possible; FILE_SYNC and larger ones are carried out before it returns. It may wait:
 * for room in the ledger, for a write that overlaps one in flight, and below IN_FLIGHT_MAX never
 * for replies.
 */
void file_submit(struct file_lane *lane, struct file_request *const *requests, unsigned count);

/*
 * As file_submit(), for a caller that submits piece by piece and looks for completions in between:
 * requests may be kept for a moment, so that some of them leave together: see rpc_submit_later().
 */
void file_submit_later(struct file_lane *lane, struct file_request *const *requests,
                       unsigned count);

/*
 * Drives the lane until satisfied(context) is true or the deadline (CLOCK_MONOTONIC ns; 0: never,
 * 1 or any time in the past: only what has arrived already) has passed. `done` functions are called
 * meanwhile. Also returns, false, when nothing is in flight, and when a signal was deferred for
 * this thread, so that the caller can leave the critical section, let it run, and return EINTR if
 * its interface says so. `satisfied` must be quick and not block.
 */
bool file_lane_wait(struct file_lane *lane, bool (*satisfied)(void *context), void *context,
                    uint64_t deadline_ns);

/* From now on attendants drive this lane whenever something is in flight. */
void file_lane_attend(struct file_lane *lane);

/* Attendants for every lane of this process: before waiting for something that may hang on a
 * request in flight. */
void file_async_attend_all(void);

/*
 * For a thread that waits for the end of requests in flight: does for a moment what nobody else may
 * be doing for them. What this thread has announced is sent, attendants drive, and it carries out
 * troubled requests: of `inode`, or if that is NULL writes of any file, which wait for nothing
 * further. False, at once, when this process has nothing in flight.
 */
bool file_async_help(const struct file_inode *inode);

/* In the child of fork(): lanes of the parent are forgotten; requests in flight never end here. */
void file_async_fork_child(void);

/* ---- between async.c and submit.c ---- */

/* Ends a request; after this it is the caller's again, and its lane may be gone. */
void file_request_done(struct file_request *request, ssize_t result);
/* `answered` of the calls of requests. */
void file_requests_answered(struct rpc_call *first);
/*
 * The channel for a request of `bytes`. A lane keeps to one channel on each path, so that many
 * calls leave together, while that has room. held: see net_path_choose(). NULL: too many channels.
 */
struct net_channel *file_lane_channel(struct file_lane *lane, struct net_server *server,
                                      size_t bytes, const uint64_t *held);
/* Attendants drive the lane, until somebody waits for it. */
void file_lane_attend_now(struct file_lane *lane);
/* Sends what this thread is about to. */
void file_submit_announced(void);

#endif
