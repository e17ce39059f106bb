/* POSIX AIO: a request from its start to its notification, and the pool. */
#include "preload/posix_aio/posix_aio.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "sys/log.h"

enum { CELLS = 16384 };

/* Above this src/file takes several calls, for which it would keep the submitter, as for a write
 * that appends. */
enum { LARGE = 1024 * 1024 };

pthread_mutex_t posix_aio_lock = PTHREAD_MUTEX_INITIALIZER;
atomic_bool posix_aio_used;
struct file_lane *posix_aio_lane;
_Atomic unsigned posix_aio_drives;

static struct preload_pool pool = {.size = sizeof(struct posix_aio_cell), .most = CELLS};
static struct posix_aio_cell *oldest, *newest; /* requests in flight */
static uint64_t sequence;
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
        posix_aio_lane = file_lane_new();
    if (posix_aio_lane)
        atomic_store(&posix_aio_used, true);
    unlock();
    return atomic_load(&posix_aio_used);
}

struct posix_aio_cell *posix_aio_cell_get(void)
{
    lock();
    struct preload_request *request = preload_pool_take(&pool);
    unlock();
    return (struct posix_aio_cell *)request;
}

void posix_aio_cell_free_locked(struct posix_aio_cell *cell)
{
    preload_pool_give(&pool, &cell->base);
}

void posix_aio_cell_free(struct posix_aio_cell *cell)
{
    lock();
    posix_aio_cell_free_locked(cell);
    unlock();
}

struct posix_aio_cell *posix_aio_find(const struct aiocb *control)
{
    uintptr_t number = (uintptr_t)__atomic_load_n(&control->__next_prio, __ATOMIC_RELAXED);
    struct posix_aio_cell *cell = (struct posix_aio_cell *)preload_pool_at(&pool, number);
    bool ours = cell && atomic_load_explicit(&cell->control, memory_order_acquire) == control;
    return ours ? cell : NULL;
}

/* ---- notification ---- */

static bool is_told(const struct sigevent *event)
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

/* Begins outside of critical sections, with the mask of whoever ended the request. As glibc's it
 * takes all signals. */
static void *notification_thread(void *argument)
{
    struct posix_aio_cell *cell = argument;
    unsigned long none = 0;
    sys_critical_enter();
    struct posix_aio_start start = cell->start;
    posix_aio_cell_free(cell);
    sys_critical_leave();
    sys_sigprocmask(SIG_SETMASK, &none, NULL);
    start.function(start.value);
    return NULL;
}

static void start_thread(struct posix_aio_cell *cell, const struct sigevent *event)
{
    pthread_t thread;
    pthread_attr_t detached, *attributes = event->sigev_notify_attributes;
    cell->start.function = event->sigev_notify_function;
    cell->start.value = event->sigev_value;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int error =
        pthread_create(&thread, attributes ? attributes : &detached, notification_thread, cell);
    pthread_attr_destroy(&detached);
    if (error != 0) {
        log_error("no thread could be started to tell that asynchronous I/O has ended: %s",
                  strerrordesc_np(error));
        posix_aio_cell_free(cell);
    }
}

/* Takes over the cell, whose contents are `event` at most. */
static void tell(struct posix_aio_cell *cell, struct sigevent event)
{
    if (event.sigev_notify == SIGEV_THREAD) {
        start_thread(cell, &event);
        return;
    }
    if (event.sigev_notify == SIGEV_SIGNAL)
        send_signal(&event);
    posix_aio_cell_free(cell);
}

/* ---- groups ---- */

struct posix_aio_cell *posix_aio_group_get(const struct sigevent *event, bool waited)
{
    struct posix_aio_cell *cell = posix_aio_cell_get();
    if (!cell)
        return NULL;
    memset(&cell->group, 0, sizeof(cell->group));
    cell->group.remaining = 1;
    cell->group.waited = waited;
    cell->group.event.sigev_notify = SIGEV_NONE;
    if (!waited)
        cell->group.event = *event;
    return cell;
}

void posix_aio_group_add(struct posix_aio_cell *group)
{
    atomic_fetch_add(&group->group.remaining, 1);
}

/* True: call tell() for the group, without the lock. */
static bool group_leave_locked(struct posix_aio_cell *group)
{
    return atomic_fetch_sub(&group->group.remaining, 1) == 1 && !group->group.waited;
}

void posix_aio_group_leave(struct posix_aio_cell *group)
{
    lock();
    bool ended = group_leave_locked(group);
    posix_aio_wake_locked();
    unlock();
    if (ended)
        tell(group, group->group.event);
}

