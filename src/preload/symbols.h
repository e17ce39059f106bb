/*
 * Every symbol the library puts in front of libc, in one list. From it come the prototypes, the
 * table of real functions, the raw calls in their place, the aliases, what syscall() and dlsym()
 * pass to wrappers, and what `directnfs check --program` knows.
 *
 *   SYMBOL(type, name, parameters)          a wrapper of its own
 *   SYMBOL(type, name, parameters, number)  the wrapper of a system call with the same arguments
 *                                           and the same result, which is on all processors
 *   TWIN(type, name, parameters, target)    another name for the wrapper `target`, which must have
 *                                           the same calling convention: 64-bit off_t is assumed
 *
 * One list per file of this room, because an alias must stand beside its target.
 *
 * A new wrapper: a line here, with its twins; the function, in the file of the list, with
 * PRELOAD_EXPORT; a test in test/integration; libdirectnfs(8). If data of files passes by it, its
 * number stands in cmd/check/code.c, too, and if its system call has other arguments, in syscall.c.
 * test/integration/twins finds a name that is forgotten here and one that is not exported.
 */
#ifndef PRELOAD_SYMBOLS_H
#define PRELOAD_SYMBOLS_H

#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/types.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(_FILE_OFFSET_BITS) || defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0
#error "src/preload defines the plain and the 64-bit names side by side: headers must not redirect"
#endif

typedef void (*preload_handler)(int);

/* liburing's, defined in preload/uring/uring.h and <linux/io_uring.h> */
struct io_uring;
struct io_uring_cqe;
struct io_uring_params;
struct __kernel_timespec;

#define PRELOAD_OPEN(SYMBOL, TWIN)                                                               \
    SYMBOL(int, open, (const char *path, int flags, ...))                                        \
    TWIN(int, open64, (const char *path, int flags, ...), open)                                  \
    TWIN(int, __open, (const char *path, int flags, ...), open)                                  \
    TWIN(int, __open64, (const char *path, int flags, ...), open)                                \
    SYMBOL(int, __open_2, (const char *path, int flags))                                         \
    TWIN(int, __open64_2, (const char *path, int flags), __open_2)                               \
    SYMBOL(int, openat, (int dirfd, const char *path, int flags, ...), SYS_openat)               \
    TWIN(int, openat64, (int dirfd, const char *path, int flags, ...), openat)                   \
    SYMBOL(int, __openat_2, (int dirfd, const char *path, int flags))                            \
    TWIN(int, __openat64_2, (int dirfd, const char *path, int flags), __openat_2)                \
    SYMBOL(int, creat, (const char *path, mode_t mode))                                          \
    TWIN(int, creat64, (const char *path, mode_t mode), creat)                                   \
    SYMBOL(int, openat2, (int dirfd, const char *path, const struct open_how *how, size_t size), \
           SYS_openat2)                                                                          \
    SYMBOL(int, open_by_handle_at, (int mount, struct file_handle *handle, int flags),           \
           SYS_open_by_handle_at)                                                                \
    SYMBOL(int, mkstemp, (char *pattern))                                                        \
    TWIN(int, mkstemp64, (char *pattern), mkstemp)                                               \
    SYMBOL(int, mkostemp, (char *pattern, int flags))                                            \
    TWIN(int, mkostemp64, (char *pattern, int flags), mkostemp)                                  \
    SYMBOL(int, mkstemps, (char *pattern, int length))                                           \
    TWIN(int, mkstemps64, (char *pattern, int length), mkstemps)                                 \
    SYMBOL(int, mkostemps, (char *pattern, int length, int flags))                               \
    TWIN(int, mkostemps64, (char *pattern, int length, int flags), mkostemps)

