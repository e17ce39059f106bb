/* POSIX AIO: waiting for requests of ours, and for those of glibc as well. */
#include <limits.h>
#include <linux/futex.h>
#include <sys/eventfd.h>

#include "preload/posix_aio/posix_aio.h"
#include "sys/alloc.h"

#define SLICE_NS UINT64_C(100000000)

static _Atomic uint32_t ends;     /* counts ends of requests; a futex */
static _Atomic unsigned sleepers; /* threads on it; also those that were cancelled there, or that a
                                     handler's jump took away */

/*
 * Wakes a thread that waits in glibc's aio_suspend(): a request of glibc that reads an eventfd. It
 * is not on the stack, as a handler may leave the stack by siglongjmp().
 */
struct bell {
    struct bell *next;
    struct aiocb control;
    uint64_t value;
    int eventfd;
    bool rung;
};
static struct bell *bells; /* under posix_aio_lock */

/* ---- what is waited for ---- */

static bool is_over(const struct posix_aio_wait *wait)
{
    for (int i = 0; i < wait->count; i++)
        if (wait->list[i] && (posix_aio_error_of(wait->list[i]) == EINPROGRESS) == wait->all)
            return !wait->all;
    return wait->all;
}

/* True for a request of ours that no reply on the lane will end. */
static bool is_off_lane(const struct aiocb *control)
{
    struct posix_aio_request *request = posix_aio_find(control);
    return request && atomic_load(&request->state) != POSIX_AIO_ON_LANE;
}

static bool some_off_lane(const struct posix_aio_wait *wait)
{
    for (int i = 0; i < wait->count; i++)
        if (wait->list[i] && is_off_lane(wait->list[i]))
            return true;
    return false;
}

/* True if there is nothing more to drive the lane for. */
static bool driven(void *context)
{
    return is_over(context) || some_off_lane(context);
}

/* 1: look again. */
static int outcome(const struct posix_aio_wait *wait, bool interrupted)
{
    if (is_over(wait))
        return 0;
    if (interrupted)
        return -EINTR;
    return sys_deadline_passed(wait->deadline_ns) ? -EAGAIN : 1;
}

/* ---- driving, if nobody attends the lane and all requests are on it ---- */

static bool may_drive(const struct posix_aio_wait *wait)
{
    return !async_lane_is_attended(posix_aio_lane) && !some_off_lane(wait);
}

/* In slices: a thread that is cancelled must notice. */
static int drive(struct posix_aio_wait *wait)
{
    uint64_t slice_ns = sys_now_ns() + SLICE_NS;
    if (wait->deadline_ns && wait->deadline_ns < slice_ns)
        slice_ns = wait->deadline_ns;
    pthread_testcancel();
    sys_critical_enter();
    atomic_fetch_add(&posix_aio_drives, 1);
    async_lane_wait(posix_aio_lane, driven, wait, slice_ns);
    bool interrupted = sys_critical_interrupts();
    sys_critical_leave(); /* the handler runs here */
    return outcome(wait, interrupted);
}

static bool look_over(void *context)
{
    return posix_aio_error_of(context) != EINPROGRESS;
}

void posix_aio_look(struct posix_aio_request *request, const struct aiocb *control)
{
    unsigned drives = atomic_load(&posix_aio_drives);
    if (atomic_exchange(&request->asked, drives) != drives ||
        async_lane_is_attended(posix_aio_lane) || is_off_lane(control))
        return;
    atomic_fetch_add(&posix_aio_drives, 1);
    async_lane_wait(posix_aio_lane, look_over, (void *)control, 1);
}

/* ---- sleeping, while attendants and workers go on ---- */

static void ring(struct bell *bell)
{
    uint64_t one = 1;
    if (!bell->rung)
        sys_write(bell->eventfd, &one, sizeof(one));
    bell->rung = true;
}

