/*
 * POSIX AIO on managed descriptors. Unmanaged ones are glibc's, unchanged.
 *
 * The application looks at a request through its struct aiocb, and so does glibc. The result is in
 * two private fields; we set them as glibc does. So aio_return() is not wrapped: it only reads one
 * of them. For a request that has ended, aio_error() may be ours or glibc's. A third private field,
 * which glibc does not use, leads from an aiocb to our request.
 *
 *   posix_aio.c   the wrappers: ours or glibc's, lists of both
 *   request.c     a request from its start to its notification
 *   wait.c        waiting, for ours and for both
 *   work.c        threads for what would keep the submitter
 *
 * All requests of a process go to one lane. At first the threads that ask for requests drive it.
 * From the first notification by signal or thread on, or the first wait for both worlds, attendants
 * do.
 */
#ifndef PRELOAD_POSIX_AIO_H
#define PRELOAD_POSIX_AIO_H

#include <aio.h>
#include <signal.h>
#include <sys/queue.h>

#include "preload/request.h"

enum posix_aio_state {
    POSIX_AIO_ON_LANE, /* with the engine */
    POSIX_AIO_BEHIND,  /* waits for writes that were queued before it */
    POSIX_AIO_QUEUED,  /* waits for a worker */
    POSIX_AIO_RUNNING, /* in a worker */
};

/*
 * A request; or a list of lio_listio() that announces its end: that uses only `event` and
 * `remaining`. While a request is in flight, `control` leads back to the aiocb; else it is NULL.
 * The application's memory may hold a pointer by chance, so a pointer is believed only if both
 * agree. The lock guards everything but atomic fields and requests on the lane.
 */
struct posix_aio_request {
    struct preload_request base; /* first; with the engine while ON_LANE */
    _Atomic(struct aiocb *) control;
    TAILQ_ENTRY(posix_aio_request) place; /* in the list of all that have not ended, oldest first */
    TAILQ_ENTRY(posix_aio_request) work;  /* while QUEUED */
    struct sigevent event;                /* a copy: the aiocb may be gone when it is needed */
    struct posix_aio_request *group;      /* the list that announces its end, or NULL */
    struct file_open *open;               /* its file: to compare files, and for aio_cancel() */
    unsigned behind;   /* writes that an aio_fsync(), or a write that appends, still waits for */
    bool appends;      /* it comes after earlier writes that append to the file */
    bool kernel;       /* it was demoted before any I/O: a worker asks the kernel */
    _Atomic int state; /* enum posix_aio_state; changed under the lock */
    _Atomic unsigned asked;     /* value of posix_aio_drives at the last aio_error() */
    _Atomic unsigned remaining; /* shares in a list: of its members, glibc's part, the caller */
};
TAILQ_HEAD(posix_aio_list, posix_aio_request);

/* Guards all of the above. Held briefly, in critical sections only, and never while the engine is
 * called. */
extern pthread_mutex_t posix_aio_lock;
/* Set with the first managed request. Until then everything is glibc's. */
extern atomic_bool posix_aio_used;
extern struct async_lane *posix_aio_lane; /* constant once made */
/* Counts how often a thread drove the lane. */
extern _Atomic unsigned posix_aio_drives;

/* Call all functions below in a critical section; those named _locked with the lock, too. */

/* Makes the lane the first time. False: no memory. */
bool posix_aio_prepare(void);

/* The request in flight of an aiocb. NULL: it is not ours. Without the lock it may end at any
 * moment, and then be another's. */
struct posix_aio_request *posix_aio_find(const struct aiocb *control);

static inline int posix_aio_error_of(const struct aiocb *control)
{
    return __atomic_load_n(&control->__error_code, __ATOMIC_ACQUIRE);
}

/*
 * Starts a request, as a member of `group` if that is not NULL. Takes over the reference to `open`.
 * 0: started. Give *submit to async_submit() if it is not NULL.
 * -errno: not started; the aiocb has this error, too.
 */
int posix_aio_start(struct aiocb *control, enum async_operation operation, struct file_open *open,
                    struct posix_aio_request *group, struct async_request **submit);
/* Ends a request with its result: bytes, or -errno. Announces its end, and frees it. */
void posix_aio_end(struct posix_aio_request *request, ssize_t result);
/* aio_cancel() of one request: AIO_CANCELED or AIO_NOTCANCELED; AIO_ALLDONE: it is not ours. */
int posix_aio_cancel(const struct aiocb *control);
/* aio_cancel() of all requests on a descriptor. */
int posix_aio_cancel_all(int fd);

/* True if the end is announced, by a signal or in a thread. */
bool posix_aio_is_told(const struct sigevent *event);
/* A list with one share, the caller's. NULL: there is no request left (EAGAIN). */
struct posix_aio_request *posix_aio_group_get(const struct sigevent *event);
void posix_aio_group_add(struct posix_aio_request *group);
/* Gives up a share. With the last share, the end of the list is announced. */
void posix_aio_group_leave(struct posix_aio_request *group);

/* ---- wait.c ---- */

/* What a thread waits for: the end of one request of a list, or of all. */
struct posix_aio_wait {
    const struct aiocb *const *list; /* with NULL for no request */
    int count;
    bool all;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: never */
};

/*
 * Waits for requests of ours only. Outside of critical sections.
 * 0: done.
 * -EAGAIN: the time has passed.
 * -EINTR: a handler of a signal ran.
 */
int posix_aio_wait(struct posix_aio_wait *wait);
/* As posix_aio_wait(), for a list that has requests of glibc, too. `theirs` is a copy of the list
 * with those only, NULL for all others, and room for one more. */
int posix_aio_wait_both(struct posix_aio_wait *wait, const struct aiocb **theirs);
/* Receives what has arrived, unless a thread has done so since this request was last asked for. */
void posix_aio_look(struct posix_aio_request *request, const struct aiocb *control);
/* Wakes the threads that wait for a request to end. */
void posix_aio_wake_locked(void);
void posix_aio_wait_child(void);

/* ---- work.c ---- */

/* Makes sure that there is a worker. False: no thread could be started. */
bool posix_aio_work_ready(void);
/* Queues a request for a worker. Call posix_aio_work_ready() before. */
void posix_aio_work_add_locked(struct posix_aio_request *request);
/* Takes a QUEUED request out of the queue. */
void posix_aio_work_remove_locked(struct posix_aio_request *request);
void posix_aio_work_child(void);

/* In the child of fork(): it has no requests of the parent. */
void posix_aio_fork_child(void);

#endif
