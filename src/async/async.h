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
#ifndef ASYNC_ASYNC_H
#define ASYNC_ASYNC_H

#include "file/file.h"
#include "durable/operation.h"

enum async_operation {
    ASYNC_READ,
    ASYNC_WRITE,
    ASYNC_SYNC,
    ASYNC_READ_AHEAD /* a FILE_READ of at most one READ that nobody needs: -EAGAIN where one reply
                       does not settle it */
};

struct async_request;
struct file_inode;

/* Requests that are waited for together. */
struct async_lane;

/*
 * One operation. The first part is the caller's; all of it, and the memory it points to, belongs to
 * this room from async_submit() until `done` is called. Large: keep requests and use them again.
 */
struct async_request {
    enum async_operation operation;
    struct file_open *open; /* with the caller's reference, which async_submit() takes over */
    int fd;
    const struct iovec *vectors;
    int count;
    off_t offset;
    int flags; /* RWF_* */
    /*
     * Called once, by any thread, possibly before async_submit() returns, with a list by `next` of
     * requests of the lane that ended together and have the same function. It must be short, must
     * not block, and must not submit; the requests may be used again from then on.
     */
    void (*done)(struct async_request *first);
    /* Bytes, 0 for FILE_SYNC, -errno, or FILE_KERNEL (the file was demoted before any I/O: submit
     * it to the kernel; never for FILE_SYNC). */
    ssize_t result;
    struct async_request *next;

    /* owned by this room */
    struct async_lane *lane;
    size_t length;
    const char *stranded; /* why its file is to be handed over, and it to the kernel; NULL: not */
    struct ledger_stamp stamp; /* of a read: when it was asked for */
    struct file_target to;     /* of a write */
    struct durable_write write;
    struct iovec kept[LEDGER_WRITE_VECTORS]; /* the data in the ledger */
    struct rpc_call call;
};

/* NULL: no memory. */
struct async_lane *async_lane_new(void);
/* When no request is in flight. */
void async_lane_free(struct async_lane *lane);
/* Requests that were submitted and are not done. Who sees none sees the ends of all. */
unsigned async_lane_in_flight(const struct async_lane *lane);

/*
 * Submits requests: those that fit in one READ or WRITE leave together, in one system call for each
 * channel where possible; FILE_SYNC and larger ones are carried out before it returns. It may wait:
 * for room in the ledger, for a write that overlaps one in flight, and below IN_FLIGHT_MAX never
 * for replies.
 */
void async_submit(struct async_lane *lane, struct async_request *const *requests, unsigned count);

/*
 * As async_submit(), for a caller that submits bit by bit and looks for completions in between:
 * requests may be kept for a moment, so that some of them leave together: see rpc_submit_later().
 */
void async_submit_later(struct async_lane *lane, struct async_request *const *requests,
                        unsigned count);

/*
 * Drives the lane until satisfied(context) is true or the deadline (sys/sys.h) has passed, but
 * looks once for what has arrived. `done` functions are called meanwhile. Also returns, false, when
 * nothing is in flight, and when a signal was deferred for this thread, so that the caller can
 * leave the critical section, let it run, and return EINTR if its interface says so; who cannot is
 * patient (sys/critical.h). `satisfied`
 * must be quick and not block; NULL: until nothing is in flight.
 */
bool async_lane_wait(struct async_lane *lane, bool (*satisfied)(void *context), void *context,
                     uint64_t deadline_ns);

/* From now on attendants drive this lane whenever something is in flight. Where no thread can be
 * started this call ends what is in flight, and async_submit() what comes later, before it returns.
 */
void async_lane_attend(struct async_lane *lane);
/* The same, if something is in flight that they do not look after for good. */
void async_lane_attend_busy(struct async_lane *lane);
/* True after async_lane_attend(). */
bool async_lane_is_attended(const struct async_lane *lane);

/* Attendants for every lane of this process: before waiting for something that may hang on a
 * request in flight. */
void async_attend_all(void);

/*
 * For a thread that waits for the end of requests in flight: does for a moment what nobody else may
 * be doing for them. What this thread has announced is sent, attendants drive, and it carries out
 * troubled requests: of `inode`, or if that is NULL writes of any file, which wait for nothing
 * further. False, at once, when this process has nothing in flight.
 */
bool async_help(const struct file_inode *inode);
/* Waits until nothing of this process is in flight, for a thread that is in no call of its own. */
void async_finish(void);

/* In the child of fork(): lanes are empty; requests of the parent never end here. */
void async_fork_child(void);

#endif
