/*
 * Every symbol the library puts in front of libc, in one list. From it come the prototypes, the
 * table of real functions, the raw calls in their place, what syscall() and dlsym() pass to
 * wrappers, the other names that the linker gives them (Makefile), and what `directnfs check
 * --program` knows.
 *
 *   SYMBOL(type, name, parameters)          a wrapper of its own
 *   SYMBOL(type, name, parameters, number)  the wrapper of a system call with the same arguments
 *                                           and the same result
 *   TWIN(name, target)                      another name for the wrapper `target`, which must have
 *                                           the same calling convention: 64-bit off_t is assumed
 *
 * A new wrapper: a line here, with its twins; the function, in the file of the family, with
 * PRELOAD_EXPORT; a test in test/integration; libdirectnfs(8). If data of files passes by it, its
 * number stands in cmd/check/code.c, too, and if its system call has other arguments, in syscall.c.
 * test/integration/twins finds a name that is forgotten here and one that is not exported.
 */
#ifndef PRELOAD_SYMBOLS_H
#define PRELOAD_SYMBOLS_H

#define PRELOAD_ALL(SYMBOL, TWIN)                                                                  \
    /* open.c */                                                                                   \
    SYMBOL(int, open, (const char *path, int flags, ...))                                          \
    TWIN(open64, open)                                                                             \
    TWIN(__open, open)                                                                             \
    TWIN(__open64, open)                                                                           \
    SYMBOL(int, __open_2, (const char *path, int flags))                                           \
    TWIN(__open64_2, __open_2)                                                                     \
    SYMBOL(int, openat, (int dirfd, const char *path, int flags, ...), SYS_openat)                 \
    TWIN(openat64, openat)                                                                         \
    SYMBOL(int, __openat_2, (int dirfd, const char *path, int flags))                              \
    TWIN(__openat64_2, __openat_2)                                                                 \
    SYMBOL(int, creat, (const char *path, mode_t mode), SYS_creat)                                 \
    TWIN(creat64, creat)                                                                           \
    SYMBOL(int, openat2, (int dirfd, const char *path, const struct open_how *how, size_t size),   \
           SYS_openat2)                                                                            \
    SYMBOL(int, open_by_handle_at, (int mount, struct file_handle *handle, int flags),             \
           SYS_open_by_handle_at)                                                                  \
    SYMBOL(int, mkstemp, (char *pattern))                                                          \
    TWIN(mkstemp64, mkstemp)                                                                       \
    SYMBOL(int, mkostemp, (char *pattern, int flags))                                              \
    TWIN(mkostemp64, mkostemp)                                                                     \
    SYMBOL(int, mkstemps, (char *pattern, int length))                                             \
    TWIN(mkstemps64, mkstemps)                                                                     \
    SYMBOL(int, mkostemps, (char *pattern, int length, int flags))                                 \
    TWIN(mkostemps64, mkostemps)                                                                   \
    /* rw.c */                                                                                     \
    SYMBOL(ssize_t, read, (int fd, void *buffer, size_t size), SYS_read)                           \
    TWIN(__read, read)                                                                             \
    SYMBOL(ssize_t, __read_chk, (int fd, void *buffer, size_t size, size_t room))                  \
    SYMBOL(ssize_t, write, (int fd, const void *buffer, size_t size), SYS_write)                   \
    TWIN(__write, write)                                                                           \
    SYMBOL(ssize_t, pread, (int fd, void *buffer, size_t size, off_t offset), SYS_pread64)         \
    TWIN(pread64, pread)                                                                           \
    TWIN(__pread64, pread)                                                                         \
    SYMBOL(ssize_t, __pread_chk, (int fd, void *buffer, size_t size, off_t offset, size_t room))   \
    TWIN(__pread64_chk, __pread_chk)                                                               \
    SYMBOL(ssize_t, pwrite, (int fd, const void *buffer, size_t size, off_t offset), SYS_pwrite64) \
    TWIN(pwrite64, pwrite)                                                                         \
    TWIN(__pwrite64, pwrite)                                                                       \
    SYMBOL(ssize_t, readv, (int fd, const struct iovec *vectors, int count), SYS_readv)            \
    SYMBOL(ssize_t, writev, (int fd, const struct iovec *vectors, int count), SYS_writev)          \
    SYMBOL(ssize_t, preadv, (int fd, const struct iovec *vectors, int count, off_t offset),        \
           SYS_preadv)                                                                             \
    TWIN(preadv64, preadv)                                                                         \
    SYMBOL(ssize_t, pwritev, (int fd, const struct iovec *vectors, int count, off_t offset),       \
           SYS_pwritev)                                                                            \
    TWIN(pwritev64, pwritev)                                                                       \
    SYMBOL(ssize_t, preadv2,                                                                       \
           (int fd, const struct iovec *vectors, int count, off_t offset, int flags))              \
    TWIN(preadv64v2, preadv2)                                                                      \
    SYMBOL(ssize_t, pwritev2,                                                                      \
           (int fd, const struct iovec *vectors, int count, off_t offset, int flags))              \
    TWIN(pwritev64v2, pwritev2)                                                                    \
    SYMBOL(off_t, lseek, (int fd, off_t offset, int whence), SYS_lseek)                            \
    TWIN(lseek64, lseek)                                                                           \
    TWIN(__lseek, lseek)                                                                           \
    TWIN(llseek, lseek)                                                                            \
    /* sync.c */                                                                                   \
    SYMBOL(int, fsync, (int fd), SYS_fsync)                                                        \
    SYMBOL(int, fdatasync, (int fd), SYS_fdatasync)                                                \
    SYMBOL(int, sync_file_range, (int fd, off64_t offset, off64_t length, unsigned flags),         \
           SYS_sync_file_range)                                                                    \
    SYMBOL(void, sync, (void))                                                                     \
    SYMBOL(int, syncfs, (int fd), SYS_syncfs)                                                      \
    /* size.c */                                                                                   \
    SYMBOL(int, ftruncate, (int fd, off_t size), SYS_ftruncate)                                    \
    TWIN(ftruncate64, ftruncate)                                                                   \
    SYMBOL(int, truncate, (const char *path, off_t size), SYS_truncate)                            \
    TWIN(truncate64, truncate)                                                                     \
    SYMBOL(int, fallocate, (int fd, int mode, off_t offset, off_t length), SYS_fallocate)          \
    TWIN(fallocate64, fallocate)                                                                   \
    SYMBOL(int, posix_fallocate, (int fd, off_t offset, off_t length))                             \
    TWIN(posix_fallocate64, posix_fallocate)                                                       \
    SYMBOL(int, setrlimit, (__rlimit_resource_t resource, const struct rlimit *limit),             \
           SYS_setrlimit)                                                                          \
    TWIN(setrlimit64, setrlimit)                                                                   \
    SYMBOL(                                                                                        \
        int, prlimit,                                                                              \
        (pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit, struct rlimit *old), \
        SYS_prlimit64)                                                                             \
    TWIN(prlimit64, prlimit)                                                                       \
    /* flags.c */                                                                                  \
    SYMBOL(int, fcntl, (int fd, int command, ...), SYS_fcntl)                                      \
    TWIN(fcntl64, fcntl)                                                                           \
    TWIN(__fcntl, fcntl)                                                                           \
    SYMBOL(int, flock, (int fd, int operation), SYS_flock)                                         \
    SYMBOL(int, lockf, (int fd, int command, off_t size))                                          \
    TWIN(lockf64, lockf)                                                                           \
    SYMBOL(int, ioctl, (int fd, unsigned long request, ...), SYS_ioctl)                            \
    /* close.c */                                                                                  \
    SYMBOL(int, close, (int fd), SYS_close)                                                        \
    TWIN(__close, close)                                                                           \
    SYMBOL(int, close_range, (unsigned first, unsigned last, int flags), SYS_close_range)          \
    SYMBOL(void, closefrom, (int lowest))                                                          \
    SYMBOL(int, dup, (int fd), SYS_dup)                                                            \
    SYMBOL(int, dup2, (int from, int to), SYS_dup2)                                                \
    TWIN(__dup2, dup2)                                                                             \
    SYMBOL(int, dup3, (int from, int to, int flags), SYS_dup3)                                     \
    /* stat.c */                                                                                   \
    SYMBOL(int, stat, (const char *path, struct stat *status), SYS_stat)                           \
    TWIN(stat64, stat)                                                                             \
    SYMBOL(int, lstat, (const char *path, struct stat *status), SYS_lstat)                         \
    TWIN(lstat64, lstat)                                                                           \
    SYMBOL(int, fstat, (int fd, struct stat *status), SYS_fstat)                                   \
    TWIN(fstat64, fstat)                                                                           \
    SYMBOL(int, fstatat, (int dirfd, const char *path, struct stat *status, int flags),            \
           SYS_newfstatat)                                                                         \
    TWIN(fstatat64, fstatat)                                                                       \
    SYMBOL(int, statx,                                                                             \
           (int dirfd, const char *path, int flags, unsigned mask, struct statx *status),          \
           SYS_statx)                                                                              \
    SYMBOL(int, __xstat, (int version, const char *path, struct stat *status))                     \
    TWIN(__xstat64, __xstat)                                                                       \
    SYMBOL(int, __lxstat, (int version, const char *path, struct stat *status))                    \
    TWIN(__lxstat64, __lxstat)                                                                     \
    SYMBOL(int, __fxstat, (int version, int fd, struct stat *status))                              \
    TWIN(__fxstat64, __fxstat)                                                                     \
    SYMBOL(int, __fxstatat,                                                                        \
           (int version, int dirfd, const char *path, struct stat *status, int flags))             \
    TWIN(__fxstatat64, __fxstatat)                                                                 \
    /* stdio.c */                                                                                  \
    SYMBOL(FILE *, fopen, (const char *path, const char *mode))                                    \
    TWIN(fopen64, fopen)                                                                           \
    TWIN(_IO_fopen, fopen)                                                                         \
    SYMBOL(FILE *, freopen, (const char *path, const char *mode, FILE *stream))                    \
    TWIN(freopen64, freopen)                                                                       \
    SYMBOL(FILE *, fdopen, (int fd, const char *mode))                                             \
    TWIN(_IO_fdopen, fdopen)                                                                       \
    SYMBOL(int, fclose, (FILE * stream))                                                           \
    TWIN(_IO_fclose, fclose)                                                                       \
    SYMBOL(void, backtrace_symbols_fd, (void *const *addresses, int count, int fd))                \
    TWIN(__backtrace_symbols_fd, backtrace_symbols_fd)                                             \
    SYMBOL(int, vdprintf, (int fd, const char *format, va_list arguments))                         \
    SYMBOL(int, dprintf, (int fd, const char *format, ...))                                        \
    SYMBOL(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list arguments))         \
    SYMBOL(int, __dprintf_chk, (int fd, int flag, const char *format, ...))                        \
    /* map.c */                                                                                    \
    SYMBOL(void *, mmap,                                                                           \
           (void *address, size_t size, int protection, int flags, int fd, off_t offset),          \
           SYS_mmap)                                                                               \
    TWIN(mmap64, mmap)                                                                             \
    SYMBOL(int, posix_fadvise, (int fd, off_t offset, off_t length, int advice))                   \
    TWIN(posix_fadvise64, posix_fadvise)                                                           \
    SYMBOL(ssize_t, readahead, (int fd, off64_t offset, size_t count), SYS_readahead)              \
    /* posix_aio/posix_aio.c */                                                                    \
    SYMBOL(int, aio_read, (struct aiocb * control))                                                \
    TWIN(aio_read64, aio_read)                                                                     \
    SYMBOL(int, aio_write, (struct aiocb * control))                                               \
    TWIN(aio_write64, aio_write)                                                                   \
    SYMBOL(int, aio_fsync, (int operation, struct aiocb *control))                                 \
    TWIN(aio_fsync64, aio_fsync)                                                                   \
    SYMBOL(int, aio_error, (const struct aiocb *control))                                          \
    TWIN(aio_error64, aio_error)                                                                   \
    SYMBOL(int, aio_suspend,                                                                       \
           (const struct aiocb *const list[], int count, const struct timespec *timeout))          \
    TWIN(aio_suspend64, aio_suspend)                                                               \
    SYMBOL(int, aio_cancel, (int fd, struct aiocb *control))                                       \
    TWIN(aio_cancel64, aio_cancel)                                                                 \
    SYMBOL(int, lio_listio,                                                                        \
           (int mode, struct aiocb *const *list, int count, struct sigevent *event))               \
    TWIN(lio_listio64, lio_listio)                                                                 \
    /* copy.c */                                                                                   \
    SYMBOL(ssize_t, sendfile, (int out, int in, off_t *offset, size_t count), SYS_sendfile)        \
    TWIN(sendfile64, sendfile)                                                                     \
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
           SYS_vmsplice)                                                                           \
    /* receive.c */                                                                                \
    SYMBOL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), SYS_recvmsg)             \
    SYMBOL(                                                                                        \
        int, recvmmsg,                                                                             \
        (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),   \
        SYS_recvmmsg)                                                                              \
    SYMBOL(int, pidfd_getfd, (int pidfd, int target, unsigned flags), SYS_pidfd_getfd)             \
    SYMBOL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), SYS_sendmsg)       \
    SYMBOL(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags),           \
           SYS_sendmmsg)                                                                           \
    /* fork.c */                                                                                   \
    SYMBOL(pid_t, fork, (void))                                                                    \
    TWIN(__fork, fork)                                                                             \
    TWIN(vfork, fork)                                                                              \
    TWIN(__vfork, fork)                                                                            \
    SYMBOL(pid_t, _Fork, (void))                                                                   \
    SYMBOL(int, clone, (int (*function)(void *), void *stack, int flags, void *argument, ...))     \
    TWIN(__clone, clone)                                                                           \
    SYMBOL(int, execl, (const char *path, const char *argument, ...))                              \
    SYMBOL(int, execle, (const char *path, const char *argument, ...))                             \
    SYMBOL(int, execlp, (const char *file, const char *argument, ...))                             \
    SYMBOL(int, execv, (const char *path, char *const argv[]))                                     \
    SYMBOL(int, execve, (const char *path, char *const argv[], char *const envp[]))                \
    SYMBOL(int, execvp, (const char *file, char *const argv[]))                                    \
    SYMBOL(int, execvpe, (const char *file, char *const argv[], char *const envp[]))               \
    SYMBOL(int, fexecve, (int fd, char *const argv[], char *const envp[]))                         \
    SYMBOL(int, execveat,                                                                          \
           (int dirfd, const char *path, char *const argv[], char *const envp[], int flags))       \
    SYMBOL(int, posix_spawn,                                                                       \
           (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,              \
            const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]))          \
    SYMBOL(int, posix_spawnp,                                                                      \
           (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,              \
            const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]))          \
    SYMBOL(int, system, (const char *command))                                                     \
    SYMBOL(FILE *, popen, (const char *command, const char *mode))                                 \
    TWIN(_IO_popen, popen)                                                                         \
    SYMBOL(void, _exit, (int status))                                                              \
    TWIN(_Exit, _exit)                                                                             \
    SYMBOL(void, quick_exit, (int status))                                                         \
    SYMBOL(void, pthread_exit, (void *result))                                                     \
    SYMBOL(void *, dlopen, (const char *file, int mode))                                           \
    SYMBOL(void *, dlmopen, (Lmid_t space, const char *file, int mode))                            \
    /* user.c */                                                                                   \
    SYMBOL(int, setuid, (uid_t user))                                                              \
    SYMBOL(int, seteuid, (uid_t user))                                                             \
    SYMBOL(int, setreuid, (uid_t real, uid_t effective))                                           \
    SYMBOL(int, setresuid, (uid_t real, uid_t effective, uid_t saved))                             \
    SYMBOL(int, chroot, (const char *path), SYS_chroot)                                            \
    /* lookup.c */                                                                                 \
    SYMBOL(void *, dlsym, (void *handle, const char *name))                                        \
    /* aio/libaio.c */                                                                             \
    SYMBOL(int, io_setup, (int count, aio_context_t *context))                                     \
    SYMBOL(int, io_destroy, (aio_context_t context))                                               \
    SYMBOL(int, io_submit, (aio_context_t context, long count, struct iocb **list))                \
    SYMBOL(int, io_getevents,                                                                      \
           (aio_context_t context, long least, long most, struct io_event *events,                 \
            struct timespec *timeout))                                                             \
    SYMBOL(int, io_pgetevents,                                                                     \
           (aio_context_t context, long least, long most, struct io_event *events,                 \
            struct timespec *timeout, sigset_t *mask))                                             \
    SYMBOL(int, io_queue_init, (int count, aio_context_t *context))                                \
    SYMBOL(int, io_queue_release, (aio_context_t context))                                         \
    SYMBOL(int, io_queue_run, (aio_context_t context))                                             \
    SYMBOL(int, io_queue_wait, (aio_context_t context, struct timespec * timeout))                 \
    /* syscall.c */                                                                                \
    SYMBOL(long, syscall, (long number, ...))                                                      \
    /* uring/uring.c */                                                                            \
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
    SYMBOL(int, io_uring_get_events, (struct io_uring * ring))                                     \
    /* uring/register.c */                                                                         \
    SYMBOL(int, io_uring_register_files,                                                           \
           (struct io_uring * ring, const int *files, unsigned count))                             \
    SYMBOL(int, io_uring_register_files_tags,                                                      \
           (struct io_uring * ring, const int *files, const __u64 *tags, unsigned count))          \
    SYMBOL(int, io_uring_register_files_sparse, (struct io_uring * ring, unsigned count))          \
    SYMBOL(int, io_uring_register_files_update,                                                    \
           (struct io_uring * ring, unsigned offset, const int *files, unsigned count))            \
    SYMBOL(int, io_uring_register_files_update_tag,                                                \
           (struct io_uring * ring, unsigned offset, const int *files, const __u64 *tags,          \
            unsigned count))                                                                       \
    SYMBOL(int, io_uring_unregister_files, (struct io_uring * ring))                               \
    SYMBOL(int, io_uring_register_eventfd, (struct io_uring * ring, int fd))                       \
    SYMBOL(int, io_uring_register_eventfd_async, (struct io_uring * ring, int fd))                 \
    SYMBOL(int, io_uring_setup, (unsigned entries, struct io_uring_params *parameters))            \
    SYMBOL(int, io_uring_enter,                                                                    \
           (unsigned fd, unsigned submit, unsigned complete, unsigned flags, sigset_t *mask))      \
    SYMBOL(int, io_uring_enter2,                                                                   \
           (unsigned fd, unsigned submit, unsigned complete, unsigned flags, void *argument,       \
            size_t size))                                                                          \
    SYMBOL(int, io_uring_register,                                                                 \
           (unsigned fd, unsigned operation, const void *argument, unsigned count))                \
    /* signal.c */                                                                                 \
    SYMBOL(int, sigaction, (int number, const struct sigaction *action, struct sigaction *old))    \
    TWIN(__sigaction, sigaction)                                                                   \
    SYMBOL(preload_handler, signal, (int number, preload_handler handler))                         \
    TWIN(bsd_signal, signal)                                                                       \
    TWIN(ssignal, signal)                                                                          \
    SYMBOL(preload_handler, sysv_signal, (int number, preload_handler handler))                    \
    TWIN(__sysv_signal, sysv_signal)                                                               \
    SYMBOL(preload_handler, sigset, (int number, preload_handler disposition))                     \
    SYMBOL(int, siginterrupt, (int number, int interrupt))

#endif
