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
#include "file/operation.h"

enum file_operation {
    FILE_READ,
    FILE_WRITE,
    FILE_SYNC,
    FILE_READ_AHEAD /* a FILE_READ of at most one READ that nobody needs: -EAGAIN where one reply
                       does not settle it */
};

struct file_request;
struct file_inode;

/* Requests that are waited for together. */
struct file_lane;

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
    const char *stranded; /* why its file is to be handed over, and it to the kernel; NULL: not */
    struct ledger_stamp stamp; /* of a read: when it was asked for */
    struct file_target to;     /* of a write */
    struct file_write write;
    struct iovec kept[LEDGER_WRITE_VECTORS]; /* the data in the ledger */
    struct rpc_call call;
};

/* NULL: no memory. */
struct file_lane *file_lane_new(void);
/* When no request is in flight. */
void file_lane_free(struct file_lane *lane);
/* Requests that were submitted and are not done. Who sees none sees the ends of all. */
unsigned file_lane_in_flight(const struct file_lane *lane);

/*
 * Submits requests: those that fit in one READ or WRITE leave together, in one system call for each
 * channel where possible; FILE_SYNC and larger ones are carried out before it returns. It may wait:
 * for room in the ledger, for a write that overlaps one in flight, and below IN_FLIGHT_MAX never
 * for replies.
 */
void file_submit(struct file_lane *lane, struct file_request *const *requests, unsigned count);

/*
 * As file_submit(), for a caller that submits bit by bit and looks for completions in between:
 * requests may be kept for a moment, so that some of them leave together: see rpc_submit_later().
 */
void file_submit_later(struct file_lane *lane, struct file_request *const *requests,
                       unsigned count);

/*
 * Drives the lane until satisfied(context) is true or the deadline (sys/sys.h) has passed, but
 * looks once for what has arrived. `done` functions are called meanwhile. Also returns, false, when
 * nothing is in flight, and when a signal was deferred for this thread, so that the caller can
 * leave the critical section, let it run, and return EINTR if its interface says so; who cannot is
 * patient (sys/critical.h). `satisfied`
 * must be quick and not block; NULL: until nothing is in flight.
 */
bool file_lane_wait(struct file_lane *lane, bool (*satisfied)(void *context), void *context,
                    uint64_t deadline_ns);

/* From now on attendants drive this lane whenever something is in flight. Where no thread can be
 * started this call ends what is in flight, and file_submit() what comes later, before it returns.
 */
void file_lane_attend(struct file_lane *lane);
/* The same, if something is in flight that they do not look after for good. */
void file_lane_attend_busy(struct file_lane *lane);
/* True after file_lane_attend(). */
bool file_lane_is_attended(const struct file_lane *lane);

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
/* Waits until nothing of this process is in flight, for a thread that is in no call of its own. */
void file_async_finish(void);

/* In the child of fork(): lanes are empty; requests of the parent never end here. */
void file_async_fork_child(void);

#endif