#define PRELOAD_RW(SYMBOL, TWIN)                                                                   \
    SYMBOL(ssize_t, read, (int fd, void *buffer, size_t size), SYS_read)                           \
    TWIN(ssize_t, __read, (int fd, void *buffer, size_t size), read)                               \
    SYMBOL(ssize_t, __read_chk, (int fd, void *buffer, size_t size, size_t room))                  \
    SYMBOL(ssize_t, write, (int fd, const void *buffer, size_t size), SYS_write)                   \
    TWIN(ssize_t, __write, (int fd, const void *buffer, size_t size), write)                       \
    SYMBOL(ssize_t, pread, (int fd, void *buffer, size_t size, off_t offset), SYS_pread64)         \
    TWIN(ssize_t, pread64, (int fd, void *buffer, size_t size, off64_t offset), pread)             \
    TWIN(ssize_t, __pread64, (int fd, void *buffer, size_t size, off64_t offset), pread)           \
    SYMBOL(ssize_t, __pread_chk, (int fd, void *buffer, size_t size, off_t offset, size_t room))   \
    TWIN(ssize_t, __pread64_chk, (int fd, void *buffer, size_t size, off64_t offset, size_t room), \
         __pread_chk)                                                                              \
    SYMBOL(ssize_t, pwrite, (int fd, const void *buffer, size_t size, off_t offset), SYS_pwrite64) \
    TWIN(ssize_t, pwrite64, (int fd, const void *buffer, size_t size, off64_t offset), pwrite)     \
    TWIN(ssize_t, __pwrite64, (int fd, const void *buffer, size_t size, off64_t offset), pwrite)   \
    SYMBOL(ssize_t, readv, (int fd, const struct iovec *vectors, int count), SYS_readv)            \
    SYMBOL(ssize_t, writev, (int fd, const struct iovec *vectors, int count), SYS_writev)          \
    SYMBOL(ssize_t, preadv, (int fd, const struct iovec *vectors, int count, off_t offset),        \
           SYS_preadv)                                                                             \
    TWIN(ssize_t, preadv64, (int fd, const struct iovec *vectors, int count, off64_t offset),      \
         preadv)                                                                                   \
    SYMBOL(ssize_t, pwritev, (int fd, const struct iovec *vectors, int count, off_t offset),       \
           SYS_pwritev)                                                                            \
    TWIN(ssize_t, pwritev64, (int fd, const struct iovec *vectors, int count, off64_t offset),     \
         pwritev)                                                                                  \
    SYMBOL(ssize_t, preadv2,                                                                       \
           (int fd, const struct iovec *vectors, int count, off_t offset, int flags))              \
    TWIN(ssize_t, preadv64v2,                                                                      \
         (int fd, const struct iovec *vectors, int count, off64_t offset, int flags), preadv2)     \
    SYMBOL(ssize_t, pwritev2,                                                                      \
           (int fd, const struct iovec *vectors, int count, off_t offset, int flags))              \
    TWIN(ssize_t, pwritev64v2,                                                                     \
         (int fd, const struct iovec *vectors, int count, off64_t offset, int flags), pwritev2)

#define PRELOAD_SEEK(SYMBOL, TWIN)                                      \
    SYMBOL(off_t, lseek, (int fd, off_t offset, int whence), SYS_lseek) \
    TWIN(off64_t, lseek64, (int fd, off64_t offset, int whence), lseek) \
    TWIN(off_t, __lseek, (int fd, off_t offset, int whence), lseek)     \
    TWIN(off64_t, llseek, (int fd, off64_t offset, int whence), lseek)

#define PRELOAD_SYNC(SYMBOL, TWIN)                                                         \
    SYMBOL(int, fsync, (int fd), SYS_fsync)                                                \
    SYMBOL(int, fdatasync, (int fd), SYS_fdatasync)                                        \
    SYMBOL(int, sync_file_range, (int fd, off64_t offset, off64_t length, unsigned flags), \
           SYS_sync_file_range)                                                            \
    SYMBOL(void, sync, (void))                                                             \
    SYMBOL(int, syncfs, (int fd), SYS_syncfs)

