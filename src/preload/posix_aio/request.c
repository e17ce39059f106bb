/* POSIX AIO: a request from its start to its notification, and the pool. */
#include "file/flags.h"
#include "file/table.h"
#include "preload/posix_aio/posix_aio.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "sys/log.h"

enum { REQUESTS = 16384 };

/* A larger transfer takes the engine several calls, and would keep the submitter that long. A write
 * that appends would, too. */
enum { LARGE = 1024 * 1024 };

pthread_mutex_t posix_aio_lock = PTHREAD_MUTEX_INITIALIZER;
atomic_bool posix_aio_used;
struct async_lane *posix_aio_lane;
_Atomic unsigned posix_aio_drives;

static struct preload_pool pool = {.size = sizeof(struct posix_aio_request), .most = REQUESTS};
static struct posix_aio_list in_flight = TAILQ_HEAD_INITIALIZER(in_flight);
static unsigned behind_count; /* requests that are BEHIND */

static void lock(void)
{
    pthread_mutex_lock(&posix_aio_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&posix_aio_lock);
}

/* ---- the pool ---- */

bool posix_aio_prepare(void)
{
    if (PRELOAD_LIKELY(atomic_load(&posix_aio_used)))
        return true;
    lock();
    if (!posix_aio_lane)
        posix_aio_lane = async_lane_new();
    if (posix_aio_lane)
        atomic_store(&posix_aio_used, true);
    unlock();
    return atomic_load(&posix_aio_used);
}

/* NULL: none is left (EAGAIN). */
static struct posix_aio_request *request_get(void)
{
    lock();
    struct preload_request *request = preload_pool_take(&pool);
    unlock();
    return (struct posix_aio_request *)request;
}

static void request_free(struct posix_aio_request *request)
{
    lock();
    preload_pool_give(&pool, &request->base);
    unlock();
}

struct posix_aio_request *posix_aio_find(const struct aiocb *control)
{
    uintptr_t number = (uintptr_t)__atomic_load_n(&control->__next_prio, __ATOMIC_RELAXED);
    struct posix_aio_request *request = (struct posix_aio_request *)preload_pool_at(&pool, number);
    bool ours = request && atomic_load_explicit(&request->control, memory_order_acquire) == control;
    return ours ? request : NULL;
}

/* ---- notification ---- */

bool posix_aio_is_told(const struct sigevent *event)
{
    return event->sigev_notify == SIGEV_SIGNAL || event->sigev_notify == SIGEV_THREAD;
}

static void send_signal(const struct sigevent *event)
{
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    info.si_signo = event->sigev_signo;
    info.si_code = SI_ASYNCIO;
    info.si_pid = sys_getpid();
    info.si_uid = (uid_t)sys_call0(SYS_getuid);
    info.si_value = event->sigev_value;
    sys_call3(SYS_rt_sigqueueinfo, info.si_pid, info.si_signo, &info);
}

/* It begins outside of critical sections, with the signal mask of the thread that ended the
 * request. It takes all signals, as glibc's does. */
static void *notification_thread(void *argument)
{
    struct posix_aio_request *request = argument;
    unsigned long none = 0;
    sys_critical_enter();
    struct sigevent event = request->event;
    request_free(request);
    sys_critical_leave();
    sys_sigprocmask(SIG_SETMASK, &none, NULL);
    event.sigev_notify_function(event.sigev_value);
    return NULL;
}

static void start_thread(struct posix_aio_request *request)
{
    pthread_t thread;
    pthread_attr_t detached, *attributes = request->event.sigev_notify_attributes;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int error =
        pthread_create(&thread, attributes ? attributes : &detached, notification_thread, request);
    pthread_attr_destroy(&detached);
    if (error != 0) {
        log_error("no thread could be started to tell that asynchronous I/O has ended: %s",
                  strerrordesc_np(error));
        request_free(request);
    }
}

/* Announces the end of a request or list, and frees it. */
static void tell(struct posix_aio_request *request)
{
    if (request->event.sigev_notify == SIGEV_THREAD) {
        start_thread(request);
        return;
    }
    send_signal(&request->event);
    request_free(request);
}

/* ---- lists ---- */

struct posix_aio_request *posix_aio_group_get(const struct sigevent *event)
{
    struct posix_aio_request *group = request_get();
    if (group) {
        group->event = *event;
        atomic_store(&group->remaining, 1);
    }
    return group;
}

void posix_aio_group_add(struct posix_aio_request *group)
{
    atomic_fetch_add(&group->remaining, 1);
}

