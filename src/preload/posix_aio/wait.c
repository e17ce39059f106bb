/* POSIX AIO: waiting for requests of ours, and for those of glibc as well. */
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>

#include "preload/posix_aio/posix_aio.h"

static struct posix_aio_cell *waiters;        /* under posix_aio_lock */
static struct posix_aio_cell *idle_doorbells; /* under posix_aio_lock */

/* ---- what is waited for ---- */

static bool list_over(const struct posix_aio_wait *wait)
{
    for (int i = 0; i < wait->count; i++)
        if (wait->list[i] && posix_aio_error_of(wait->list[i]) != EINPROGRESS)
            return true;
    return false;
}

static bool is_over(const struct posix_aio_wait *wait)
{
    return wait->group ? atomic_load(&wait->group->group.remaining) == 0 : list_over(wait);
}

/* A request of ours that no reply on the lane will end. */
static bool is_off_lane(const struct aiocb *control)
{
    struct posix_aio_cell *cell = posix_aio_find(control);
    return cell && atomic_load(&cell->request.state) != POSIX_AIO_ON_LANE;
}

static bool some_off_lane(const struct posix_aio_wait *wait)
{
    if (wait->group)
        return atomic_load(&wait->group->group.off_lane) > 0;
    for (int i = 0; i < wait->count; i++)
        if (wait->list[i] && is_off_lane(wait->list[i]))
            return true;
    return false;
}

/* Nothing more to drive the lane for. */
static bool driven(void *context)
{
    return is_over(context) || some_off_lane(context);
}

/* ---- driving, when all that is waited for is on a lane that nobody attends ---- */

static bool may_drive(const struct posix_aio_wait *wait)
{
    return !file_lane_is_attended(posix_aio_lane) && !some_off_lane(wait);
}

/* 1: look again. */
static int drive(struct posix_aio_wait *wait)
{
    sys_critical_enter();
    atomic_fetch_add(&posix_aio_drives, 1);
    file_lane_wait(posix_aio_lane, driven, wait, wait->deadline_ns);
    bool interrupted = sys_critical.deferred != 0;
    sys_critical_leave(); /* the handler runs here */
    if (is_over(wait))
        return 0;
    if (interrupted)
        return -EINTR;
    return sys_deadline_passed(wait->deadline_ns) ? -EAGAIN : 1;
}

static bool look_over(void *context)
{
    return posix_aio_error_of(context) != EINPROGRESS;
}

void posix_aio_look(struct posix_aio_cell *cell, const struct aiocb *control)
{
    unsigned drives = atomic_load(&posix_aio_drives);
    if (atomic_exchange(&cell->request.asked, drives) != drives ||
        file_lane_is_attended(posix_aio_lane) || is_off_lane(control))
        return;
    atomic_fetch_add(&posix_aio_drives, 1);
    file_lane_wait(posix_aio_lane, look_over, (void *)control, 1);
}

/* ---- sleeping, while attendants and workers go on ---- */

/* Not on the stack, which a handler may leave with siglongjmp(). */
static struct posix_aio_cell *waiter_enter(struct posix_aio_cell *doorbell)
{
    sys_critical_enter();
    struct posix_aio_cell *cell = posix_aio_cell_get();
    if (cell) {
        memset(&cell->waiter, 0, sizeof(cell->waiter));
        pthread_mutex_lock(&posix_aio_lock);
        cell->waiter.doorbell = doorbell;
        cell->waiter.next = waiters;
        waiters = cell;
        pthread_mutex_unlock(&posix_aio_lock);
    }
    /* From now on, since others drive only until they have what they wait for. */
    file_lane_attend(posix_aio_lane);
    sys_critical_leave();
    return cell;
}

static void waiter_leave(struct posix_aio_cell *cell)
{
    sys_critical_enter();
    pthread_mutex_lock(&posix_aio_lock);
    struct posix_aio_cell **at = &waiters;
    while (*at != cell)
        at = &(*at)->waiter.next;
    *at = cell->waiter.next;
    posix_aio_cell_free_locked(cell);
    pthread_mutex_unlock(&posix_aio_lock);
    sys_critical_leave();
}

static void ring(struct posix_aio_cell *doorbell)
{
    uint64_t one = 1;
    sys_write(doorbell->doorbell.eventfd, &one, sizeof(one));
}

void posix_aio_wake_locked(void)
{
    for (struct posix_aio_cell *at = waiters; at; at = at->waiter.next) {
        struct posix_aio_waiter *waiter = &at->waiter;
        if (waiter->doorbell) {
            if (atomic_fetch_add(&waiter->ends, 1) == 0)
                ring(waiter->doorbell);
        } else {
            atomic_fetch_add(&waiter->ends, 1);
            sys_futex(&waiter->ends, FUTEX_WAKE_PRIVATE, 1, NULL);
        }
    }
}

