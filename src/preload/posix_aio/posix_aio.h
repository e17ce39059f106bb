/*
 * POSIX AIO on managed descriptors. Unmanaged ones are glibc's, unchanged.
 *
 * The application looks at a request through its struct aiocb, and so does glibc: the result stands
 * in two of the private fields, which we set as glibc does. aio_return(), which does nothing but
 * read one, is therefore not wrapped, and aio_error() of a request that has ended may be either's.
 * A third private field, which glibc does not use, leads from an aiocb to our request.
 *
 *   posix_aio.c   the wrappers: ours or glibc's, lists of both
 *   request.c     a request from its start to its notification
 *   wait.c        waiting, for ours and for both
 *   work.c        threads for what would keep the submitter
 *
 * All requests of a process go to one lane. As long as none of them announces its end, whoever asks
 * for it drives the lane; with the first signal or thread notification, or the first wait for both
 * worlds, attendants do.
 */
#ifndef PRELOAD_POSIX_AIO_H
#define PRELOAD_POSIX_AIO_H

#include <aio.h>
#include <signal.h>
#include <sys/queue.h>

#include "preload/request.h"

enum posix_aio_state {
    POSIX_AIO_ON_LANE, /* with the engine */
    POSIX_AIO_BEHIND,  /* behind writes that were queued before it */
    POSIX_AIO_QUEUED,  /* for a worker */
    POSIX_AIO_RUNNING, /* in a worker */
};

/*
 * A request; or a list of lio_listio() whose end is to be told, of which only `event` and
 * `remaining` count. `control` leads back to the aiocb while a request is in flight; else it is
 * NULL: a pointer that the application's memory happens to hold is believed only if both agree.
 * Everything under the lock, but for what is atomic and a request that is on the lane.
 */
struct posix_aio_request {
    struct preload_request base; /* first; with the engine while ON_LANE */
    _Atomic(struct aiocb *) control;
    TAILQ_ENTRY(posix_aio_request) place; /* among all that have not ended, oldest first */
    TAILQ_ENTRY(posix_aio_request) work;  /* while QUEUED */
    struct sigevent event;                /* copied: the aiocb may be gone when it is needed */
    struct posix_aio_request *group;      /* the list whose end is told, or NULL */
    struct file_open *open;               /* which file: for comparing only */
    unsigned behind;        /* writes that an aio_fsync(), or one that appends, still waits for */
    bool appends;           /* after those that append to the file and were asked for before */
    bool kernel;            /* demoted before any I/O: a worker asks the kernel */
    _Atomic int state;      /* enum posix_aio_state; changed under the lock */
    _Atomic unsigned asked; /* posix_aio_drives when aio_error() was last asked */
    _Atomic unsigned remaining; /* of a list: members, and a share of who adds some */
};
TAILQ_HEAD(posix_aio_list, posix_aio_request);

/* Guards all of the above. Held briefly, in critical sections only; never while the engine is
 * called. */
extern pthread_mutex_t posix_aio_lock;
/* Set with the first managed request: until then everything is glibc's. */
extern atomic_bool posix_aio_used;
extern struct async_lane *posix_aio_lane; /* constant once made */
/* Counts the times somebody drove the lane. */
extern _Atomic unsigned posix_aio_drives;

/* All functions below are called in a critical section. Those that end in _locked want the lock. */

/* Makes the lane, at first. False: no memory. */
bool posix_aio_prepare(void);

/* The request in flight of an aiocb, or NULL if it is not ours. Without the lock it may end, or be
 * another's, at any moment. */
struct posix_aio_request *posix_aio_find(const struct aiocb *control);

static inline int posix_aio_error_of(const struct aiocb *control)
{
    return __atomic_load_n(&control->__error_code, __ATOMIC_ACQUIRE);
}

/*
 * Starts a request, as a member of `group` if that is not NULL. Takes over the reference to `open`.
 * 0, with what is left to do in *submit: give it to async_submit(), or NULL; or -errno, which is
 * the error of the aiocb, too.
 */
int posix_aio_start(struct aiocb *control, enum async_operation operation, struct file_open *open,
                    struct posix_aio_request *group, struct async_request **submit);
/* Ends a request: bytes, or -errno. Tells whoever wants to know, and frees it. */
void posix_aio_end(struct posix_aio_request *request, ssize_t result);
/* aio_cancel() of one: AIO_CANCELED, AIO_NOTCANCELED, or AIO_ALLDONE when it is not ours. */
int posix_aio_cancel(const struct aiocb *control);
/* Of all requests on a descriptor. */
int posix_aio_cancel_all(int fd);

/* Is somebody to be told of the end? */
bool posix_aio_is_told(const struct sigevent *event);
/* A list with one share, which is the caller's. NULL: no request is left, which is EAGAIN. */
struct posix_aio_request *posix_aio_group_get(const struct sigevent *event);
void posix_aio_group_add(struct posix_aio_request *group);
/* Gives up a share; with the last one the end of the list is told. */
void posix_aio_group_leave(struct posix_aio_request *group);

/* ---- wait.c ---- */

/* What is waited for: the end of one of a list, or of all. */
struct posix_aio_wait {
    const struct aiocb *const *list; /* with NULL for none */
    int count;
    bool all;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: never */
};

/*
 * Outside of critical sections. 0; -EAGAIN when the time has passed; -EINTR when a handler of a
 * signal ran. For requests of ours only.
 */
int posix_aio_wait(struct posix_aio_wait *wait);
/* The same for a list with requests of glibc's in it, which are given as a copy of the list with
 * NULL for all others, and room for one more. */
int posix_aio_wait_both(struct posix_aio_wait *wait, const struct aiocb **theirs);
/* Asks what has arrived, if nobody did since the last time that this request was asked for. */
void posix_aio_look(struct posix_aio_request *request, const struct aiocb *control);
/* Wakes those who wait for a request to end. */
void posix_aio_wake_locked(void);
void posix_aio_wait_child(void);

/* ---- work.c ---- */

/* Makes sure that there is a worker. False: no thread could be started. */
bool posix_aio_work_ready(void);
/* Queues a request, after that. */
void posix_aio_work_add_locked(struct posix_aio_request *request);
/* Takes a QUEUED request out of the queue. */
void posix_aio_work_remove_locked(struct posix_aio_request *request);
void posix_aio_work_child(void);

/* In the child of fork(): it has none of the parent's requests. */
void posix_aio_fork_child(void);

#endif
