/*
 * libaio's functions. Like those, they return -errno and leave errno alone.
 *
 * libaio's own functions end in syscall(), where the calls are caught as well. A libaio that makes
 * the system call itself is caught here. io_cancel() is not wrapped: requests on regular files
 * cannot be cancelled. The kernel says so for ours (EINVAL), because it does not know them. Of the
 * two versions of io_getevents() this is the one with a minimum, LIBAIO_0.4. Programs linked for
 * the older one are of 2002.
 */
#include "preload/aio/context.h"

PRELOAD_EXPORT int io_setup(int count, aio_context_t *context)
{
    return (int)aio_io_setup((unsigned)count, context);
}

PRELOAD_EXPORT int io_destroy(aio_context_t context)
{
    return (int)aio_io_destroy(context);
}

PRELOAD_EXPORT int io_submit(aio_context_t context, long count, struct iocb **list)
{
    return (int)aio_io_submit(context, count, list);
}

/* For programs that poll, as libaio: no system call if the ring is empty. See context.h. */
static bool is_idle(aio_context_t context, const struct timespec *timeout)
{
    const struct aio_ring *ring = (const struct aio_ring *)context;
    return timeout != NULL && timeout->tv_sec == 0 && timeout->tv_nsec == 0 && ring != NULL &&
           __atomic_load_n(&ring->magic, __ATOMIC_RELAXED) == AIO_RING_MAGIC &&
           ring->head == ring->tail;
}

PRELOAD_EXPORT int io_getevents(aio_context_t context, long least, long most,
                                struct io_event *events, struct timespec *timeout)
{
    if (is_idle(context, timeout))
        return 0;
    return (int)aio_io_getevents(context, least, most, events, timeout, NULL);
}

PRELOAD_EXPORT int io_pgetevents(aio_context_t context, long least, long most,
                                 struct io_event *events, struct timespec *timeout, sigset_t *mask)
{
    struct aio_sigset set = {mask, sizeof(unsigned long)};
    return (int)aio_io_getevents(context, least, most, events, timeout, &set);
}

PRELOAD_EXPORT int io_queue_init(int count, aio_context_t *context)
{
    if (count <= 0)
        return -EINVAL;
    *context = 0;
    return io_setup(count, context);
}

PRELOAD_EXPORT int io_queue_release(aio_context_t context)
{
    return io_destroy(context);
}

/* Runs the function that io_set_callback() put into the iocb's data. */
PRELOAD_EXPORT int io_queue_run(aio_context_t context)
{
    typedef void callback(aio_context_t, struct iocb *, long, long);
    struct timespec none = {0, 0};
    struct io_event event;
    int result;
    while ((result = io_getevents(context, 0, 1, &event, &none)) == 1)
        ((callback *)(uintptr_t)event.data)(context, (struct iocb *)(uintptr_t)event.obj,
                                            (long)event.res, (long)event.res2);
    return result;
}

PRELOAD_EXPORT int io_queue_wait(aio_context_t context, struct timespec *timeout)
{
    return io_getevents(context, 0, 0, NULL, timeout);
}
