/* io_getevents(): completions of both worlds, and waiting for them. See context.h. */
#include <linux/futex.h>

#include "preload/aio/context.h"

/*
 * The longest sleeps of a thread before it looks again at what others do. They cover what no
 * wake-up tells: the kernel's first request while the thread drives the lane; a poll that could not
 * be submitted.
 */
#define LOOK_NS       UINT64_C(100000000)
#define LOOK_SOON_NS  UINT64_C(10000000)
#define LOOK_LATER_NS UINT64_C(1000000000)
#define LOOK_IDLE_NS  UINT64_C(3600000000000)

struct reaper {
    struct aio_context *context;
    aio_context_t id;
    long least, most, got;
    struct io_event *events;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
    const struct aio_sigset *set;
};

/* As in the kernel, a negative time means for ever. */
static uint64_t deadline_of(const struct timespec *timeout, long least)
{
    if (least == 0)
        return 1;
    int64_t length = timeout != NULL ? sys_nanoseconds(timeout->tv_sec, timeout->tv_nsec) : -1;
    return length < 0 ? 0 : sys_deadline(length);
}

static long real_getevents(aio_context_t id, long least, long most, struct io_event *events,
                           struct timespec *timeout, const struct aio_sigset *set)
{
    return sys_call6(set ? SYS_io_pgetevents : SYS_io_getevents, (long)id, least, most,
                     (long)events, (long)timeout, (long)set);
}

/* Takes what the kernel has completed. Returns how many, or -errno. */
static long reap_kernel(struct reaper *reaper)
{
    struct timespec none = {0, 0};
    struct io_event *events = reaper->events + reaper->got;
    long count = real_getevents(reaper->id, 0, reaper->most - reaper->got, events, &none, NULL);
    return count > 0 ? aio_context_filter(reaper->context, events, count) : count;
}

/*
 * Sleeps in the kernel until either world completes something. It leaves the critical section, so
 * that handlers run as in the real call.
 */
static long wait_in_kernel(struct reaper *reaper)
{
    struct aio_context *context = reaper->context;
    struct io_event *events = reaper->events + reaper->got;
    uint64_t longest_ns = LOOK_LATER_NS;
    struct timespec left;
    atomic_fetch_add(&context->kernel_waiters, 1);
    if (aio_in_flight(context) > 0 || aio_queued(context) > 0) {
        async_lane_attend_busy(context->lane);
        longest_ns = aio_context_arm(context) ? 0 : LOOK_SOON_NS;
        if (aio_queued(context) > 0) {
            atomic_fetch_sub(&context->kernel_waiters, 1);
            return 0;
        }
    }
    struct timespec *limit = sys_time_left(reaper->deadline_ns, longest_ns, &left);
    sys_critical_leave();
    long count =
        real_getevents(reaper->id, 1, reaper->most - reaper->got, events, limit, reaper->set);
    sys_critical_enter();
    atomic_fetch_sub(&context->kernel_waiters, 1);
    return count > 0 ? aio_context_filter(context, events, count) : count;
}

/*
 * Nothing is in flight: sleeps until a thread submits. It always has a timeout. After a handler
 * with SA_RESTART the kernel repeats a futex call that has none, but not io_getevents().
 */
static int wait_idle(struct reaper *reaper, uint32_t activity)
{
    struct aio_context *context = reaper->context;
    struct timespec left;
    int result = 0;
    atomic_fetch_add(&context->sleepers, 1);
    if (aio_in_flight(context) == 0 && aio_queued(context) == 0 &&
        atomic_load(&context->kernel_in_flight) <= 0 && !atomic_load(&context->ending)) {
        struct timespec *limit = sys_time_left(reaper->deadline_ns, LOOK_IDLE_NS, &left);
        sys_critical_leave();
        result = sys_futex(&context->activity, FUTEX_WAIT_PRIVATE, activity, limit);
        sys_critical_enter();
    }
    atomic_fetch_sub(&context->sleepers, 1);
    return result == -EINTR ? -EINTR : 0;
}

static bool enough(void *argument)
{
    const struct reaper *reaper = argument;
    struct aio_context *context = reaper->context;
    long wanted = reaper->least > reaper->got ? reaper->least - reaper->got : 1;
    return (long)aio_queued(context) >= wanted || atomic_load(&context->kernel_in_flight) > 0 ||
           atomic_load(&context->ending);
}

