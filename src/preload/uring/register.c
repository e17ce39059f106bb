/*
 * Registration with a ring: files and eventfds. Slots of files are followed. An eventfd means that
 * no thread will wait in a call. Then the raw system calls, under liburing's names and through
 * syscall().
 */
#include <string.h>

#include "fd/life.h"
#include "preload/uring/uring.h"
#include "sys/log.h"

/* The ring, if the call changed it. NULL: it did not; the functions below ignore NULL. */
static struct uring *changed(const struct io_uring *ring, int result)
{
    return result >= 0 && preload_active() && uring_is_there() ? uring_get(ring) : NULL;
}

PRELOAD_EXPORT int io_uring_register_files(struct io_uring *ring, const int *files, unsigned count)
{
    int result = URING_REAL(io_uring_register_files)(ring, files, count);
    uring_files_made(changed(ring, result), files, count);
    return result;
}

PRELOAD_EXPORT int io_uring_register_files_tags(struct io_uring *ring, const int *files,
                                                const __u64 *tags, unsigned count)
{
    int result = URING_REAL(io_uring_register_files_tags)(ring, files, tags, count);
    uring_files_made(changed(ring, result), files, count);
    return result;
}

PRELOAD_EXPORT int io_uring_register_files_sparse(struct io_uring *ring, unsigned count)
{
    int result = URING_REAL(io_uring_register_files_sparse)(ring, count);
    uring_files_made(changed(ring, result), NULL, count);
    return result;
}

/* These two return how many entries were updated. */
PRELOAD_EXPORT int io_uring_register_files_update(struct io_uring *ring, unsigned offset,
                                                  const int *files, unsigned count)
{
    int result = URING_REAL(io_uring_register_files_update)(ring, offset, files, count);
    uring_files_updated(changed(ring, result), offset, files, (unsigned)result);
    return result;
}

PRELOAD_EXPORT int io_uring_register_files_update_tag(struct io_uring *ring, unsigned offset,
                                                      const int *files, const __u64 *tags,
                                                      unsigned count)
{
    int result = URING_REAL(io_uring_register_files_update_tag)(ring, offset, files, tags, count);
    uring_files_updated(changed(ring, result), offset, files, (unsigned)result);
    return result;
}

PRELOAD_EXPORT int io_uring_unregister_files(struct io_uring *ring)
{
    int result = URING_REAL(io_uring_unregister_files)(ring);
    uring_files_gone(changed(ring, result));
    return result;
}

static void eventfd_registered(struct uring *record)
{
    if (!record)
        return;
    atomic_store(&record->eventfd, true);
    if (!atomic_load(&record->opened))
        return; /* uring_open() will look at it */
    struct preload_stay stay = preload_stay_begin();
    async_lane_attend(record->lane);
    preload_stay_end(stay);
}

PRELOAD_EXPORT int io_uring_register_eventfd(struct io_uring *ring, int fd)
{
    int result = URING_REAL(io_uring_register_eventfd)(ring, fd);
    eventfd_registered(changed(ring, result));
    return result;
}

PRELOAD_EXPORT int io_uring_register_eventfd_async(struct io_uring *ring, int fd)
{
    int result = URING_REAL(io_uring_register_eventfd_async)(ring, fd);
    eventfd_registered(changed(ring, result));
    return result;
}

/* ---- raw system calls ---- */

static void registered(struct uring *record, unsigned operation, const void *argument,
                       unsigned count, long result)
{
    const struct io_uring_rsrc_register *table = argument;
    const struct io_uring_files_update *update = argument;
    const struct io_uring_rsrc_update2 *update2 = argument;
    switch (operation) {
    case IORING_REGISTER_FILES:
        uring_files_made(record, argument, count);
        break;
    case IORING_REGISTER_FILES2:
        uring_files_made(record, (const int *)(uintptr_t)table->data, table->nr);
        break;
    case IORING_UNREGISTER_FILES:
        uring_files_gone(record);
        break;
    case IORING_REGISTER_FILES_UPDATE:
        uring_files_updated(record, update->offset, (const int *)(uintptr_t)update->fds,
                            (unsigned)result);
        break;
    case IORING_REGISTER_FILES_UPDATE2:
        uring_files_updated(record, update2->offset, (const int *)(uintptr_t)update2->data,
                            (unsigned)result);
        break;
    case IORING_REGISTER_EVENTFD:
    case IORING_REGISTER_EVENTFD_ASYNC:
        eventfd_registered(record);
        break;
    case IORING_REGISTER_ENABLE_RINGS:
        atomic_store(&record->disabled, false);
        break;
    default:
        break;
    }
}

/* Such a ring would reach managed files behind our back. */
static bool refuse(void)
{
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        log_notice("io_uring_setup() is refused to the application: rings of files on our mounts "
                   "work through liburing only");
    return false;
}

bool uring_may_pass(void)
{
    return fd_allows_raw_io_uring() || !fd_allows_raw_calls() || refuse();
}

/* For a ring that liburing does not make. */
long uring_setup(unsigned entries, void *parameters)
{
    if (!preload_active() || fd_allows_raw_io_uring() || refuse())
        return sys_call2(SYS_io_uring_setup, entries, parameters);
    return -ENOSYS;
}

long uring_enter(int fd, unsigned submit, unsigned complete, unsigned flags, const void *argument,
                 size_t size)
{
    struct uring *record = preload_active() ? uring_find_fd(fd) : NULL;
    if (!record)
        return sys_call6(SYS_io_uring_enter, fd, submit, complete, flags, (long)argument,
                         (long)size);
    if (submit > 0)
        uring_hand_over(record);
    uring_block_begin(record);
    long result =
        sys_call6(SYS_io_uring_enter, fd, submit, complete, flags, (long)argument, (long)size);
    uring_block_end(record);
    if (result > 0)
        atomic_fetch_add(&record->passed, (unsigned)result);
    return result;
}

long uring_register(int fd, unsigned operation, const void *argument, unsigned count)
{
    long result = sys_call4(SYS_io_uring_register, fd, operation, argument, count);
    struct uring *record = result >= 0 && preload_active() ? uring_find_fd(fd) : NULL;
    if (record)
        registered(record, operation, argument, count, result);
    return result;
}

/* liburing itself makes these calls inline, not by these functions. */
PRELOAD_EXPORT int io_uring_setup(unsigned entries, struct io_uring_params *parameters)
{
    return (int)uring_setup(entries, parameters);
}

PRELOAD_EXPORT int io_uring_enter2(unsigned fd, unsigned submit, unsigned complete, unsigned flags,
                                   void *argument, size_t size)
{
    return (int)uring_enter((int)fd, submit, complete, flags, argument, size);
}

PRELOAD_EXPORT int io_uring_enter(unsigned fd, unsigned submit, unsigned complete, unsigned flags,
                                  sigset_t *mask)
{
    return (int)uring_enter((int)fd, submit, complete, flags, mask, _NSIG / 8);
}

PRELOAD_EXPORT int io_uring_register(unsigned fd, unsigned operation, const void *argument,
                                     unsigned count)
{
    return (int)uring_register((int)fd, operation, argument, count);
}
