/*
 * Asynchronous reads and writes: for libaio, io_uring and POSIX AIO of the face, and for reading
 * ahead.
 *
 * A lane is what one application context (io_context_t, ring) submits to. A lane's calls share
 * channels, so that many leave in one system call. The caller drives: a thread that waits on a lane
 * sends and receives. Where nobody waits (the end is told by eventfd, signal or plain memory),
 * attendants do: threads of ours, one for each channel that needs it, started on first need.
 *
 * As in file/file.h, callers are in a critical section and errors are -errno.
 */
#ifndef ASYNC_ASYNC_H
#define ASYNC_ASYNC_H

#include "file/file.h"
#include "durable/operation.h"

enum async_operation {
    ASYNC_READ,
    ASYNC_WRITE,
    ASYNC_SYNC,
    ASYNC_READ_AHEAD /* one READ that nobody needs: -EAGAIN where one reply does not do */
};

struct async_request;
struct file_inode;

/* Requests that are waited for together. */
struct async_lane;

/*
 * One operation. The caller fills in the first part. All of it, and the memory it points to,
 * belongs to src/async from async_submit() until `done` is called. Large: keep requests and use
 * them again.
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
     * Called once, by any thread, possibly before async_submit() returns. Gets a list, by `next`,
     * of requests of the lane that ended together and have the same function. It must be short, and
     * must neither block nor submit. From then on the requests may be used again.
     */
    void (*done)(struct async_request *first);
    /* Bytes, 0 for ASYNC_SYNC, or -errno. FILE_KERNEL, never for ASYNC_SYNC: the file was demoted
     * before any I/O; submit it to the kernel. */
    ssize_t result;
    struct async_request *next;

    /* The rest is only for src/async. */
    struct async_lane *lane;
    size_t length;
    const char *stranded;      /* why its file must go to the kernel, and it too; NULL: not so */
    struct ledger_stamp stamp; /* of a read: taken before it was asked for */
    struct file_target to;     /* of a write */
    struct durable_write write;
    struct iovec kept[LEDGER_WRITE_VECTORS]; /* the data in the ledger */
    struct rpc_call call;
};

/* NULL: no memory. */
struct async_lane *async_lane_new(void);
/* To be called when no request is in flight. */
void async_lane_free(struct async_lane *lane);
/* How many requests were submitted and are not done. A thread that sees 0 sees the ends of all. */
unsigned async_lane_in_flight(const struct async_lane *lane);

/*
 * Submits requests. Those that fit in one READ or WRITE leave together, in one system call for each
 * channel where possible. ASYNC_SYNC and larger requests are carried out before it returns. It may
 * wait for room in the ledger, and for a write that overlaps one in flight; but not for replies,
 * while channels have fewer than NET_IN_FLIGHT_MAX calls.
 */
void async_submit(struct async_lane *lane, struct async_request *const *requests, unsigned count);

/*
 * As async_submit(), for a caller that submits bit by bit and looks for completions in between.
 * Requests may be kept for a moment, so that some of them leave together: see rpc_submit_later().
 */
void async_submit_later(struct async_lane *lane, struct async_request *const *requests,
                        unsigned count);

/*
 * Drives the lane until satisfied(context) is true or the deadline (sys/sys.h) has passed, but
 * looks at least once for what has arrived. Calls `done` functions meanwhile. Returns false, too,
 * when nothing is in flight, and when a signal was deferred for this thread. Then the caller can
 * leave the critical section, let the handler run, and return EINTR if its interface says so; a
 * caller that cannot is patient (sys/critical.h). `satisfied` must be quick and not block; NULL:
 * until nothing is in flight.
 */
bool async_lane_wait(struct async_lane *lane, bool (*satisfied)(void *context), void *context,
                     uint64_t deadline_ns);

/* From now on attendants drive this lane whenever something is in flight. Where no thread can be
 * started, this call ends what is in flight, and async_submit() ends what comes later, before it
 * returns. */
void async_lane_attend(struct async_lane *lane);
/* As async_lane_attend(), but only if something is in flight and the lane is not attended for good.
 */
void async_lane_attend_busy(struct async_lane *lane);
/* True after async_lane_attend(). */
bool async_lane_is_attended(const struct async_lane *lane);

/* Starts attendants for every lane of this process that has something in flight. To be called
 * before waiting for what may hang on a request in flight. */
void async_attend_all(void);

/*
 * For a thread that waits for the end of requests in flight: does for a moment what nobody else may
 * be doing for them. Sends what this thread has announced, lets attendants drive, and carries out
 * troubled requests: those of `inode` or, if it is NULL, writes of any file, which wait for nothing
 * further. False, at once: this process has nothing in flight.
 */
bool async_help(const struct file_inode *inode);
/* Waits until nothing of this process is in flight. For a thread that is in no call of its own. */
void async_finish(void);

/* In the child of fork(): empties all lanes. Requests of the parent never end here. */
void async_fork_child(void);

#endif
