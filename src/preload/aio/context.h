/*
 * The kernel's AIO contexts (io_setup(2), libaio), with requests on managed descriptors in them.
 *
 * A context stays the kernel's: io_setup() makes a real one, and that serves unmanaged descriptors.
 * If the process has mounts of ours, the context gets a struct beside it at its first use. The
 * struct is for requests that go through the engine, and for waiting on both worlds.
 *
 *   io_submit --- managed iocbs ---> async_submit() --done()--> queue of completions ---+
 *        |                                                        | eventfd            +--> reaper
 *        +------- all others ------> the kernel's context, with a poll of the eventfd --+
 *
 * How a reaper waits depends on what is in flight:
 *   nothing: on a futex that submitters wake
 *   managed requests only: it drives the lane itself
 *   requests of the kernel, too: attendants drive the lane. It waits in the kernel, where a poll
 *     of our eventfd in the same context wakes it
 *
 * A program may also read completions from the ring that the kernel maps at the context's address.
 * We cannot write there. Some programs look at the ring's magic number first (fio, libaio itself).
 * It is cleared when a managed request is submitted, so they make the system call. Others (QEMU)
 * need IOCB_FLAG_RESFD to know when to look: a file that is used so goes to the kernel.
 */
#ifndef PRELOAD_AIO_CONTEXT_H
#define PRELOAD_AIO_CONTEXT_H

#include <linux/aio_abi.h>

#include "preload/request.h"

#define AIO_SUBMITTER (UINT64_C(1) << 32)

/* What the kernel takes with the signal mask: io_pgetevents(2). */
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
    uint64_t object, data; /* copied from the iocb */
};

/*
 * The struct beside a context of the kernel. It is never freed, since threads look for it without a
 * lock. After io_destroy() `id` is 0; a struct without users is used again.
 */
struct aio_context {
    struct aio_context *next; /* in its bucket; constant */
    /*
     * A lock that costs one locked instruction, not two; held for some loads and stores. It guards
     * changes of what follows, up to `delivered`. Taken in critical sections only.
     */
    _Atomic bool taken;
    _Atomic aio_context_t id;
    _Atomic uint64_t entered;      /* calls that held it or do, in units of AIO_SUBMITTER and 1 */
    struct preload_pool pool;      /* as many as the kernel's ring has room for */
    struct preload_request *ready; /* completions in order */
    _Atomic unsigned delivered;    /* completions taken out */

    _Atomic uint64_t left; /* calls that ended; a call that a handler jumped out of never does */
    _Atomic bool ending;   /* io_destroy() was called */
    _Atomic bool reaped;   /* io_getevents() was called since the last io_submit() */

    pthread_mutex_t lock;    /* for what is done seldom */
    struct async_lane *lane; /* NULL while `id` is 0 and there are no users */

    _Atomic(struct preload_request *) arrived; /* completions, last one first, not in `ready` yet */
    _Atomic unsigned completed;                /* how many ever came there */
    _Atomic long kernel_in_flight;             /* requests of the kernel that were not reaped */
    _Atomic uint32_t activity;                 /* futex: counts submissions */
    _Atomic unsigned sleepers;                 /* threads on `activity`; not exact */
    _Atomic unsigned kernel_waiters; /* threads in the kernel's io_getevents(); not exact */
    _Atomic bool armed;              /* `wake` is submitted; changed under the lock */
    int wake_fd;                     /* eventfd, or -1; under the lock until armed */
    struct iocb wake;
};

/*
 * Finds the struct of a context, or makes it. Holds it until aio_context_put(), both with the same
 * `user`: 1, or 1 + AIO_SUBMITTER. Puts up to `count` unused requests of the pool into *list,
 * linked by `next`. NULL: there is no such context, or no memory: it is the kernel's business. In a
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

/* Managed requests that are not done. If this is 0, all completions can be seen. */
static inline unsigned aio_in_flight(const struct aio_context *context)
{
    return async_lane_in_flight(context->lane);
}

/* Takes up to `count` more unused requests. */
void aio_requests_take(struct aio_context *context, unsigned count, struct preload_request **list);
/* Gives back a list of unused requests. */
void aio_requests_give(struct aio_context *context, struct preload_request *list);

/* Requests of this thread's io_submit() that turn out to be the kernel's. They are carried out
 * before it returns: the program may close the descriptor, or never ask for the completion. */
struct aio_submitting {
    const struct aio_context *context;
    struct preload_request *first, **end;
};
extern __thread struct aio_submitting *aio_submitting;

/* `done` of managed requests. */
void aio_request_done(struct async_request *first);

/* Takes up to `room` completions out of the queue. Returns how many. */
unsigned aio_deliver(struct aio_context *context, struct io_event *events, unsigned room);
/*
 * As aio_deliver(), but does not hold the context, and does only the simple case: `least`
 * completions (and at least 1) are in the queue, and nobody else must learn of it. It may return
 * fewer than `least`, or 0: then look in detail.
 */
unsigned aio_deliver_now(aio_context_t id, struct io_event *events, unsigned least, unsigned most);

/* After a submission, and when a reaper leaves: wakes others, so that nothing in flight is left
 * alone. */
void aio_context_pass_on(struct aio_context *context);

/* Submits the poll that wakes threads in the kernel's io_getevents(). False: it failed. */
bool aio_context_arm(struct aio_context *context);
/* Takes our own poll out of `count` events of the kernel. Returns how many are left. */
long aio_context_filter(struct aio_context *context, struct io_event *events, long count);

/* In the child of fork(): the parent's contexts do not exist there. */
void aio_fork_child(void);

/* ---- the calls: result or -errno ---- */

long aio_io_setup(unsigned count, aio_context_t *id);
long aio_io_destroy(aio_context_t id);
long aio_io_submit(aio_context_t id, long count, struct iocb **list);
/* `set` NULL: io_getevents(), else io_pgetevents(). */
long aio_io_getevents(aio_context_t id, long least, long most, struct io_event *events,
                      struct timespec *timeout, const struct aio_sigset *set);

#endif
