#include "sys/fd.h"
#include "sys/large.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>

#include "sys/sys.h"

/* High enough to stay clear of applications that use the lowest free numbers. Low enough that the
 * kernel's descriptor table stays small, as every fork copies it. */
enum { CEILING = 4096, ROOM = 160 };

/*
 * One bit for each descriptor, in blocks. A block is made when a number first needs it, and stays:
 * an application may have all low numbers. There is no lock: each word and the pointer to each
 * block is atomic.
 */
enum { BLOCK_WORDS = 1024, BLOCK_BITS = BLOCK_WORDS * 64, BLOCKS = INT32_MAX / BLOCK_BITS + 1 };

static SYS_LARGE _Atomic uint64_t first_block[BLOCK_WORDS];
static SYS_LARGE _Atomic(_Atomic uint64_t *) blocks[BLOCKS]; /* the first one is not in it */
static _Atomic int block_count = 1;                          /* no block from here on is made */

static _Atomic uint64_t *block_at(int index)
{
    return index == 0 ? first_block : atomic_load_explicit(&blocks[index], memory_order_acquire);
}

static _Atomic uint64_t *block_of(int fd)
{
    return block_at(fd / BLOCK_BITS);
}

static bool make_block(int fd)
{
    int index = fd / BLOCK_BITS, count = atomic_load(&block_count);
    if (block_of(fd))
        return true;
    size_t size = sizeof(first_block);
    void *made = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_mmap_failed(made))
        return false;
    _Atomic uint64_t *expected = NULL;
    if (!atomic_compare_exchange_strong(&blocks[index], &expected, made))
        sys_munmap(made, size); /* another thread was first */
    while (count <= index && !atomic_compare_exchange_weak(&block_count, &count, index + 1))
        ;
    return true;
}

static uint64_t bit_of(int fd)
{
    return UINT64_C(1) << (fd % 64);
}

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
    if (high >= 0 && !make_block(high)) {
        sys_close(high);
        high = -ENOMEM;
    }
    if (high >= 0) {
        sys_close(fd);
        fd = high;
    } else {
        sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (make_block(fd))
        atomic_fetch_or_explicit(&block_of(fd)[fd % BLOCK_BITS / 64], bit_of(fd),
                                 memory_order_release);
    return fd;
}

void sys_fd_close(int fd)
{
    if (fd < 0)
        return;
    if (sys_fd_is_ours(fd))
        atomic_fetch_and_explicit(&block_of(fd)[fd % BLOCK_BITS / 64], ~bit_of(fd),
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

int sys_fd_reserve(int fd, uint64_t offset, uint64_t length)
{
    int error;
    do
        error = (int)sys_call4(SYS_fallocate, fd, 0, offset, length);
    while (error == -EINTR);
    return error == -EOPNOTSUPP ? 0 : error;
}

void sys_fd_fork_child(void)
{
    for (int fd = sys_fd_next_ours(0); fd >= 0; fd = sys_fd_next_ours(fd + 1)) {
        int domain = AF_UNIX;
        socklen_t length = sizeof(domain);
        sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
        if (domain != AF_UNIX)
            sys_fd_close(fd);
    }
}

bool sys_fd_is_ours(int fd)
{
    _Atomic uint64_t *block = fd < 0 ? NULL : block_of(fd);
    return block &&
           (atomic_load_explicit(&block[fd % BLOCK_BITS / 64], memory_order_acquire) & bit_of(fd));
}

int sys_fd_next_ours(int fd)
{
    int at = fd < 0 ? 0 : fd % BLOCK_BITS;
    int count = atomic_load_explicit(&block_count, memory_order_acquire);
    for (int i = fd < 0 ? 0 : fd / BLOCK_BITS; i < count; i++, at = 0) {
        _Atomic uint64_t *block = block_at(i);
        while (block && at < BLOCK_BITS) {
            uint64_t word =
                atomic_load_explicit(&block[at / 64], memory_order_acquire) >> (at % 64);
            if (word)
                return i * BLOCK_BITS + at + __builtin_ctzll(word);
            at = (at / 64 + 1) * 64;
        }
    }
    return -1;
}