#define PRELOAD_SIZE(SYMBOL, TWIN)                                                                 \
    SYMBOL(int, ftruncate, (int fd, off_t size), SYS_ftruncate)                                    \
    TWIN(int, ftruncate64, (int fd, off64_t size), ftruncate)                                      \
    SYMBOL(int, truncate, (const char *path, off_t size), SYS_truncate)                            \
    TWIN(int, truncate64, (const char *path, off64_t size), truncate)                              \
    SYMBOL(int, fallocate, (int fd, int mode, off_t offset, off_t length), SYS_fallocate)          \
    TWIN(int, fallocate64, (int fd, int mode, off64_t offset, off64_t length), fallocate)          \
    SYMBOL(int, posix_fallocate, (int fd, off_t offset, off_t length))                             \
    TWIN(int, posix_fallocate64, (int fd, off64_t offset, off64_t length), posix_fallocate)        \
    SYMBOL(int, setrlimit, (__rlimit_resource_t resource, const struct rlimit *limit),             \
           SYS_setrlimit)                                                                          \
    TWIN(int, setrlimit64, (__rlimit_resource_t resource, const struct rlimit64 *limit),           \
         setrlimit)                                                                                \
    SYMBOL(                                                                                        \
        int, prlimit,                                                                              \
        (pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit, struct rlimit *old), \
        SYS_prlimit64)                                                                             \
    TWIN(int, prlimit64,                                                                           \
         (pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limit,                   \
          struct rlimit64 *old),                                                                   \
         prlimit)

#define PRELOAD_FLAGS(SYMBOL, TWIN)                              \
    SYMBOL(int, fcntl, (int fd, int command, ...), SYS_fcntl)    \
    TWIN(int, fcntl64, (int fd, int command, ...), fcntl)        \
    TWIN(int, __fcntl, (int fd, int command, ...), fcntl)        \
    SYMBOL(int, flock, (int fd, int operation), SYS_flock)       \
    SYMBOL(int, lockf, (int fd, int command, off_t size))        \
    TWIN(int, lockf64, (int fd, int command, off_t size), lockf) \
    SYMBOL(int, ioctl, (int fd, unsigned long request, ...), SYS_ioctl)

#define PRELOAD_CLOSE(SYMBOL, TWIN)                                                       \
    SYMBOL(int, close, (int fd), SYS_close)                                               \
    TWIN(int, __close, (int fd), close)                                                   \
    SYMBOL(int, close_range, (unsigned first, unsigned last, int flags), SYS_close_range) \
    SYMBOL(void, closefrom, (int lowest))                                                 \
    SYMBOL(int, dup, (int fd), SYS_dup)                                                   \
    SYMBOL(int, dup2, (int from, int to))                                                 \
    TWIN(int, __dup2, (int from, int to), dup2)                                           \
    SYMBOL(int, dup3, (int from, int to, int flags), SYS_dup3)

#define PRELOAD_STAT(SYMBOL, TWIN)                                                                 \
    SYMBOL(int, stat, (const char *path, struct stat *status))                                     \
    TWIN(int, stat64, (const char *path, struct stat64 *status), stat)                             \
    SYMBOL(int, lstat, (const char *path, struct stat *status))                                    \
    TWIN(int, lstat64, (const char *path, struct stat64 *status), lstat)                           \
    SYMBOL(int, fstat, (int fd, struct stat *status), SYS_fstat)                                   \
    TWIN(int, fstat64, (int fd, struct stat64 *status), fstat)                                     \
    SYMBOL(int, fstatat, (int dirfd, const char *path, struct stat *status, int flags),            \
           SYS_newfstatat)                                                                         \
    TWIN(int, fstatat64, (int dirfd, const char *path, struct stat64 *status, int flags), fstatat) \
    SYMBOL(int, statx,                                                                             \
           (int dirfd, const char *path, int flags, unsigned mask, struct statx *status),          \
           SYS_statx)                                                                              \
    SYMBOL(int, __xstat, (int version, const char *path, struct stat *status))                     \
    TWIN(int, __xstat64, (int version, const char *path, struct stat64 *status), __xstat)          \
    SYMBOL(int, __lxstat, (int version, const char *path, struct stat *status))                    \
    TWIN(int, __lxstat64, (int version, const char *path, struct stat64 *status), __lxstat)        \
    SYMBOL(int, __fxstat, (int version, int fd, struct stat *status))                              \
    TWIN(int, __fxstat64, (int version, int fd, struct stat64 *status), __fxstat)                  \
    SYMBOL(int, __fxstatat,                                                                        \
           (int version, int dirfd, const char *path, struct stat *status, int flags))             \
    TWIN(int, __fxstatat64,                                                                        \
         (int version, int dirfd, const char *path, struct stat64 *status, int flags), __fxstatat)