void posix_aio_group_forget(struct posix_aio_cell *group)
{
    lock();
    group->group.waited = false;
    bool ended = atomic_load(&group->group.remaining) == 0;
    unlock();
    if (ended)
        posix_aio_cell_free(group);
}

/* ---- the end ---- */

static bool same_file(const struct posix_aio_cell *a, const struct posix_aio_cell *b)
{
    return a->base.file.fd == b->base.file.fd || a->request.open == b->request.open;
}

/* A write ended: those that were only waiting for it go on. True: more work. */
static bool release_behind(const struct posix_aio_cell *write)
{
    bool more = false;
    for (struct posix_aio_cell *at = oldest; at && behind_count > 0; at = at->request.next) {
        struct posix_aio_request *sync = &at->request;
        if (atomic_load(&sync->state) != POSIX_AIO_BEHIND ||
            sync->sequence < write->request.sequence || !same_file(at, write) || --sync->behind > 0)
            continue;
        behind_count--;
        more |= posix_aio_work_add_locked(at);
    }
    return more;
}

static void unlink_request(struct posix_aio_cell *cell)
{
    struct posix_aio_request *request = &cell->request;
    if (request->previous)
        request->previous->request.next = request->next;
    else
        oldest = request->next;
    if (request->next)
        request->next->request.previous = request->previous;
    else
        newest = request->previous;
}

static void show_result(struct aiocb *control, ssize_t result)
{
    control->__return_value = result < 0 ? -1 : result;
    __atomic_store_n(&control->__error_code, result < 0 ? (int)-result : 0, __ATOMIC_RELEASE);
}

void posix_aio_refuse(struct aiocb *control, int error)
{
    show_result(control, -error);
}

void posix_aio_end(struct posix_aio_cell *cell, ssize_t result)
{
    struct posix_aio_request *request = &cell->request;
    bool more = false, group_ended = false;
    lock();
    struct sigevent event = request->event;
    struct posix_aio_cell *group = request->group;
    unlink_request(cell);
    if (cell->base.file.operation == FILE_WRITE && behind_count > 0)
        more = release_behind(cell);
    struct aiocb *control = atomic_load(&cell->control);
    atomic_store(&cell->control, NULL);
    show_result(control, result); /* from here on the aiocb is the application's */
    if (group) {
        if (result < 0)
            atomic_store(&group->group.failed, true);
        group_ended = group_leave_locked(group);
    }
    posix_aio_wake_locked();
    if (!is_told(&event))
        posix_aio_cell_free_locked(cell);
    unlock();
    if (more)
        posix_aio_work_more();
    if (is_told(&event))
        tell(cell, event);
    if (group_ended)
        tell(group, group->group.event);
}

/* ---- the start ---- */

/* In any thread, which may be the reader of a channel: must not wait. */
static void one_done(struct file_request *file)
{
    struct posix_aio_cell *cell = (struct posix_aio_cell *)file;
    if (file->result != FILE_KERNEL) {
        posix_aio_end(cell, file->result);
        return;
    }
    lock();
    cell->request.kernel = true;
    if (cell->request.group)
        atomic_fetch_add(&cell->request.group->group.off_lane, 1);
    bool more = posix_aio_work_add_locked(cell);
    posix_aio_wake_locked();
    unlock();
    if (more)
        posix_aio_work_more();
}

static void lane_done(struct file_request *first)
{
    while (first) {
        struct file_request *next = first->next;
        one_done(first);
        first = next;
    }
}

static unsigned count_writes_before(const struct posix_aio_cell *sync)
{
    unsigned count = 0;
    for (struct posix_aio_cell *at = oldest; at; at = at->request.next)
        count += at->base.file.operation == FILE_WRITE && same_file(at, sync);
    return count;
}

/* 0, or what is wrong with it. */
static int fill(struct posix_aio_cell *cell, struct aiocb *control, enum file_operation operation,
                struct file_open *open)
{
    struct posix_aio_request *request = &cell->request;
    struct file_request *file = &cell->base.file;
    preload_request_file(&cell->base, open, control->aio_fildes);
    file->operation = operation;
    file->offset = control->aio_offset;
    file->flags = 0;
    file->done = lane_done;
    request->event = control->aio_sigevent;
    request->open = open;
    request->behind = 0;
    request->kernel = false;
    atomic_store(&request->asked, atomic_load(&posix_aio_drives));
    if (operation == FILE_SYNC)
        return 0;
    if (control->aio_nbytes > SSIZE_MAX)
        return -EFAULT;
    int result =
        preload_request_buffer(&cell->base, (uintptr_t)control->aio_buf, control->aio_nbytes);
    return result == 0 && control->aio_offset < 0 ? -EINVAL : result;
}