void posix_aio_wake_locked(void)
{
    atomic_fetch_add(&ends, 1);
    if (atomic_load(&sleepers) > 0)
        sys_futex(&ends, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
    for (struct bell *bell = bells; bell; bell = bell->next)
        ring(bell);
}

/* Outside of critical sections: handlers interrupt it as they interrupt glibc's. */
static int sleep_once(const struct posix_aio_wait *wait)
{
    struct timespec left;
    int result = 0, type;
    atomic_fetch_add(&sleepers, 1);
    uint32_t before = atomic_load(&ends);
    if (!is_over(wait)) {
        struct timespec *limit = sys_time_left(wait->deadline_ns, 0, &left);
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
        result = sys_futex(&ends, FUTEX_WAIT_PRIVATE, before, limit);
        pthread_setcanceltype(type, &type);
    }
    atomic_fetch_sub(&sleepers, 1);
    return outcome(wait, result == -EINTR);
}

/* For good: other threads drive only until they have what they wait for. */
static void attend(void)
{
    sys_critical_enter();
    async_lane_attend(posix_aio_lane);
    sys_critical_leave();
}

int posix_aio_wait(struct posix_aio_wait *wait)
{
    int result = is_over(wait) ? 0 : 1;
    while (result == 1 && may_drive(wait))
        result = drive(wait);
    if (result == 1)
        attend();
    while (result == 1)
        result = sleep_once(wait);
    return result;
}

/* ---- both worlds ---- */

/* NULL: no descriptor or memory is left. */
static struct bell *bell_make(void)
{
    struct bell *bell = NULL;
    sys_critical_enter();
    int fd = (int)sys_call2(SYS_eventfd2, 0, EFD_CLOEXEC);
    if (fd >= 0 && (bell = sys_alloc_zeroed(sizeof(*bell))) == NULL)
        sys_close(fd);
    if (bell) {
        bell->eventfd = sys_fd_protect(fd);
        bell->control = (struct aiocb){
            .aio_fildes = bell->eventfd,
            .aio_buf = &bell->value,
            .aio_nbytes = sizeof(bell->value),
            .aio_sigevent = {.sigev_notify = SIGEV_NONE},
        };
        pthread_mutex_lock(&posix_aio_lock);
        bell->next = bells;
        bells = bell;
        pthread_mutex_unlock(&posix_aio_lock);
    }
    sys_critical_leave();
    return bell;
}

/* Ends glibc's request. Also called if the thread is cancelled in glibc's aio_suspend(). */
static void bell_end(void *argument)
{
    struct bell *bell = argument, **at = &bells;
    const struct aiocb *control = &bell->control;
    int state;
    sys_critical_enter();
    pthread_mutex_lock(&posix_aio_lock);
    while (*at != bell)
        at = &(*at)->next;
    *at = bell->next;
    ring(bell);
    pthread_mutex_unlock(&posix_aio_lock);
    sys_critical_leave();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    while (PRELOAD_REAL(aio_error)(control) == EINPROGRESS)
        PRELOAD_REAL(aio_suspend)(&control, 1, NULL);
    pthread_setcancelstate(state, &state);
    sys_critical_enter();
    sys_fd_close(bell->eventfd);
    sys_free(bell);
    sys_critical_leave();
}

/* Waits until the bell rings, or a request of glibc ends. 1: look again. */
static int wait_with_bell(const struct posix_aio_wait *wait, const struct aiocb **theirs)
{
    struct bell *bell = bell_make();
    int result = 1;
    if (!bell)
        return -EAGAIN;
    theirs[wait->count] = &bell->control;
    pthread_cleanup_push(bell_end, bell);
    struct timespec left;
    attend();
    struct timespec *limit = sys_time_left(wait->deadline_ns, 0, &left);
    if (PRELOAD_REAL(aio_read)(&bell->control) != 0)
        result = -EAGAIN;
    else if (!is_over(wait) && PRELOAD_REAL(aio_suspend)(theirs, wait->count + 1, limit) != 0)
        result = -errno;
    pthread_cleanup_pop(1);
    return is_over(wait) ? 0 : result;
}

int posix_aio_wait_both(struct posix_aio_wait *wait, const struct aiocb **theirs)
{
    int result = 1;
    while (result == 1)
        result = wait_with_bell(wait, theirs);
    return result;
}

/* In the child the parent's requests with glibc are gone, also those on bells. */
void posix_aio_wait_child(void)
{
    for (struct bell *bell = bells; bell; bell = bell->next)
        sys_fd_close(bell->eventfd);
    bells = NULL;
    atomic_store(&sleepers, 0);
}
