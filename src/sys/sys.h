/*
 * Raw system calls.
 *
 * Code below the face calls the kernel only through these functions. So it never re-enters a
 * wrapper of src/preload, never touches errno, is no cancellation point, and works before any
 * constructor ran. Every function returns what the kernel returns: a result, or a negative errno
 * value.
 */
#ifndef SYS_SYS_H
#define SYS_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Inline whatever the compiler is told: from a function of its own a child that shares the stack
 * (start_apart() in durable/agent.c) would return over its parent's return address. */
#define SYS_CALL static inline __attribute__((always_inline)) long
#if defined(__x86_64__)
SYS_CALL sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
SYS_CALL sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}
#else
#error "directnfs needs the system call convention of this processor in src/sys/sys.h"
#endif

/* True for addresses where nothing is ever mapped: the kernel answers EFAULT for them. */
static inline int sys_bad_pointer(const void *pointer)
{
    return (uintptr_t)pointer < 4096 || (uintptr_t)pointer > UINTPTR_MAX / 2;
}

#define sys_call0(n)             sys_call6((n), 0, 0, 0, 0, 0, 0)
#define sys_call1(n, a)          sys_call6((n), (long)(a), 0, 0, 0, 0, 0)
#define sys_call2(n, a, b)       sys_call6((n), (long)(a), (long)(b), 0, 0, 0, 0)
#define sys_call3(n, a, b, c)    sys_call6((n), (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define sys_call4(n, a, b, c, d) sys_call6((n), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define sys_call5(n, a, b, c, d, e) \
    sys_call6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

static inline int sys_openat(int dirfd, const char *path, int flags, mode_t mode)
{
    return (int)sys_call4(SYS_openat, dirfd, path, flags, mode);
}
static inline int sys_open(const char *path, int flags, mode_t mode)
{
    return sys_openat(AT_FDCWD, path, flags, mode);
}
static inline int sys_close(int fd)
{
    return (int)sys_call1(SYS_close, fd);
}
static inline ssize_t sys_read(int fd, void *buffer, size_t size)
{
    return sys_call3(SYS_read, fd, buffer, size);
}
static inline ssize_t sys_pread(int fd, void *buffer, size_t size, off_t offset)
{
    return sys_call4(SYS_pread64, fd, buffer, size, offset);
}
static inline ssize_t sys_write(int fd, const void *buffer, size_t size)
{
    return sys_call3(SYS_write, fd, buffer, size);
}
static inline off_t sys_lseek(int fd, off_t offset, int whence)
{
    return sys_call3(SYS_lseek, fd, offset, whence);
}
static inline int sys_fcntl(int fd, int command, long argument)
{
    return (int)sys_call3(SYS_fcntl, fd, command, argument);
}
static inline int sys_fstat(int fd, struct stat *status)
{
    return (int)sys_call2(SYS_fstat, fd, status);
}
static inline int sys_fstatat(int dirfd, const char *path, struct stat *status, int flags)
{
    return (int)sys_call4(SYS_newfstatat, dirfd, path, status, flags);
}
static inline int sys_statx(int dirfd, const char *path, int flags, unsigned mask,
                            struct statx *status)
{
    return (int)sys_call5(SYS_statx, dirfd, path, flags, mask, status);
}
static inline int sys_truncate(const char *path, off_t size)
{
    return (int)sys_call2(SYS_truncate, path, size);
}
static inline int sys_ftruncate(int fd, off_t size)
{
    return (int)sys_call2(SYS_ftruncate, fd, size);
}
static inline int sys_fsync(int fd)
{
    return (int)sys_call1(SYS_fsync, fd);
}
static inline int sys_unlinkat(int dirfd, const char *path, int flags)
{
    return (int)sys_call3(SYS_unlinkat, dirfd, path, flags);
}
static inline int sys_renameat2(int from_dirfd, const char *from, int to_dirfd, const char *to,
                                unsigned flags)
{
    return (int)sys_call5(SYS_renameat2, from_dirfd, from, to_dirfd, to, flags);
}
static inline ssize_t sys_getdents64(int fd, void *buffer, size_t size)
{
    return sys_call3(SYS_getdents64, fd, buffer, size);
}
static inline int sys_socket(int family, int type, int protocol)
{
    return (int)sys_call3(SYS_socket, family, type, protocol);
}
static inline int sys_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return (int)sys_call3(SYS_bind, fd, address, length);
}
static inline int sys_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    return (int)sys_call3(SYS_connect, fd, address, length);
}
static inline int sys_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    return (int)sys_call3(SYS_getsockname, fd, address, length);
}
static inline int sys_ioctl(int fd, unsigned long request, void *argument)
{
    return (int)sys_call3(SYS_ioctl, fd, request, argument);
}
static inline int sys_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    return (int)sys_call5(SYS_setsockopt, fd, level, name, value, length);
}
static inline int sys_getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    return (int)sys_call5(SYS_getsockopt, fd, level, name, value, length);
}
static inline ssize_t sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return sys_call3(SYS_sendmsg, fd, message, flags);
}
static inline ssize_t sys_recvmsg(int fd, struct msghdr *message, int flags)
{
    return sys_call3(SYS_recvmsg, fd, message, flags);
}
static inline int sys_shutdown(int fd, int how)
{
    return (int)sys_call2(SYS_shutdown, fd, how);
}
/* ppoll() with a relative timeout in milliseconds; -1 waits for ever. */
static inline int sys_poll(struct pollfd *fds, unsigned count, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    return (int)sys_call5(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &limit, NULL, 0);
}
static inline int sys_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                            const struct timespec *timeout)
{
    return (int)sys_call4(SYS_futex, word, operation, value, timeout);
}
/* Waits until one of `words` is woken or has another value than it should. It ends at the time
 * `until` of CLOCK_MONOTONIC. */