/* Outside of a critical section, so that handlers interrupt it as they interrupt glibc's. */
static int sleep_until_over(const struct posix_aio_wait *wait, struct posix_aio_cell *waiter)
{
    for (;;) {
        struct timespec left;
        uint32_t ends = atomic_load(&waiter->waiter.ends);
        if (is_over(wait))
            return 0;
        if (sys_deadline_passed(wait->deadline_ns))
            return -EAGAIN;
        struct timespec *limit = sys_time_left(wait->deadline_ns, 0, &left);
        int result = sys_futex(&waiter->waiter.ends, FUTEX_WAIT_PRIVATE, ends, limit);
        if (result == -EINTR)
            return is_over(wait) ? 0 : -EINTR;
    }
}

int posix_aio_wait(const struct posix_aio_wait *wait)
{
    struct posix_aio_wait copy = *wait;
    int result = 1;
    while (result == 1 && !is_over(wait) && may_drive(wait))
        result = drive(&copy);
    if (result != 1)
        return result;
    if (is_over(wait))
        return 0;
    struct posix_aio_cell *waiter = waiter_enter(NULL);
    if (!waiter)
        return -EAGAIN;
    result = sleep_until_over(wait, waiter);
    waiter_leave(waiter);
    return result;
}

/* ---- both worlds ---- */

static struct posix_aio_cell *doorbell_make(void)
{
    struct posix_aio_cell *cell = posix_aio_cell_get();
    if (!cell)
        return NULL;
    int fd = (int)sys_call2(SYS_eventfd2, 0, EFD_CLOEXEC);
    if (fd < 0) {
        posix_aio_cell_free(cell);
        return NULL;
    }
    cell->doorbell.eventfd = sys_fd_protect(fd);
    return cell;
}

static void doorbell_put(struct posix_aio_cell *cell)
{
    sys_critical_enter();
    pthread_mutex_lock(&posix_aio_lock);
    cell->doorbell.next = idle_doorbells;
    idle_doorbells = cell;
    pthread_mutex_unlock(&posix_aio_lock);
    sys_critical_leave();
}

/* NULL: no more descriptors or threads. */
static struct posix_aio_cell *doorbell_get(void)
{
    sys_critical_enter();
    pthread_mutex_lock(&posix_aio_lock);
    struct posix_aio_cell *cell = idle_doorbells;
    if (cell)
        idle_doorbells = cell->doorbell.next;
    pthread_mutex_unlock(&posix_aio_lock);
    if (!cell)
        cell = doorbell_make();
    sys_critical_leave();
    if (!cell)
        return NULL;
    struct posix_aio_doorbell *doorbell = &cell->doorbell;
    doorbell->control = (struct aiocb){
        .aio_fildes = doorbell->eventfd,
        .aio_buf = &doorbell->value,
        .aio_nbytes = sizeof(doorbell->value),
        .aio_sigevent = {.sigev_notify = SIGEV_NONE},
    };
    if (PRELOAD_REAL(aio_read)(&doorbell->control) == 0)
        return cell;
    doorbell_put(cell);
    return NULL;
}

struct bell_wait {
    struct posix_aio_cell *doorbell, *waiter;
};

/* The waiter goes first, so that the bell rings once only; then glibc's request must end. Also
 * called when the thread is cancelled in glibc's aio_suspend(). */
static void bell_wait_end(void *argument)
{
    struct bell_wait *bell = argument;
    struct posix_aio_cell *cell = bell->doorbell;
    const struct aiocb *control = &cell->doorbell.control;
    int state;
    bool rung = bell->waiter && atomic_load(&bell->waiter->waiter.ends) > 0;
    if (bell->waiter)
        waiter_leave(bell->waiter);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (!rung)
        ring(cell);
    while (PRELOAD_REAL(aio_error)(control) == EINPROGRESS)
        PRELOAD_REAL(aio_suspend)(&control, 1, NULL);
    pthread_setcancelstate(state, &state);
    doorbell_put(cell);
}

/* Until the bell rings, or one of glibc's requests ends. 1: look again. */
static int wait_with_bell(const struct posix_aio_wait *wait, const struct aiocb **theirs)
{
    struct bell_wait bell = {.doorbell = doorbell_get()};
    int result = 1;
    if (!bell.doorbell)
        return -EAGAIN;
    theirs[wait->count] = &bell.doorbell->doorbell.control;
    pthread_cleanup_push(bell_wait_end, &bell);
    struct timespec left;
    bell.waiter = waiter_enter(bell.doorbell);
    struct timespec *limit = sys_time_left(wait->deadline_ns, 0, &left);
    if (!bell.waiter || sys_deadline_passed(wait->deadline_ns))
        result = -EAGAIN;
    else if (!is_over(wait) && PRELOAD_REAL(aio_suspend)(theirs, wait->count + 1, limit) != 0)
        result = -errno;
    pthread_cleanup_pop(1);
    return is_over(wait) ? 0 : result;
}

int posix_aio_wait_both(const struct posix_aio_wait *wait, const struct aiocb **theirs)
{
    int result = 1;
    while (result == 1)
        result = wait_with_bell(wait, theirs);
    return result;
}

/* glibc's requests of the parent are gone, those on doorbells included. */
void posix_aio_wait_child(void)
{
    for (struct posix_aio_cell *at = idle_doorbells; at; at = at->doorbell.next)
        sys_fd_close(at->doorbell.eventfd);
    waiters = NULL;
    idle_doorbells = NULL;
}
