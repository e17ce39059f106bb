/*
 * The kernel's AIO contexts (io_setup(2), libaio), with requests on managed descriptors in them.
 *
 * A context stays the kernel's: io_setup() makes a real one, which serves unmanaged descriptors. At
 * its first use in a process that has mounts of ours it gets a struct beside it, for requests that
 * go through the engine, and for waiting on both worlds.
 *
 *   io_submit --- managed iocbs ---> async_submit() --done()--> queue of completions ---+
 *        |                                                        | eventfd            +--> reaper
 *        +------- all others ------> the kernel's context, with a poll of the eventfd --+
 *
 * How a reaper waits depends on what is in flight. Nothing: on a futex that submitters wake. Only
 * managed requests: it drives the lane itself. Requests of the kernel as well: attendants drive the
 * lane, and it waits in the kernel, where a poll of our eventfd in the same context wakes it.
 *
 * A program may also read completions from the ring that the kernel maps at the context's address,
 * and we cannot write there. Those that look at the ring's magic number first (fio, libaio itself)
 * find it cleared as soon as a managed request was submitted, and so make the system call. Others
 * (QEMU) depend on IOCB_FLAG_RESFD to know when to look: a file that is used so goes to the kernel.
 */
#ifndef PRELOAD_AIO_CONTEXT_H
#define PRELOAD_AIO_CONTEXT_H

#include <linux/aio_abi.h>

#include "preload/request.h"

#define AIO_SUBMITTER (UINT64_C(1) << 32)

/* What the kernel takes besides the signal mask: io_pgetevents(2). */
struct aio_sigset {
    const sigset_t *mask;
    size_t size;
};

/* The head of the ring that the kernel maps at the context's address: fs/aio.c. */
struct aio_ring {
    unsigned id, nr, head, tail, magic;
};
enum { AIO_RING_MAGIC = 0xa10a10a1 };

/* A request in flight, or its completion in the queue. */
struct aio_request {
    struct preload_request request; /* first */
    struct aio_context *context;
    uint64_t object, data; /* of the iocb */
};

/*
 * What stands beside a context of the kernel. Never freed, since threads look for it without a
 * lock: after io_destroy() `id` is 0, and it is used again once it has no users.
 */
struct aio_context {
    struct aio_context *next; /* in its bucket; constant */
    /*
     * A lock that costs one locked instruction, not two: held for some loads and stores. Guards the
     * change of what follows up to `delivered`. Inside critical sections only.
     */
    _Atomic bool taken;
    _Atomic aio_context_t id;
    _Atomic uint64_t entered;      /* by calls that hold it, in units of AIO_SUBMITTER and 1 */
    struct preload_pool pool;      /* as many as the kernel's ring has room for */
    struct preload_request *ready; /* completions in order */
    _Atomic unsigned delivered;    /* completions */

    _Atomic uint64_t left; /* by those calls; one that a handler jumps out of stays */
    _Atomic bool ending;   /* io_destroy() was called */
    _Atomic bool reaped;   /* io_getevents() was called since the last io_submit() */

    pthread_mutex_t lock;    /* for what is done seldom */
    struct async_lane *lane; /* NULL while `id` is 0 and there are no users */

    _Atomic(struct preload_request *) arrived; /* completions, last one first, not in `ready` yet */
    _Atomic unsigned completed;                /* so many came there */
    _Atomic long kernel_in_flight;             /* the kernel's, not reaped */
    _Atomic uint32_t activity;                 /* futex: submissions */
    _Atomic unsigned sleepers;                 /* threads on `activity`, nearly */
    _Atomic unsigned kernel_waiters;           /* threads in the kernel's io_getevents(), nearly */
    _Atomic bool armed;                        /* `wake` is submitted; changed under the lock */
    int wake_fd;                               /* eventfd, or -1; under the lock until armed */
    struct iocb wake;
};

/*
 * Finds the struct of a context and holds it until aio_context_put(), both as 1 user, or as
 * 1 + AIO_SUBMITTER; makes it if need be. NULL: no such context, or no memory; it is the kernel's
 * business. With it come up to `count` unused requests from the pool, in a list by `next`. In a
 * critical section.
 */
struct aio_context *aio_context_get(aio_context_t id, uint64_t user, unsigned count,
                                    struct preload_request **list);
void aio_context_put(struct aio_context *context, uint64_t user);

/* Completions in the queue. */
static inline unsigned aio_queued(const struct aio_context *context)
{
    unsigned delivered = atomic_load(&context->delivered); /* first: it follows the other */
    return atomic_load(&context->completed) - delivered;
}

/* Managed requests that are not done. Who sees none sees the completions. */
static inline unsigned aio_in_flight(const struct aio_context *context)
{
    return async_lane_in_flight(context->lane);
}

/* Up to `count` unused requests more. */
void aio_requests_take(struct aio_context *context, unsigned count, struct preload_request **list);
/* Gives back a list of them. */
void aio_requests_give(struct aio_context *context, struct preload_request *list);

/* What this thread submits and finds to be the kernel's: it is carried out before io_submit()
 * returns, since the program may close the descriptor, or never ask for the completion. */
struct aio_submitting {
    const struct aio_context *context;
    struct preload_request *first, **end;
};
extern __thread struct aio_submitting *aio_submitting;

/* The `done` of managed requests. */
void aio_request_done(struct async_request *first);

/* Takes up to `room` completions out of the queue. Returns how many. */
unsigned aio_deliver(struct aio_context *context, struct io_event *events, unsigned room);
/*
 * The same without holding the context, if that is simple: at least `least` (and 1) are in the
 * queue, and nobody else has to hear of it. It may be fewer than `least`, or 0: look in detail.
 */
unsigned aio_deliver_now(aio_context_t id, struct io_event *events, unsigned least, unsigned most);

/* After something was submitted, and when a reaper leaves: what others wait for must not rest. */
void aio_context_pass_on(struct aio_context *context);

/* Submits the poll that wakes threads in the kernel's io_getevents(). False: could not. */
bool aio_context_arm(struct aio_context *context);
/* Takes our own poll out of `count` events of the kernel. Returns how many are left. */
long aio_context_filter(struct aio_context *context, struct io_event *events, long count);

/* In the child of fork(), where no context of the parent exists. */
void aio_fork_child(void);

/* ---- the calls: result or -errno ---- */

long aio_io_setup(unsigned count, aio_context_t *id);
long aio_io_destroy(aio_context_t id);
long aio_io_submit(aio_context_t id, long count, struct iocb **list);
/* `set` NULL: io_getevents(), else io_pgetevents(). */
long aio_io_getevents(aio_context_t id, long least, long most, struct io_event *events,
                      struct timespec *timeout, const struct aio_sigset *set);

#endif