static void drive(struct reaper *reaper)
{
    uint64_t deadline_ns = reaper->deadline_ns;
    if (deadline_ns != 1) {
        uint64_t look_ns = sys_now_ns() + LOOK_NS;
        if (deadline_ns == 0 || look_ns < deadline_ns)
            deadline_ns = look_ns;
    }
    async_lane_wait(reaper->context->lane, enough, reaper, deadline_ns);
}

/* Sleeps once, in the way that suits what is in flight. 0 or -errno. */
static long wait_once(struct reaper *reaper, uint32_t activity)
{
    struct aio_context *context = reaper->context;
    /* With a signal mask always in the kernel: only there can one step set the mask and sleep. */
    if (atomic_load(&context->kernel_in_flight) > 0 || reaper->set != NULL) {
        long count = wait_in_kernel(reaper);
        reaper->got += count > 0 ? count : 0;
        return count < 0 ? count : 0;
    }
    if (aio_in_flight(context) > 0) {
        drive(reaper);
        return 0;
    }
    return wait_idle(reaper, activity);
}

static long reap(struct reaper *reaper)
{
    struct aio_context *context = reaper->context;
    long result = 0;
    bool last_look = false;
    while (result == 0) {
        uint32_t activity = atomic_load(&context->activity);
        if (atomic_load_explicit(&context->ending, memory_order_relaxed)) {
            result = -EINVAL;
            break;
        }
        if (reaper->got < reaper->most)
            reaper->got += aio_deliver(context, reaper->events + reaper->got,
                                       (unsigned)(reaper->most - reaper->got));
        /* From both worlds, so that completions of one do not keep the other's away. */
        if (atomic_load(&context->kernel_in_flight) > 0 && reaper->got < reaper->most) {
            async_lane_attend_busy(context->lane);
            result = reap_kernel(reaper);
            reaper->got += result > 0 ? result : 0;
            result = result < 0 ? result : 0;
        }
        if (reaper->got == reaper->most || (reaper->got > 0 && reaper->got >= reaper->least))
            break;
        if (result == 0 && sys_critical_interrupts())
            result = -EINTR;
        if (last_look || result != 0)
            break;
        last_look = sys_deadline_passed(reaper->deadline_ns);
        if (!last_look)
            result = wait_once(reaper, activity);
        else if (aio_in_flight(context) > 0)
            drive(reaper);
        else if (aio_queued(context) == 0)
            break;
    }
    aio_context_pass_on(context);
    return reaper->got > 0 ? reaper->got : result;
}

long aio_io_getevents(aio_context_t id, long least, long most, struct io_event *events,
                      struct timespec *timeout, const struct aio_sigset *set)
{
    if (!preload_active() || least < 0 || most < least ||
        (timeout != NULL && sys_bad_pointer(timeout)) || (set != NULL && sys_bad_pointer(set)))
        return real_getevents(id, least, most, events, timeout, set);
    if (most > INT32_MAX)
        most = INT32_MAX;
    sys_critical_enter();
    long got = 0, result;
    if (most > 0 && least <= most && !sys_bad_pointer(events))
        got = aio_deliver_now(id, events, least > 0 ? (unsigned)least : 1, (unsigned)most);
    if (got > 0 && got >= least) {
        sys_critical_leave();
        return got;
    }
    struct aio_context *context = aio_context_get(id, 1, 0, NULL);
    if (context == NULL) {
        sys_critical_leave();
        return got > 0 ? got : real_getevents(id, least, most, events, timeout, set);
    }
    if (most > 0 && sys_bad_pointer(events)) {
        result = -EFAULT;
    } else {
        struct reaper reaper = {.context = context,
                                .id = id,
                                .least = least,
                                .most = most,
                                .got = got,
                                .events = events,
                                .deadline_ns = deadline_of(timeout, least),
                                .set = set != NULL && set->mask != NULL ? set : NULL};
        atomic_store_explicit(&context->reaped, true, memory_order_relaxed);
        result = reap(&reaper);
    }
    aio_context_put(context, 1);
    sys_critical_leave();
    return result;
}