static inline int sys_futex_wait_any(const struct futex_waitv *words, unsigned count,
                                     const struct timespec *until)
{
    return (int)sys_call5(SYS_futex_waitv, words, count, 0, until, CLOCK_MONOTONIC);
}
static inline int sys_nanosleep_ms(int milliseconds)
{
    struct timespec pause = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    return (int)sys_call2(SYS_nanosleep, &pause, NULL);
}
static inline void *sys_mmap(void *address, size_t size, int protection, int flags, int fd,
                             off_t offset)
{
    return (void *)sys_call6(SYS_mmap, (long)address, (long)size, protection, flags, fd, offset);
}
/* True for the address that a failed sys_mmap() returns; -errno is then (int)(long)address. */
static inline int sys_mmap_failed(const void *address)
{
    return (unsigned long)address > -4096UL;
}
static inline int sys_munmap(void *address, size_t size)
{
    return (int)sys_call2(SYS_munmap, address, size);
}
static inline pid_t sys_getpid(void)
{
    return (pid_t)sys_call0(SYS_getpid);
}
static inline pid_t sys_gettid(void)
{
    return (pid_t)sys_call0(SYS_gettid);
}
static inline int sys_kill(pid_t pid, int signal)
{
    return (int)sys_call2(SYS_kill, pid, signal);
}
static inline int sys_sigprocmask(int how, const unsigned long *set, unsigned long *old)
{
    return (int)sys_call4(SYS_rt_sigprocmask, how, set, old, sizeof(*set));
}

/* The C library's own function, past a library that changes the time for its program (faketime):
 * processes compare their times. */
extern int (*sys_clock_gettime)(clockid_t clock, struct timespec *now);

static inline uint64_t sys_clock_ns(clockid_t clock)
{
    struct timespec now;
    sys_clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* Nanoseconds of CLOCK_MONOTONIC: one clock for all processes of the host, served by the vDSO. */
static inline uint64_t sys_now_ns(void)
{
    return sys_clock_ns(CLOCK_MONOTONIC);
}

/* The processor's own count of time, in units of at most 16 ms. It costs no system call where a
 * clock does. */
static inline uint64_t sys_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc() >> 24;
#else
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count >> 17;
#endif
}
/* As sys_now_ns(), or up to 16 ms earlier. */
uint64_t sys_about_ns(void);

/* The length of a timeout. As in the kernel, its two parts are added, whatever they are. */
int64_t sys_nanoseconds(int64_t seconds, int64_t nanoseconds);
/*
 * Deadlines are times of CLOCK_MONOTONIC. 0 means never, and any other time in the past means not
 * to wait. sys_deadline() gives the deadline that is `length_ns` from now; INT64_MAX is for ever.
 */
uint64_t sys_deadline(int64_t length_ns);
bool sys_deadline_passed(uint64_t deadline_ns);
/* The time until the deadline, at most `longest_ns` (0: without a limit). NULL: for ever. */
struct timespec *sys_time_left(uint64_t deadline_ns, uint64_t longest_ns, struct timespec *left);

#endif