#define PRELOAD_STDIO(SYMBOL, TWIN)                                                        \
    SYMBOL(FILE *, fopen, (const char *path, const char *mode))                            \
    TWIN(FILE *, fopen64, (const char *path, const char *mode), fopen)                     \
    TWIN(FILE *, _IO_fopen, (const char *path, const char *mode), fopen)                   \
    SYMBOL(FILE *, freopen, (const char *path, const char *mode, FILE *stream))            \
    TWIN(FILE *, freopen64, (const char *path, const char *mode, FILE *stream), freopen)   \
    SYMBOL(FILE *, fdopen, (int fd, const char *mode))                                     \
    TWIN(FILE *, _IO_fdopen, (int fd, const char *mode), fdopen)                           \
    SYMBOL(int, fclose, (FILE * stream))                                                   \
    TWIN(int, _IO_fclose, (FILE * stream), fclose)                                         \
    SYMBOL(void, backtrace_symbols_fd, (void *const *addresses, int count, int fd))        \
    TWIN(void, __backtrace_symbols_fd, (void *const *addresses, int count, int fd),        \
         backtrace_symbols_fd)                                                             \
    SYMBOL(int, vdprintf, (int fd, const char *format, va_list arguments))                 \
    SYMBOL(int, dprintf, (int fd, const char *format, ...))                                \
    SYMBOL(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list arguments)) \
    SYMBOL(int, __dprintf_chk, (int fd, int flag, const char *format, ...))

#define PRELOAD_MAP(SYMBOL, TWIN)                                                               \
    SYMBOL(void *, mmap,                                                                        \
           (void *address, size_t size, int protection, int flags, int fd, off_t offset),       \
           SYS_mmap)                                                                            \
    TWIN(void *, mmap64,                                                                        \
         (void *address, size_t size, int protection, int flags, int fd, off64_t offset), mmap) \
    SYMBOL(int, posix_fadvise, (int fd, off_t offset, off_t length, int advice))                \
    TWIN(int, posix_fadvise64, (int fd, off64_t offset, off64_t length, int advice),            \
         posix_fadvise)                                                                         \
    SYMBOL(ssize_t, readahead, (int fd, off64_t offset, size_t count), SYS_readahead)

#define PRELOAD_ASYNC(SYMBOL, TWIN)                                                       \
    SYMBOL(int, aio_read, (struct aiocb * control))                                       \
    TWIN(int, aio_read64, (struct aiocb64 * control), aio_read)                           \
    SYMBOL(int, aio_write, (struct aiocb * control))                                      \
    TWIN(int, aio_write64, (struct aiocb64 * control), aio_write)                         \
    SYMBOL(int, aio_fsync, (int operation, struct aiocb *control))                        \
    TWIN(int, aio_fsync64, (int operation, struct aiocb64 *control), aio_fsync)           \
    SYMBOL(int, aio_error, (const struct aiocb *control))                                 \
    TWIN(int, aio_error64, (const struct aiocb64 *control), aio_error)                    \
    SYMBOL(int, aio_suspend,                                                              \
           (const struct aiocb *const list[], int count, const struct timespec *timeout)) \
    TWIN(int, aio_suspend64,                                                              \
         (const struct aiocb64 *const list[], int count, const struct timespec *timeout), \
         aio_suspend)                                                                     \
    SYMBOL(int, aio_cancel, (int fd, struct aiocb *control))                              \
    TWIN(int, aio_cancel64, (int fd, struct aiocb64 *control), aio_cancel)                \
    SYMBOL(int, lio_listio,                                                               \
           (int mode, struct aiocb *const *list, int count, struct sigevent *event))      \
    TWIN(int, lio_listio64,                                                               \
         (int mode, struct aiocb64 *const *list, int count, struct sigevent *event), lio_listio)

#define PRELOAD_COPY(SYMBOL, TWIN)                                                                 \
    SYMBOL(ssize_t, sendfile, (int out, int in, off_t *offset, size_t count), SYS_sendfile)        \
    TWIN(ssize_t, sendfile64, (int out, int in, off64_t *offset, size_t count), sendfile)          \
    SYMBOL(                                                                                        \
        ssize_t, copy_file_range,                                                                  \
        (int in, off64_t *in_offset, int out, off64_t *out_offset, size_t length, unsigned flags), \
        SYS_copy_file_range)                                                                       \
    SYMBOL(                                                                                        \
        ssize_t, splice,                                                                           \
        (int in, off64_t *in_offset, int out, off64_t *out_offset, size_t length, unsigned flags), \
        SYS_splice)                                                                                \
    SYMBOL(ssize_t, tee, (int in, int out, size_t length, unsigned flags), SYS_tee)                \
    SYMBOL(ssize_t, vmsplice, (int fd, const struct iovec *vectors, size_t count, unsigned flags), \
           SYS_vmsplice)

