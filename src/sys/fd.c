#include "sys/fd.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>

#include "sys/sys.h"

/*
 * High enough to stay clear of applications that use the lowest free numbers, low enough that the
 * kernel's descriptor table, which every fork copies, stays small.
 */
enum { CEILING = 4096, ROOM = 160, WORDS = 1024 };

static _Atomic uint64_t ours[WORDS]; /* a bit a descriptor; no lock: each word is atomic */

static int lowest_of_ours(void)
{
    struct rlimit limit;
    if (sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0)
        return CEILING - ROOM;
    rlim_t top = limit.rlim_cur < CEILING ? limit.rlim_cur : CEILING;
    return top > 2 * ROOM ? (int)(top - ROOM) : (int)(top / 2);
}

int sys_fd_protect(int fd)
{
    int high = sys_fcntl(fd, F_DUPFD_CLOEXEC, lowest_of_ours());
    if (high >= 0) {
        sys_close(fd);
        fd = high;
    } else {
        sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (fd < WORDS * 64)
        atomic_fetch_or_explicit(&ours[fd / 64], UINT64_C(1) << (fd % 64), memory_order_release);
    return fd;
}

void sys_fd_close(int fd)
{
    if (fd < 0)
        return;
    if (fd < WORDS * 64)
        atomic_fetch_and_explicit(&ours[fd / 64], ~(UINT64_C(1) << (fd % 64)),
                                  memory_order_release);
    sys_close(fd);
}

int sys_fd_lengthen(int fd, off_t size)
{
    struct rlimit limit;
    if (sys_call4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 &&
        limit.rlim_cur < (rlim_t)size)
        return -EFBIG;
    return sys_ftruncate(fd, size);
}

void sys_fd_fork_child(void)
{
    struct stat status;
    for (int fd = sys_fd_next_ours(0); fd >= 0; fd = sys_fd_next_ours(fd + 1)) {
        if (sys_fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
            sys_fd_close(fd);
    }
}

bool sys_fd_is_ours(int fd)
{
    if (fd < 0 || fd >= WORDS * 64)
        return false;
    return atomic_load_explicit(&ours[fd / 64], memory_order_acquire) >> (fd % 64) & 1;
}

int sys_fd_next_ours(int fd)
{
    if (fd < 0)
        fd = 0;
    while (fd < WORDS * 64) {
        uint64_t word = atomic_load_explicit(&ours[fd / 64], memory_order_acquire) >> (fd % 64);
        if (word)
            return fd + __builtin_ctzll(word);
        fd = (fd / 64 + 1) * 64;
    }
    return -1;
}