void posix_aio_group_leave(struct posix_aio_request *group)
{
    if (atomic_fetch_sub(&group->remaining, 1) == 1)
        tell(group);
}

/* ---- the end ---- */

static bool same_file(const struct posix_aio_request *a, const struct posix_aio_request *b)
{
    return a->base.file.fd == b->base.file.fd || a->open == b->open;
}

/* A write ended: requests that waited only for it go on. */
static void release_behind(struct posix_aio_request *write)
{
    struct posix_aio_request *at = write;
    while (behind_count > 0 && (at = TAILQ_NEXT(at, place)) != NULL) {
        if (atomic_load(&at->state) != POSIX_AIO_BEHIND || !same_file(at, write) ||
            (at->appends && !write->appends) || --at->behind > 0)
            continue;
        behind_count--;
        posix_aio_work_add_locked(at);
    }
}

static void show_result(struct aiocb *control, ssize_t result)
{
    control->__return_value = result < 0 ? -1 : result;
    __atomic_store_n(&control->__error_code, result < 0 ? (int)-result : 0, __ATOMIC_RELEASE);
}

void posix_aio_end(struct posix_aio_request *request, ssize_t result)
{
    bool told = posix_aio_is_told(&request->event);
    struct posix_aio_request *group = request->group;
    lock();
    if (request->base.file.operation == ASYNC_WRITE)
        release_behind(request);
    TAILQ_REMOVE(&in_flight, request, place);
    struct aiocb *control = atomic_load(&request->control);
    atomic_store(&request->control, NULL);
    show_result(control, result); /* from here on the application may use the aiocb again */
    posix_aio_wake_locked();
    if (!told)
        preload_pool_give(&pool, &request->base);
    unlock();
    if (told)
        tell(request);
    if (group)
        posix_aio_group_leave(group);
}

/* ---- the start ---- */

/* Runs in any thread. That may be the reader of a channel: it must not wait. */
static void one_done(struct async_request *file)
{
    struct posix_aio_request *request = (struct posix_aio_request *)file;
    if (file->result != FILE_KERNEL) {
        posix_aio_end(request, file->result);
    } else if (!posix_aio_work_ready()) { /* no worker: this thread must do it */
        posix_aio_end(request, preload_request_by_kernel(&request->base));
    } else {
        lock();
        request->kernel = true;
        posix_aio_work_add_locked(request);
        unlock();
    }
}

static void lane_done(struct async_request *first)
{
    while (first) {
        struct async_request *next = first->next;
        one_done(first);
        first = next;
    }
}

static unsigned count_writes_before(const struct posix_aio_request *request)
{
    unsigned count = 0;
    struct posix_aio_request *at;
    for (at = TAILQ_FIRST(&in_flight); at; at = TAILQ_NEXT(at, place))
        count += at->base.file.operation == ASYNC_WRITE && same_file(at, request) &&
                 (at->appends || !request->appends);
    return count;
}

/* 0, or -errno: the request is invalid. */
static int fill(struct posix_aio_request *request, struct aiocb *control,
                enum async_operation operation, struct file_open *open)
{
    struct async_request *file = &request->base.file;
    preload_request_file(&request->base, open, control->aio_fildes);
    file->operation = operation;
    file->offset = control->aio_offset;
    file->flags = 0;
    file->done = lane_done;
    request->event = control->aio_sigevent;
    request->open = open;
    request->behind = 0;
    request->kernel = false;
    request->appends = operation == ASYNC_WRITE && file_appends(open, control->aio_fildes, 0);
    atomic_store(&request->asked, atomic_load(&posix_aio_drives));
    if (operation == ASYNC_SYNC)
        return 0;
    if (control->aio_nbytes > SSIZE_MAX)
        return -EFAULT;
    int result =
        preload_request_buffer(&request->base, (uintptr_t)control->aio_buf, control->aio_nbytes);
    return result == 0 && control->aio_offset < 0 ? -EINVAL : result;
}