#define PRELOAD_RECEIVE(SYMBOL, TWIN)                                                            \
    SYMBOL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), SYS_recvmsg)           \
    SYMBOL(                                                                                      \
        int, recvmmsg,                                                                           \
        (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout), \
        SYS_recvmmsg)                                                                            \
    SYMBOL(int, pidfd_getfd, (int pidfd, int target, unsigned flags), SYS_pidfd_getfd)           \
    SYMBOL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), SYS_sendmsg)     \
    SYMBOL(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags),         \
           SYS_sendmmsg)

#define PRELOAD_PROCESS(SYMBOL, TWIN)                                                          \
    SYMBOL(pid_t, fork, (void))                                                                \
    TWIN(pid_t, __fork, (void), fork)                                                          \
    TWIN(pid_t, vfork, (void), fork)                                                           \
    TWIN(pid_t, __vfork, (void), fork)                                                         \
    SYMBOL(pid_t, _Fork, (void))                                                               \
    SYMBOL(int, clone, (int (*function)(void *), void *stack, int flags, void *argument, ...)) \
    TWIN(int, __clone, (int (*function)(void *), void *stack, int flags, void *argument, ...), \
         clone)                                                                                \
    SYMBOL(int, execl, (const char *path, const char *argument, ...))                          \
    SYMBOL(int, execle, (const char *path, const char *argument, ...))                         \
    SYMBOL(int, execlp, (const char *file, const char *argument, ...))                         \
    SYMBOL(int, execv, (const char *path, char *const argv[]))                                 \
    SYMBOL(int, execve, (const char *path, char *const argv[], char *const envp[]))            \
    SYMBOL(int, execvp, (const char *file, char *const argv[]))                                \
    SYMBOL(int, execvpe, (const char *file, char *const argv[], char *const envp[]))           \
    SYMBOL(int, fexecve, (int fd, char *const argv[], char *const envp[]))                     \
    SYMBOL(int, execveat,                                                                      \
           (int dirfd, const char *path, char *const argv[], char *const envp[], int flags))   \
    SYMBOL(int, posix_spawn,                                                                   \
           (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,          \
            const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]))      \
    SYMBOL(int, posix_spawnp,                                                                  \
           (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,          \
            const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]))      \
    SYMBOL(int, system, (const char *command))                                                 \
    SYMBOL(FILE *, popen, (const char *command, const char *mode))                             \
    TWIN(FILE *, _IO_popen, (const char *command, const char *mode), popen)                    \
    SYMBOL(void, _exit, (int status))                                                          \
    TWIN(void, _Exit, (int status), _exit)                                                     \
    SYMBOL(void, quick_exit, (int status))                                                     \
    SYMBOL(void, pthread_exit, (void *result))                                                 \
    SYMBOL(void *, dlopen, (const char *file, int mode))                                       \
    SYMBOL(void *, dlmopen, (Lmid_t space, const char *file, int mode))

#define PRELOAD_USER(SYMBOL, TWIN)                                     \
    SYMBOL(int, setuid, (uid_t user))                                  \
    SYMBOL(int, seteuid, (uid_t user))                                 \
    SYMBOL(int, setreuid, (uid_t real, uid_t effective))               \
    SYMBOL(int, setresuid, (uid_t real, uid_t effective, uid_t saved)) \
    SYMBOL(int, chroot, (const char *path), SYS_chroot)

#define PRELOAD_LOOKUP(SYMBOL, TWIN) SYMBOL(void *, dlsym, (void *handle, const char *name))

