/*
 * The list of all symbols that the library puts in front of libc. Made from it: the table of real
 * functions; the raw calls that replace missing ones; what syscall() and dlsym() pass to wrappers;
 * the other names that the linker gives them (Makefile); what `directnfs check --program` knows.
 *
 *   SYMBOL(name)                a wrapper of its own
 *   SYMBOL(name, number, type)  the wrapper of a system call that has the same arguments and the
 *                               same result, of that type
 *   TWIN(name, target)          another name for the wrapper `target`. Both must have the same
 *                               calling convention: off_t has 64 bits
 *
 * A new wrapper needs a line here, with its twins; the function with PRELOAD_EXPORT, in the file of
 * its family; a test in test/integration; libdirectnfs(7). If data of files passes through it, add
 * its number to sys/code.c. If its system call has other arguments, add it to syscall.c.
 * test/integration/twins finds a name that is missing here, and one that is not exported.
 */
#ifndef PRELOAD_SYMBOLS_H
#define PRELOAD_SYMBOLS_H

#define PRELOAD_ALL(SYMBOL, TWIN)                         \
    /* open.c */                                          \
    SYMBOL(open)                                          \
    TWIN(open64, open)                                    \
    TWIN(__open, open)                                    \
    TWIN(__open64, open)                                  \
    SYMBOL(__open_2)                                      \
    TWIN(__open64_2, __open_2)                            \
    SYMBOL(openat, SYS_openat, int)                       \
    TWIN(openat64, openat)                                \
    SYMBOL(__openat_2)                                    \
    TWIN(__openat64_2, __openat_2)                        \
    SYMBOL(creat, SYS_creat, int)                         \
    TWIN(creat64, creat)                                  \
    SYMBOL(openat2, SYS_openat2, int)                     \
    SYMBOL(open_by_handle_at, SYS_open_by_handle_at, int) \
    SYMBOL(mkstemp)                                       \
    TWIN(mkstemp64, mkstemp)                              \
    SYMBOL(mkostemp)                                      \
    TWIN(mkostemp64, mkostemp)                            \
    SYMBOL(mkstemps)                                      \
    TWIN(mkstemps64, mkstemps)                            \
    SYMBOL(mkostemps)                                     \
    TWIN(mkostemps64, mkostemps)                          \
    /* rw.c */                                            \
    SYMBOL(read, SYS_read, ssize_t)                       \
    TWIN(__read, read)                                    \
    SYMBOL(__read_chk)                                    \
    SYMBOL(write, SYS_write, ssize_t)                     \
    TWIN(__write, write)                                  \
    SYMBOL(pread, SYS_pread64, ssize_t)                   \
    TWIN(pread64, pread)                                  \
    TWIN(__pread64, pread)                                \
    SYMBOL(__pread_chk)                                   \
    TWIN(__pread64_chk, __pread_chk)                      \
    SYMBOL(pwrite, SYS_pwrite64, ssize_t)                 \
    TWIN(pwrite64, pwrite)                                \
    TWIN(__pwrite64, pwrite)                              \
    SYMBOL(readv, SYS_readv, ssize_t)                     \
    SYMBOL(writev, SYS_writev, ssize_t)                   \
    SYMBOL(preadv, SYS_preadv, ssize_t)                   \
    TWIN(preadv64, preadv)                                \
    SYMBOL(pwritev, SYS_pwritev, ssize_t)                 \
    TWIN(pwritev64, pwritev)                              \
    SYMBOL(preadv2)                                       \
    TWIN(preadv64v2, preadv2)                             \
    SYMBOL(pwritev2)                                      \
    TWIN(pwritev64v2, pwritev2)                           \
    SYMBOL(lseek, SYS_lseek, off_t)                       \
    TWIN(lseek64, lseek)                                  \
    TWIN(__lseek, lseek)                                  \
    TWIN(llseek, lseek)                                   \
    /* sync.c */                                          \
    SYMBOL(fsync, SYS_fsync, int)                         \
    SYMBOL(fdatasync, SYS_fdatasync, int)                 \
    SYMBOL(sync_file_range, SYS_sync_file_range, int)     \
    SYMBOL(sync)                                          \
    SYMBOL(syncfs, SYS_syncfs, int)                       \
    /* size.c */                                          \
    SYMBOL(ftruncate, SYS_ftruncate, int)                 \
    TWIN(ftruncate64, ftruncate)                          \
    SYMBOL(truncate, SYS_truncate, int)                   \
    TWIN(truncate64, truncate)                            \
    SYMBOL(fallocate, SYS_fallocate, int)                 \
    TWIN(fallocate64, fallocate)                          \
    SYMBOL(posix_fallocate)                               \
    TWIN(posix_fallocate64, posix_fallocate)              \
    SYMBOL(setrlimit, SYS_setrlimit, int)                 \
    TWIN(setrlimit64, setrlimit)                          \
    SYMBOL(prlimit, SYS_prlimit64, int)                   \
    TWIN(prlimit64, prlimit)                              \
    /* flags.c */                                         \
    SYMBOL(fcntl, SYS_fcntl, int)                         \
    TWIN(fcntl64, fcntl)                                  \
    TWIN(__fcntl, fcntl)                                  \
    SYMBOL(flock, SYS_flock, int)                         \
    SYMBOL(lockf)                                         \
    TWIN(lockf64, lockf)                                  \
    SYMBOL(ioctl, SYS_ioctl, int)                         \
    /* close.c */                                         \
    SYMBOL(close, SYS_close, int)                         \
    TWIN(__close, close)                                  \
    SYMBOL(close_range, SYS_close_range, int)             \
    SYMBOL(closefrom)                                     \
    SYMBOL(dup, SYS_dup, int)                             \
    SYMBOL(dup2, SYS_dup2, int)                           \
    TWIN(__dup2, dup2)                                    \
    SYMBOL(dup3, SYS_dup3, int)                           \
    /* stat.c */                                          \
    SYMBOL(stat, SYS_stat, int)                           \
    TWIN(stat64, stat)                                    \
    SYMBOL(lstat, SYS_lstat, int)                         \
    TWIN(lstat64, lstat)                                  \
    SYMBOL(fstat, SYS_fstat, int)                         \
    TWIN(fstat64, fstat)                                  \
    SYMBOL(fstatat, SYS_newfstatat, int)                  \
    TWIN(fstatat64, fstatat)                              \
    SYMBOL(statx, SYS_statx, int)                         \
    SYMBOL(__xstat)                                       \
    TWIN(__xstat64, __xstat)                              \
    SYMBOL(__lxstat)                                      \
    TWIN(__lxstat64, __lxstat)                            \
    SYMBOL(__fxstat)                                      \
    TWIN(__fxstat64, __fxstat)                            \
    SYMBOL(__fxstatat)                                    \
    TWIN(__fxstatat64, __fxstatat)                        \
    /* walk.c */                                          \
    SYMBOL(ftw)                                           \
    TWIN(ftw64, ftw)                                      \
    SYMBOL(nftw)                                          \
    TWIN(nftw64, nftw)                                    \
    SYMBOL(fts_read)                                      \
    TWIN(fts64_read, fts_read)                            \
    SYMBOL(fts_children)                                  \
    TWIN(fts64_children, fts_children)                    \
    /* attributes.c */                                    \
    SYMBOL(chmod, SYS_chmod, int)                         \
    SYMBOL(fchmod, SYS_fchmod, int)                       \
    SYMBOL(fchmodat)                                      \
    SYMBOL(chown, SYS_chown, int)                         \
    SYMBOL(lchown, SYS_lchown, int)                       \
    SYMBOL(fchown, SYS_fchown, int)                       \
    SYMBOL(fchownat, SYS_fchownat, int)                   \
    SYMBOL(utimensat, SYS_utimensat, int)                 \
    SYMBOL(futimens)                                      \
    SYMBOL(utime, SYS_utime, int)                         \
    SYMBOL(utimes, SYS_utimes, int)                       \
    SYMBOL(lutimes)                                       \
    SYMBOL(futimes)                                       \
    SYMBOL(futimesat, SYS_futimesat, int)                 \
    SYMBOL(setxattr, SYS_setxattr, int)                   \
    SYMBOL(lsetxattr, SYS_lsetxattr, int)                 \
    SYMBOL(fsetxattr, SYS_fsetxattr, int)                 \
    /* stdio.c */                                         \
    SYMBOL(fopen)                                         \
    TWIN(fopen64, fopen)                                  \
    TWIN(_IO_fopen, fopen)                                \
    SYMBOL(freopen)                                       \
    TWIN(freopen64, freopen)                              \
    SYMBOL(fdopen)                                        \
    TWIN(_IO_fdopen, fdopen)                              \
    SYMBOL(fclose)                                        \
    TWIN(_IO_fclose, fclose)                              \
    SYMBOL(backtrace_symbols_fd)                          \
    TWIN(__backtrace_symbols_fd, backtrace_symbols_fd)    \
    SYMBOL(vdprintf)                                      \
    SYMBOL(dprintf)                                       \
    SYMBOL(__vdprintf_chk)                                \
    SYMBOL(__dprintf_chk)                                 \
    /* map.c */                                           \
    SYMBOL(mmap, SYS_mmap, void *)                        \
    TWIN(mmap64, mmap)                                    \
    SYMBOL(posix_fadvise)                                 \
    TWIN(posix_fadvise64, posix_fadvise)                  \
    SYMBOL(readahead, SYS_readahead, ssize_t)             \
    /* posix_aio/posix_aio.c */                           \
    SYMBOL(aio_read)                                      \
    TWIN(aio_read64, aio_read)                            \
    SYMBOL(aio_write)                                     \
    TWIN(aio_write64, aio_write)                          \
    SYMBOL(aio_fsync)                                     \
    TWIN(aio_fsync64, aio_fsync)                          \
    SYMBOL(aio_error)                                     \
    TWIN(aio_error64, aio_error)                          \
    SYMBOL(aio_suspend)                                   \
    TWIN(aio_suspend64, aio_suspend)                      \
    SYMBOL(aio_cancel)                                    \
    TWIN(aio_cancel64, aio_cancel)                        \
    SYMBOL(lio_listio)                                    \
    TWIN(lio_listio64, lio_listio)                        \
    /* copy.c */                                          \
    SYMBOL(sendfile, SYS_sendfile, ssize_t)               \
    TWIN(sendfile64, sendfile)                            \
    SYMBOL(copy_file_range, SYS_copy_file_range, ssize_t) \
    SYMBOL(splice, SYS_splice, ssize_t)                   \
    SYMBOL(tee, SYS_tee, ssize_t)                         \
    SYMBOL(vmsplice, SYS_vmsplice, ssize_t)               \
    /* receive.c */                                       \
    SYMBOL(recvmsg, SYS_recvmsg, ssize_t)                 \
    SYMBOL(recvmmsg, SYS_recvmmsg, int)                   \
    SYMBOL(pidfd_getfd, SYS_pidfd_getfd, int)             \
    SYMBOL(sendmsg, SYS_sendmsg, ssize_t)                 \
    SYMBOL(sendmmsg, SYS_sendmmsg, int)                   \
    /* fork.c */                                          \
    SYMBOL(fork)                                          \
    TWIN(__fork, fork)                                    \
    SYMBOL(vfork)                                         \
    TWIN(__vfork, vfork)                                  \
    SYMBOL(_Fork)                                         \
    SYMBOL(clone)                                         \
    TWIN(__clone, clone)                                  \
    SYMBOL(execl)                                         \
    SYMBOL(execle)                                        \
    SYMBOL(execlp)                                        \
    SYMBOL(execv)                                         \
    SYMBOL(execve)                                        \
    SYMBOL(execvp)                                        \
    SYMBOL(execvpe)                                       \
    SYMBOL(fexecve)                                       \
    SYMBOL(execveat)                                      \
    SYMBOL(posix_spawn)                                   \
    SYMBOL(posix_spawnp)                                  \
    SYMBOL(system)                                        \
    SYMBOL(popen)                                         \
    TWIN(_IO_popen, popen)                                \
    SYMBOL(_exit)                                         \
    TWIN(_Exit, _exit)                                    \
    SYMBOL(quick_exit)                                    \
    SYMBOL(pthread_exit)                                  \
    SYMBOL(dlopen)                                        \
    SYMBOL(dlmopen)                                       \
    /* user.c */                                          \
    SYMBOL(setuid)                                        \
    SYMBOL(seteuid)                                       \
    SYMBOL(setreuid)                                      \
    SYMBOL(setresuid)                                     \
    SYMBOL(chroot, SYS_chroot, int)                       \
    /* lookup.c */                                        \
    SYMBOL(dlsym)                                         \
    /* aio/libaio.c */                                    \
    SYMBOL(io_setup)                                      \
    SYMBOL(io_destroy)                                    \
    SYMBOL(io_submit)                                     \
    SYMBOL(io_getevents)                                  \
    SYMBOL(io_pgetevents)                                 \
    SYMBOL(io_queue_init)                                 \
    SYMBOL(io_queue_release)                              \
    SYMBOL(io_queue_run)                                  \
    SYMBOL(io_queue_wait)                                 \
    /* syscall.c */                                       \
    SYMBOL(syscall)                                       \
    /* uring/uring.c */                                   \
    SYMBOL(io_uring_queue_init)                           \
    SYMBOL(io_uring_queue_init_params)                    \
    SYMBOL(io_uring_queue_init_mem)                       \
    SYMBOL(io_uring_queue_mmap)                           \
    SYMBOL(io_uring_queue_exit)                           \
    SYMBOL(io_uring_enable_rings)                         \
    SYMBOL(io_uring_resize_rings)                         \
    SYMBOL(io_uring_close_ring_fd)                        \
    SYMBOL(io_uring_submit)                               \
    SYMBOL(io_uring_submit_and_get_events)                \
    SYMBOL(io_uring_submit_and_wait)                      \
    SYMBOL(io_uring_submit_and_wait_timeout)              \
    SYMBOL(io_uring_submit_and_wait_min_timeout)          \
    SYMBOL(io_uring_submit_and_wait_reg)                  \
    SYMBOL(__io_uring_get_cqe)                            \
    SYMBOL(io_uring_wait_cqes)                            \
    SYMBOL(io_uring_wait_cqes_min_timeout)                \
    SYMBOL(io_uring_wait_cqe_timeout)                     \
    SYMBOL(io_uring_peek_batch_cqe)                       \
    SYMBOL(io_uring_get_events)                           \
    /* uring/register.c */                                \
    SYMBOL(io_uring_register_files)                       \
    SYMBOL(io_uring_register_files_tags)                  \
    SYMBOL(io_uring_register_files_sparse)                \
    SYMBOL(io_uring_register_files_update)                \
    SYMBOL(io_uring_register_files_update_tag)            \
    SYMBOL(io_uring_unregister_files)                     \
    SYMBOL(io_uring_register_eventfd)                     \
    SYMBOL(io_uring_register_eventfd_async)               \
    SYMBOL(io_uring_setup)                                \
    SYMBOL(io_uring_enter)                                \
    SYMBOL(io_uring_enter2)                               \
    SYMBOL(io_uring_register)                             \
    /* signal.c */                                        \
    SYMBOL(sigaction)                                     \
    TWIN(__sigaction, sigaction)                          \
    SYMBOL(signal)                                        \
    TWIN(bsd_signal, signal)                              \
    TWIN(ssignal, signal)                                 \
    SYMBOL(sysv_signal)                                   \
    TWIN(__sysv_signal, sysv_signal)                      \
    SYMBOL(sigset)                                        \
    SYMBOL(siginterrupt)

#endif
