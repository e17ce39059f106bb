/* POSIX AIO: the wrappers. posix_aio.h says how it works. */
#include "preload/posix_aio/posix_aio.h"
#include "file/table.h"

#include <limits.h>

/* The part of aio_lio_opcode that glibc looks at: LIO_READ and so on. */
enum { OPERATION_MASK = 127 };

/* ---- submitting ---- */

/* FILE_KERNEL: it is glibc's; else what aio_read() returns. */
PRELOAD_SLOW static int managed(struct aiocb *control, enum async_operation operation)
{
    struct async_request *submit;
    struct file_open *open = preload_enter(control->aio_fildes);
    if (!open)
        return FILE_KERNEL;
    int result = -EAGAIN;
    if (posix_aio_prepare())
        result = posix_aio_start(control, operation, open, NULL, &submit);
    else
        file_put(open);
    if (result == 0 && submit)
        async_submit(posix_aio_lane, &submit, 1);
    sys_critical_leave();
    return (int)preload_result(result);
}

PRELOAD_EXPORT int aio_read(struct aiocb *control)
{
    if (preload_managed(control->aio_fildes))
        PRELOAD_RETURN_IF_SERVED(managed(control, ASYNC_READ));
    return PRELOAD_REAL(aio_read)(control);
}

PRELOAD_EXPORT int aio_write(struct aiocb *control)
{
    if (preload_managed(control->aio_fildes))
        PRELOAD_RETURN_IF_SERVED(managed(control, ASYNC_WRITE));
    return PRELOAD_REAL(aio_write)(control);
}

/* It takes any open descriptor: as in glibc, but not in POSIX. */
PRELOAD_EXPORT int aio_fsync(int operation, struct aiocb *control)
{
    if (operation == O_SYNC || operation == O_DSYNC) {
        if (preload_managed(control->aio_fildes))
            PRELOAD_RETURN_IF_SERVED(managed(control, ASYNC_SYNC));
        if (preload_sync_others(control->aio_fildes) < 0) /* glibc's threads do the kernel's part */
            return -1;
    }
    return PRELOAD_REAL(aio_fsync)(operation, control);
}

/* ---- asking and waiting ---- */

static bool in_use(void)
{
    return PRELOAD_UNLIKELY(atomic_load_explicit(&posix_aio_used, memory_order_relaxed)) &&
           preload_active();
}

PRELOAD_EXPORT int aio_error(const struct aiocb *control)
{
    struct posix_aio_request *request = in_use() ? posix_aio_find(control) : NULL;
    if (request) {
        sys_critical_enter();
        posix_aio_look(request, control);
        sys_critical_leave();
        return posix_aio_error_of(control);
    }
    int error = PRELOAD_REAL(aio_error)(control);
    atomic_thread_fence(memory_order_acquire);
    return error;
}

/* What a list has in flight. */
struct inventory {
    bool ended; /* one request of it is not in flight */
    unsigned ours, theirs;
};

/* `theirs`: filled with a copy of the list that has glibc's requests only. */
static struct inventory take_inventory(const struct aiocb *const *list, int count,
                                       const struct aiocb **theirs)
{
    struct inventory inventory = {0};
    sys_critical_enter();
    pthread_mutex_lock(&posix_aio_lock); /* so that no request of ours is just about to end */
    for (int i = 0; i < count; i++) {
        theirs[i] = NULL;
        if (!list[i])
            continue;
        if (posix_aio_error_of(list[i]) != EINPROGRESS) {
            inventory.ended = true;
        } else if (posix_aio_find(list[i])) {
            inventory.ours++;
        } else {
            inventory.theirs++;
            theirs[i] = list[i];
        }
    }
    pthread_mutex_unlock(&posix_aio_lock);
    sys_critical_leave();
    return inventory;
}

/* The list is the application's; as in glibc, its copy is on the stack. */
PRELOAD_SLOW static int suspend(const struct aiocb *const *list, int count,
                                const struct timespec *timeout)
{
    const struct aiocb *theirs[count + 1];
    pthread_testcancel();
    struct inventory inventory = take_inventory(list, count, theirs);
    if (inventory.ended)
        return 0;
    if (inventory.ours == 0)
        return PRELOAD_REAL(aio_suspend)(list, count, timeout);
    struct posix_aio_wait wait = {.list = list, .count = count};
    if (timeout)
        wait.deadline_ns = sys_deadline(sys_nanoseconds(timeout->tv_sec, timeout->tv_nsec));
    int result = inventory.theirs == 0 ? posix_aio_wait(&wait) : posix_aio_wait_both(&wait, theirs);
    return (int)preload_result(result);
}

PRELOAD_EXPORT int aio_suspend(const struct aiocb *const list[], int count,
                               const struct timespec *timeout)
{
    if (count > 0 && in_use())
        return suspend(list, count, timeout);
    return PRELOAD_REAL(aio_suspend)(list, count, timeout);
}

/* ---- aio_cancel() ---- */

PRELOAD_EXPORT int aio_cancel(int fd, struct aiocb *control)
{
    if (!in_use())
        return PRELOAD_REAL(aio_cancel)(fd, control);
    if (control && !posix_aio_find(control))
        return PRELOAD_REAL(aio_cancel)(fd, control);
    /* Checks the descriptor as well, and covers what was submitted after a demotion. */
    int theirs = control ? AIO_ALLDONE : PRELOAD_REAL(aio_cancel)(fd, NULL);
    if (theirs < 0)
        return theirs;
    if (control && sys_fcntl(fd, F_GETFD, 0) < 0)
        return preload_fail(EBADF);
    if (control && control->aio_fildes != fd)
        return preload_fail(EINVAL);
    sys_critical_enter();
    int ours = control ? posix_aio_cancel(control) : posix_aio_cancel_all(fd);
    sys_critical_leave();
    if (ours == AIO_NOTCANCELED || theirs == AIO_NOTCANCELED)
        return AIO_NOTCANCELED;
    return ours == AIO_CANCELED || theirs == AIO_CANCELED ? AIO_CANCELED : AIO_ALLDONE;
}