#define PRELOAD_LIBAIO(SYMBOL, TWIN)                                                \
    SYMBOL(int, io_setup, (int count, aio_context_t *context))                      \
    SYMBOL(int, io_destroy, (aio_context_t context))                                \
    SYMBOL(int, io_submit, (aio_context_t context, long count, struct iocb **list)) \
    SYMBOL(int, io_getevents,                                                       \
           (aio_context_t context, long least, long most, struct io_event *events,  \
            struct timespec *timeout))                                              \
    SYMBOL(int, io_pgetevents,                                                      \
           (aio_context_t context, long least, long most, struct io_event *events,  \
            struct timespec *timeout, sigset_t *mask))                              \
    SYMBOL(int, io_queue_init, (int count, aio_context_t *context))                 \
    SYMBOL(int, io_queue_release, (aio_context_t context))                          \
    SYMBOL(int, io_queue_run, (aio_context_t context))                              \
    SYMBOL(int, io_queue_wait, (aio_context_t context, struct timespec * timeout))

#define PRELOAD_SYSCALL(SYMBOL, TWIN) SYMBOL(long, syscall, (long number, ...))

#define PRELOAD_URING(SYMBOL, TWIN)                                                                \
    SYMBOL(int, io_uring_queue_init, (unsigned entries, struct io_uring *ring, unsigned flags))    \
    SYMBOL(int, io_uring_queue_init_params,                                                        \
           (unsigned entries, struct io_uring *ring, struct io_uring_params *parameters))          \
    SYMBOL(int, io_uring_queue_init_mem,                                                           \
           (unsigned entries, struct io_uring *ring, struct io_uring_params *parameters,           \
            void *memory, size_t size))                                                            \
    SYMBOL(int, io_uring_queue_mmap,                                                               \
           (int fd, struct io_uring_params *parameters, struct io_uring *ring))                    \
    SYMBOL(void, io_uring_queue_exit, (struct io_uring * ring))                                    \
    SYMBOL(int, io_uring_enable_rings, (struct io_uring * ring))                                   \
    SYMBOL(int, io_uring_resize_rings,                                                             \
           (struct io_uring * ring, struct io_uring_params * parameters))                          \
    SYMBOL(int, io_uring_close_ring_fd, (struct io_uring * ring))                                  \
    SYMBOL(int, io_uring_submit, (struct io_uring * ring))                                         \
    SYMBOL(int, io_uring_submit_and_get_events, (struct io_uring * ring))                          \
    SYMBOL(int, io_uring_submit_and_wait, (struct io_uring * ring, unsigned wait_nr))              \
    SYMBOL(int, io_uring_submit_and_wait_timeout,                                                  \
           (struct io_uring * ring, struct io_uring_cqe * *cqe, unsigned wait_nr,                  \
            struct __kernel_timespec *limit, sigset_t *mask))                                      \
    SYMBOL(int, io_uring_submit_and_wait_min_timeout,                                              \
           (struct io_uring * ring, struct io_uring_cqe * *cqe, unsigned wait_nr,                  \
            struct __kernel_timespec *limit, unsigned min_wait, sigset_t *mask))                   \
    SYMBOL(int, io_uring_submit_and_wait_reg,                                                      \
           (struct io_uring * ring, struct io_uring_cqe * *cqe, unsigned wait_nr, int index))      \
    SYMBOL(int, __io_uring_get_cqe,                                                                \
           (struct io_uring * ring, struct io_uring_cqe * *cqe, unsigned submit, unsigned wait_nr, \
            sigset_t *mask))                                                                       \
    SYMBOL(int, io_uring_wait_cqes,                                                                \
           (struct io_uring * ring, struct io_uring_cqe * *cqe, unsigned wait_nr,                  \
            struct __kernel_timespec *limit, sigset_t *mask))                                      \
    SYMBOL(int, io_uring_wait_cqes_min_timeout,                                                    \
           (struct io_uring * ring, struct io_uring_cqe * *cqe, unsigned wait_nr,                  \
            struct __kernel_timespec *limit, unsigned min_wait, sigset_t *mask))                   \
    SYMBOL(int, io_uring_wait_cqe_timeout,                                                         \
           (struct io_uring * ring, struct io_uring_cqe * *cqe, struct __kernel_timespec * limit)) \
    SYMBOL(unsigned, io_uring_peek_batch_cqe,                                                      \
           (struct io_uring * ring, struct io_uring_cqe * *cqes, unsigned count))                  \
    SYMBOL(int, io_uring_get_events, (struct io_uring * ring))

