/*
 * Closing and duplicating descriptors. The library's own descriptors do not exist for the
 * application: a loop that closes everything passes them by.
 */
#include <limits.h>
#include <sys/resource.h>

#include "fd/descriptors.h"
#include "preload/preload.h"

PRELOAD_SLOW int preload_close(int fd)
{
    sys_critical_enter();
    int error = fd_closing(fd);
    int result = sys_close(fd);
    sys_critical_leave();
    /* On Linux the descriptor is gone whatever close() says, so EINTR would say nothing. */
    return result < 0 && result != -EINTR ? result : error;
}

PRELOAD_EXPORT int close(int fd)
{
    if (PRELOAD_UNLIKELY(sys_fd_is_ours(fd)) && !sys_critical_inside())
        return preload_fail(EBADF);
    if (preload_managed(fd))
        return (int)preload_result(preload_close(fd));
    return PRELOAD_REAL(close)(fd);
}

/* Calls fd_closing() for every managed descriptor of [first, last]. Errors reach nobody, as in the
 * kernel when many are closed at once. The engine logs what was lost. */
static void closing_range(unsigned first, unsigned last)
{
    unsigned limit = (unsigned)file_table_limit();
    for (unsigned fd = first; fd <= last && fd < limit; fd++)
        if (preload_managed((int)fd))
            preload_forget((int)fd);
}

/* close_range(2) for a range without descriptors of ours. Before Linux 5.9 it closes one by one. */
static int close_piece(unsigned first, unsigned last, unsigned flags)
{
    long result = sys_call3(SYS_close_range, first, last, flags);
    if (result != -ENOSYS || flags != 0)
        return (int)result;
    struct rlimit limit;
    if (sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) == 0 && last >= limit.rlim_cur)
        last = (unsigned)limit.rlim_cur;
    for (unsigned fd = first; fd <= last && fd <= INT_MAX; fd++)
        sys_close((int)fd);
    return 0;
}

/* 0 or -errno */
static int close_around_ours(unsigned first, unsigned last, unsigned flags)
{
    closing_range(first, last);
    while (first <= last) {
        int ours = first <= INT_MAX ? sys_fd_next_ours((int)first) : -1;
        unsigned end = ours >= 0 && (unsigned)ours <= last ? (unsigned)ours : UINT_MAX;
        if (end == UINT_MAX)
            return close_piece(first, last, flags);
        if (end > first) {
            int result = close_piece(first, end - 1, flags);
            if (result < 0)
                return result;
        }
        first = end + 1;
    }
    return 0;
}

PRELOAD_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    unsigned known = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;
    if (first > last || ((unsigned)flags & ~known))
        return preload_fail(EINVAL);
    /* Our descriptors have the flag already. */
    if (((unsigned)flags & CLOSE_RANGE_CLOEXEC) || sys_critical_inside())
        return PRELOAD_REAL(close_range)(first, last, flags);
    return (int)preload_result(close_around_ours(first, last, (unsigned)flags));
}

PRELOAD_EXPORT void closefrom(int lowest)
{
    close_around_ours(lowest > 0 ? (unsigned)lowest : 0, UINT_MAX, 0);
}

PRELOAD_EXPORT int dup(int fd)
{
    if (PRELOAD_UNLIKELY(sys_fd_is_ours(fd)) && !sys_critical_inside())
        return preload_fail(EBADF);
    int result = PRELOAD_REAL(dup)(fd);
    return preload_duplicated(fd, result);
}

/*
 * Before the kernel replaces `to`. False, with errno, if a descriptor is the library's own. The
 * engine hears of the end of `to` only if `from` is valid. An error of this close reaches nobody,
 * as in the kernel.
 */
static bool may_replace(int from, int to)
{
    if (sys_critical_inside())
        return true;
    if (sys_fd_is_ours(from) || sys_fd_is_ours(to)) {
        errno = EBADF;
        return false;
    }
    if (from != to && !preload_duplicating(from, to))
        return false;
    if (from != to && preload_managed(to) && sys_fcntl(from, F_GETFD, 0) >= 0)
        preload_forget(to);
    return true;
}

PRELOAD_EXPORT int dup2(int from, int to)
{
    if (!may_replace(from, to))
        return -1;
    int result = PRELOAD_REAL(dup2)(from, to);
    return preload_duplicated(from, result);
}

PRELOAD_EXPORT int dup3(int from, int to, int flags)
{
    if ((flags & ~O_CLOEXEC) || from == to)
        return preload_fail(EINVAL);
    if (!may_replace(from, to))
        return -1;
    int result = PRELOAD_REAL(dup3)(from, to, flags);
    return preload_duplicated(from, result);
}