/* ---- lio_listio() ---- */

enum { BATCH = 64 };

struct listing {
    struct posix_aio_request *group; /* if the end of the list is announced; or NULL */
    struct aiocb **theirs;           /* the list without ours */
    unsigned theirs_count;
    int error; /* of requests that could not be queued, or 0 */
    unsigned count;
    struct async_request *batch[BATCH];
};

static bool is_transfer(const struct aiocb *control)
{
    int operation = control->aio_lio_opcode & OPERATION_MASK;
    return operation == LIO_READ || operation == LIO_WRITE;
}

static bool list_has_ours(struct aiocb *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] && is_transfer(list[i]) && preload_managed(list[i]->aio_fildes))
            return true;
    return false;
}

static void flush(struct listing *listing)
{
    if (listing->count > 0)
        async_submit(posix_aio_lane, listing->batch, listing->count);
    listing->count = 0;
}

/* False: it is glibc's. */
static bool list_one(struct listing *listing, struct aiocb *control)
{
    struct file_open *open = is_transfer(control) ? file_get(control->aio_fildes) : NULL;
    if (!open)
        return false;
    bool read = (control->aio_lio_opcode & OPERATION_MASK) == LIO_READ;
    struct async_request *submit;
    int result =
        posix_aio_start(control, read ? ASYNC_READ : ASYNC_WRITE, open, listing->group, &submit);
    if (result != 0)
        listing->error = -result;
    if (submit)
        listing->batch[listing->count++] = submit;
    if (listing->count == BATCH)
        flush(listing);
    return true;
}

/* In a critical section. */
static void list_ours(struct listing *listing, struct aiocb *const *list, int count)
{
    for (int i = 0; i < count; i++) {
        listing->theirs[i] = NULL;
        if (list[i] && !list_one(listing, list[i])) {
            listing->theirs[i] = list[i];
            listing->theirs_count++;
        }
    }
    flush(listing);
}

/* Runs in a thread that glibc starts when its part of the list has ended. */
static void theirs_ended(union sigval value)
{
    sys_critical_enter();
    posix_aio_group_leave(value.sival_ptr);
    sys_critical_leave();
}

/* LIO_NOWAIT: announces the end when both parts have ended. */
static int list_and_go(struct listing *listing, int count)
{
    struct sigevent ended = {.sigev_notify = SIGEV_THREAD,
                             .sigev_notify_function = theirs_ended,
                             .sigev_value.sival_ptr = listing->group};
    int result = 0;
    if (listing->theirs_count > 0) {
        if (listing->group)
            posix_aio_group_add(listing->group);
        result = PRELOAD_REAL(lio_listio)(LIO_NOWAIT, listing->theirs, count,
                                          listing->group ? &ended : NULL);
    }
    int saved = errno;
    sys_critical_enter();
    if (listing->group)
        posix_aio_group_leave(listing->group);
    sys_critical_leave();
    errno = saved;
    return result == 0 && listing->error ? preload_fail(listing->error) : result;
}

static bool any_failed(struct aiocb *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] && posix_aio_error_of(list[i]) != 0)
            return true;
    return false;
}

/* LIO_WAIT waits for all requests, so it may wait for one part after the other. */
static int list_and_wait(struct listing *listing, struct aiocb *const *list, int count)
{
    int result = 0;
    if (listing->theirs_count > 0) {
        sys_critical_enter();
        async_lane_attend(posix_aio_lane);
        sys_critical_leave();
        if (PRELOAD_REAL(lio_listio)(LIO_WAIT, listing->theirs, count, NULL) != 0)
            result = -errno;
    }
    if (result != -EINTR) {
        struct aiocb **ours = listing->theirs;
        for (int i = 0; i < count; i++)
            ours[i] = ours[i] ? NULL : list[i];
        struct posix_aio_wait wait = {
            .list = (const struct aiocb *const *)ours, .count = count, .all = true};
        int waited = posix_aio_wait(&wait);
        if (waited != 0)
            result = waited;
        else if (listing->error && result == 0)
            result = -listing->error;
        else if (!listing->error && any_failed(ours, count))
            result = -EIO;
    }
    return (int)preload_result(result);
}

PRELOAD_SLOW static int list_both(int mode, struct aiocb *const *list, int count,
                                  const struct sigevent *event)
{
    struct aiocb *theirs[count];
    struct listing listing = {.theirs = theirs};
    bool told = mode == LIO_NOWAIT && event && posix_aio_is_told(event);
    sys_critical_enter();
    bool ready = posix_aio_prepare();
    if (ready && told)
        ready = (listing.group = posix_aio_group_get(event)) != NULL;
    if (ready)
        list_ours(&listing, list, count);
    sys_critical_leave();
    if (!ready)
        return preload_fail(EAGAIN);
    return mode == LIO_WAIT ? list_and_wait(&listing, list, count) : list_and_go(&listing, count);
}

PRELOAD_EXPORT int lio_listio(int mode, struct aiocb *const *list, int count,
                              struct sigevent *event)
{
    if ((mode == LIO_WAIT || mode == LIO_NOWAIT) && count > 0 && preload_active() &&
        list_has_ours(list, count))
        return list_both(mode, list, count, event);
    return PRELOAD_REAL(lio_listio)(mode, list, count, event);
}