#define PRELOAD_URING_REGISTER(SYMBOL, TWIN)                                                  \
    SYMBOL(int, io_uring_register_files,                                                      \
           (struct io_uring * ring, const int *files, unsigned count))                        \
    SYMBOL(int, io_uring_register_files_tags,                                                 \
           (struct io_uring * ring, const int *files, const __u64 *tags, unsigned count))     \
    SYMBOL(int, io_uring_register_files_sparse, (struct io_uring * ring, unsigned count))     \
    SYMBOL(int, io_uring_register_files_update,                                               \
           (struct io_uring * ring, unsigned offset, const int *files, unsigned count))       \
    SYMBOL(int, io_uring_register_files_update_tag,                                           \
           (struct io_uring * ring, unsigned offset, const int *files, const __u64 *tags,     \
            unsigned count))                                                                  \
    SYMBOL(int, io_uring_unregister_files, (struct io_uring * ring))                          \
    SYMBOL(int, io_uring_register_eventfd, (struct io_uring * ring, int fd))                  \
    SYMBOL(int, io_uring_register_eventfd_async, (struct io_uring * ring, int fd))            \
    SYMBOL(int, io_uring_setup, (unsigned entries, struct io_uring_params *parameters))       \
    SYMBOL(int, io_uring_enter,                                                               \
           (unsigned fd, unsigned submit, unsigned complete, unsigned flags, sigset_t *mask)) \
    SYMBOL(int, io_uring_enter2,                                                              \
           (unsigned fd, unsigned submit, unsigned complete, unsigned flags, void *argument,  \
            size_t size))                                                                     \
    SYMBOL(int, io_uring_register,                                                            \
           (unsigned fd, unsigned operation, const void *argument, unsigned count))

#define PRELOAD_SIGNAL(SYMBOL, TWIN)                                                            \
    SYMBOL(int, sigaction, (int number, const struct sigaction *action, struct sigaction *old)) \
    TWIN(int, __sigaction, (int number, const struct sigaction *action, struct sigaction *old), \
         sigaction)                                                                             \
    SYMBOL(preload_handler, signal, (int number, preload_handler handler))                      \
    TWIN(preload_handler, bsd_signal, (int number, preload_handler handler), signal)            \
    TWIN(preload_handler, ssignal, (int number, preload_handler handler), signal)               \
    SYMBOL(preload_handler, sysv_signal, (int number, preload_handler handler))                 \
    TWIN(preload_handler, __sysv_signal, (int number, preload_handler handler), sysv_signal)    \
    SYMBOL(preload_handler, sigset, (int number, preload_handler disposition))                  \
    SYMBOL(int, siginterrupt, (int number, int interrupt))

#define PRELOAD_ALL(SYMBOL, TWIN)        \
    PRELOAD_OPEN(SYMBOL, TWIN)           \
    PRELOAD_RW(SYMBOL, TWIN)             \
    PRELOAD_SEEK(SYMBOL, TWIN)           \
    PRELOAD_SYNC(SYMBOL, TWIN)           \
    PRELOAD_SIZE(SYMBOL, TWIN)           \
    PRELOAD_FLAGS(SYMBOL, TWIN)          \
    PRELOAD_CLOSE(SYMBOL, TWIN)          \
    PRELOAD_STAT(SYMBOL, TWIN)           \
    PRELOAD_STDIO(SYMBOL, TWIN)          \
    PRELOAD_MAP(SYMBOL, TWIN)            \
    PRELOAD_ASYNC(SYMBOL, TWIN)          \
    PRELOAD_COPY(SYMBOL, TWIN)           \
    PRELOAD_RECEIVE(SYMBOL, TWIN)        \
    PRELOAD_PROCESS(SYMBOL, TWIN)        \
    PRELOAD_USER(SYMBOL, TWIN)           \
    PRELOAD_LOOKUP(SYMBOL, TWIN)         \
    PRELOAD_LIBAIO(SYMBOL, TWIN)         \
    PRELOAD_SYSCALL(SYMBOL, TWIN)        \
    PRELOAD_URING(SYMBOL, TWIN)          \
    PRELOAD_URING_REGISTER(SYMBOL, TWIN) \
    PRELOAD_SIGNAL(SYMBOL, TWIN)

#endif