/* Puts the request in flight: with a worker (`aside`), behind writes, or for the lane. */
static enum posix_aio_state launch(struct posix_aio_request *request, struct aiocb *control,
                                   bool aside)
{
    enum posix_aio_state state = aside ? POSIX_AIO_QUEUED : POSIX_AIO_ON_LANE;
    lock();
    if (request->base.file.operation == ASYNC_SYNC || (aside && request->appends))
        request->behind = count_writes_before(request);
    TAILQ_INSERT_TAIL(&in_flight, request, place);
    control->__return_value = 0;
    __atomic_store_n(&control->__error_code, EINPROGRESS, __ATOMIC_RELAXED);
    __atomic_store_n(&control->__next_prio, (struct aiocb *)(uintptr_t)request->base.number,
                     __ATOMIC_RELAXED);
    atomic_store(&request->control, control);
    if (request->behind > 0) {
        state = POSIX_AIO_BEHIND;
        behind_count++;
    }
    atomic_store(&request->state, state);
    if (state == POSIX_AIO_QUEUED)
        posix_aio_work_add_locked(request);
    unlock();
    return state;
}

int posix_aio_start(struct aiocb *control, enum async_operation operation, struct file_open *open,
                    struct posix_aio_request *group, struct async_request **submit)
{
    bool sync = operation == ASYNC_SYNC; /* an fsync has no priority */
    bool valid = sync || (control->aio_reqprio >= 0 && control->aio_reqprio <= AIO_PRIO_DELTA_MAX);
    struct posix_aio_request *request = NULL;
    *submit = NULL;
    if (valid && (!sync || posix_aio_work_ready()))
        request = request_get();
    if (!request) {
        int error = valid ? -EAGAIN : -EINVAL;
        file_put(open);
        show_result(control, error);
        return error;
    }
    int invalid = fill(request, control, operation, open);
    bool large = !sync && !invalid && (control->aio_nbytes > LARGE || request->appends) &&
                 posix_aio_work_ready();
    /* The application need not ask for a request that announces its end. */
    bool told = group || posix_aio_is_told(&request->event);
    request->group = group;
    if (group)
        posix_aio_group_add(group);
    enum posix_aio_state state = launch(request, control, sync || large);
    if (invalid) {
        file_put(open);
        posix_aio_end(request, invalid);
        return 0;
    }
    if (state == POSIX_AIO_ON_LANE)
        *submit = &request->base.file;
    if (state == POSIX_AIO_BEHIND || (state == POSIX_AIO_ON_LANE && told))
        async_lane_attend(posix_aio_lane);
    return 0;
}

/* ---- aio_cancel() ---- */

/* Takes a request back that awaits no reply. Under the lock. True: the caller must end it. */
static bool take_back(struct posix_aio_request *request)
{
    int state = atomic_load(&request->state);
    if (state == POSIX_AIO_QUEUED)
        posix_aio_work_remove_locked(request);
    else if (state == POSIX_AIO_BEHIND)
        behind_count--;
    else
        return false;
    atomic_store(&request->state, POSIX_AIO_RUNNING); /* in this thread */
    return true;
}

static void end_canceled(struct posix_aio_request *request)
{
    if (!request->kernel)
        file_put(request->open);
    posix_aio_end(request, -ECANCELED);
}

int posix_aio_cancel(const struct aiocb *control)
{
    lock();
    struct posix_aio_request *request = posix_aio_find(control);
    bool taken = request && take_back(request);
    unlock();
    if (taken)
        end_canceled(request);
    return !request ? AIO_ALLDONE : taken ? AIO_CANCELED : AIO_NOTCANCELED;
}

int posix_aio_cancel_all(int fd)
{
    int result = AIO_ALLDONE;
    struct posix_aio_request *taken;
    do {
        taken = NULL;
        lock();
        struct posix_aio_request *at;
        for (at = TAILQ_FIRST(&in_flight); at; at = TAILQ_NEXT(at, place)) {
            if (at->base.file.fd != fd)
                continue;
            if (take_back(at)) {
                taken = at;
                break;
            }
            result = AIO_NOTCANCELED;
        }
        unlock();
        if (taken)
            end_canceled(taken);
        if (taken && result == AIO_ALLDONE)
            result = AIO_CANCELED;
    } while (taken);
    return result;
}

/* ---- fork ---- */

void posix_aio_fork_child(void)
{
    pthread_mutex_init(&posix_aio_lock, NULL);
    posix_aio_wait_child();
    posix_aio_work_child();
    TAILQ_INIT(&in_flight);
    behind_count = 0;
    pool.free = NULL;
    for (unsigned i = 0; i < atomic_load(&pool.made); i++) {
        struct preload_request *request = preload_pool_at(&pool, i);
        atomic_store(&((struct posix_aio_request *)request)->control, NULL);
        preload_pool_give(&pool, request);
    }
    atomic_store(&posix_aio_used, false);
}