static void link_request(struct posix_aio_cell *cell)
{
    struct posix_aio_request *request = &cell->request;
    request->sequence = ++sequence;
    request->next = NULL;
    request->previous = newest;
    if (newest)
        newest->request.next = cell;
    else
        oldest = cell;
    newest = cell;
}

bool posix_aio_start(struct posix_aio_cell *cell, struct aiocb *control,
                     enum file_operation operation, struct file_open *open,
                     struct posix_aio_cell *group)
{
    struct posix_aio_request *request = &cell->request;
    bool sync = operation == FILE_SYNC, more = false;
    int invalid = fill(cell, control, operation, open);
    bool large = !sync && !invalid &&
                 (control->aio_nbytes > LARGE ||
                  (operation == FILE_WRITE && file_appends(open, control->aio_fildes, 0))) &&
                 posix_aio_work_ready();
    bool told = is_told(&request->event) || (group && is_told(&group->group.event));
    request->group = group;
    if (group)
        posix_aio_group_add(group);

    lock();
    if (sync)
        request->behind = count_writes_before(cell);
    link_request(cell);
    control->__return_value = 0;
    __atomic_store_n(&control->__error_code, EINPROGRESS, __ATOMIC_RELAXED);
    __atomic_store_n(&control->__next_prio, (struct aiocb *)(uintptr_t)cell->base.number,
                     __ATOMIC_RELAXED);
    atomic_store(&cell->control, control);
    if ((sync || large) && group)
        atomic_fetch_add(&group->group.off_lane, 1);
    if (sync && request->behind > 0) {
        atomic_store(&request->state, POSIX_AIO_BEHIND);
        behind_count++;
    } else if (sync || large) {
        more = posix_aio_work_add_locked(cell);
    } else {
        atomic_store(&request->state, POSIX_AIO_ON_LANE);
    }
    bool behind = sync && request->behind > 0;
    unlock();

    if (more)
        posix_aio_work_more();
    if (invalid) {
        file_put(open);
        posix_aio_end(cell, invalid);
        return false;
    }
    /* The application may never ask for what it is told of. */
    bool on_lane = !sync && !large;
    if ((on_lane && told) || behind)
        file_lane_attend(posix_aio_lane);
    return on_lane;
}

/* ---- aio_cancel() ---- */

/* What no reply is awaited for. Under the lock; true: the caller ends it. */
static bool take_back(struct posix_aio_cell *cell)
{
    int state = atomic_load(&cell->request.state);
    if (state == POSIX_AIO_QUEUED)
        posix_aio_work_remove_locked(cell);
    else if (state == POSIX_AIO_BEHIND)
        behind_count--;
    else
        return false;
    atomic_store(&cell->request.state, POSIX_AIO_RUNNING); /* in this thread */
    return true;
}

static void end_canceled(struct posix_aio_cell *cell)
{
    if (!cell->request.kernel)
        file_put(cell->request.open);
    posix_aio_end(cell, -ECANCELED);
}

int posix_aio_cancel(const struct aiocb *control)
{
    lock();
    struct posix_aio_cell *cell = posix_aio_find(control);
    bool taken = cell && take_back(cell);
    unlock();
    if (taken)
        end_canceled(cell);
    return !cell ? AIO_ALLDONE : taken ? AIO_CANCELED : AIO_NOTCANCELED;
}

int posix_aio_cancel_all(int fd)
{
    int result = AIO_ALLDONE;
    struct posix_aio_cell *taken;
    do {
        taken = NULL;
        lock();
        for (struct posix_aio_cell *at = oldest; at && !taken; at = at->request.next) {
            if (at->base.file.fd != fd)
                continue;
            if (take_back(at))
                taken = at;
            else
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
    oldest = newest = NULL;
    behind_count = 0;
    pool.free = NULL;
    for (unsigned i = 0; i < atomic_load(&pool.made); i++) {
        struct posix_aio_cell *cell = (struct posix_aio_cell *)preload_pool_at(&pool, i);
        atomic_store(&cell->control, NULL);
        posix_aio_cell_free_locked(cell);
    }
    atomic_store(&posix_aio_used, false);
}
