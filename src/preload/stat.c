/*
 * Attributes: the kernel answers, then the engine corrects size, blocks and times of files of ours.
 * If the engine says FILE_KERNEL, the file was demoted: then what the kernel says now is right.
 */
#include <sys/sysmacros.h>

#include "fd/stat.h"
#include "file/table.h"
#include "preload/preload.h"

PRELOAD_SLOW static int overlay_managed(int fd, struct stat *status)
{
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return 0;
    int result = fd_stat(open, fd, status);
    preload_leave(open);
    if (result == FILE_KERNEL)
        result = sys_fstat(fd, status);
    return (int)preload_result(result);
}

/* FILE_KERNEL: the kernel can be asked. */
PRELOAD_SLOW static int managed_in_silence(int fd, struct stat *status)
{
    struct stat told;
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    int result = fd_stat_in_silence(open, fd, &told);
    preload_leave(open);
    if (result == 0)
        result = preload_put(status, &told, sizeof(told));
    return (int)preload_result(result);
}

/* Corrects an answer of the kernel. The first three arguments are those of statx(2). */
static int overlay_path(int dirfd, const char *path, int flags, struct stat *status)
{
    if (PRELOAD_LIKELY(!fd_on_mount(status->st_dev)))
        return 0;
    int saved = errno;
    sys_critical_enter();
    fd_stat_path(dirfd, path, flags, status);
    sys_critical_leave();
    errno = saved;
    return 0;
}

static inline int after_fstat(int result, int fd, struct stat *status)
{
    if (result != 0 || !preload_active())
        return result;
    return file_is_managed(fd) ? overlay_managed(fd, status)
                               : overlay_path(fd, "", AT_EMPTY_PATH, status);
}

static inline int after_stat(int result, int dirfd, const char *path, int flags,
                             struct stat *status)
{
    return result == 0 && preload_active() ? overlay_path(dirfd, path, flags, status) : result;
}

/* AT_EMPTY_PATH turns the *at() calls into fstat(). Since Linux 6.11 the path may then be NULL.
 * libc's headers promise a path; the empty assembler statement hides that from the compiler. */
static inline bool names_descriptor(const char *path, int flags)
{
    __asm__("" : "+r"(path));
    return (flags & AT_EMPTY_PATH) && (path == NULL || *path == '\0');
}

/* As names_descriptor(), for a managed descriptor, and before the kernel has checked that the path
 * can be read. */
static inline bool names_managed(int fd, const char *path, int flags)
{
    char first = 0;
    __asm__("" : "+r"(path));
    return (flags & AT_EMPTY_PATH) && preload_managed(fd) &&
           (path == NULL || (preload_get(&first, path, 1) == 0 && first == '\0'));
}

/* As names_managed(), with a path: what the kernel makes of none depends on its version. */
static inline bool names_by_path(int fd, const char *path, int flags)
{
    __asm__("" : "+r"(path));
    return path != NULL && names_managed(fd, path, flags);
}

static int after_fstatat(int result, int dirfd, const char *path, struct stat *status, int flags)
{
    if (result == 0 && names_descriptor(path, flags))
        return after_fstat(result, dirfd, status);
    return after_stat(result, dirfd, path, flags, status);
}

PRELOAD_EXPORT int stat(const char *path, struct stat *status)
{
    return after_stat(PRELOAD_REAL(stat)(path, status), AT_FDCWD, path, 0, status);
}

PRELOAD_EXPORT int lstat(const char *path, struct stat *status)
{
    return after_stat(PRELOAD_REAL(lstat)(path, status), AT_FDCWD, path, AT_SYMLINK_NOFOLLOW,
                      status);
}

PRELOAD_EXPORT int fstat(int fd, struct stat *status)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed_in_silence(fd, status));
    return after_fstat(PRELOAD_REAL(fstat)(fd, status), fd, status);
}

PRELOAD_EXPORT int fstatat(int dirfd, const char *path, struct stat *status, int flags)
{
    if (names_by_path(dirfd, path, flags))
        PRELOAD_RETURN_IF_SERVED(managed_in_silence(dirfd, status));
    int result = PRELOAD_REAL(fstatat)(dirfd, path, status, flags);
    return after_fstatat(result, dirfd, path, status, flags);
}

PRELOAD_EXPORT int __xstat(int version, const char *path, struct stat *status)
{
    int result = PRELOAD_REAL(__xstat)(version, path, status);
    return after_stat(result, AT_FDCWD, path, 0, status);
}

PRELOAD_EXPORT int __lxstat(int version, const char *path, struct stat *status)
{
    int result = PRELOAD_REAL(__lxstat)(version, path, status);
    return after_stat(result, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, status);
}

PRELOAD_EXPORT int __fxstat(int version, int fd, struct stat *status)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed_in_silence(fd, status));
    return after_fstat(PRELOAD_REAL(__fxstat)(version, fd, status), fd, status);
}

PRELOAD_EXPORT int __fxstatat(int version, int dirfd, const char *path, struct stat *status,
                              int flags)
{
    if (names_by_path(dirfd, path, flags))
        PRELOAD_RETURN_IF_SERVED(managed_in_silence(dirfd, status));
    int result = PRELOAD_REAL(__fxstatat)(version, dirfd, path, status, flags);
    return after_fstatat(result, dirfd, path, status, flags);
}

static struct statx_timestamp statx_time(struct timespec time)
{
    return (struct statx_timestamp){.tv_sec = time.tv_sec, .tv_nsec = (uint32_t)time.tv_nsec};
}

int preload_statx_flags(int dirfd, const char *path, int flags)
{
    bool silent = false;
    if (!names_managed(dirfd, path, flags))
        return flags;
    sys_critical_enter();
    struct file_open *open = file_get(dirfd);
    if (open != NULL) {
        silent = fd_kernel_is_silent(open);
        file_put(open);
    }
    sys_critical_leave();
    return silent ? (flags & ~AT_STATX_SYNC_TYPE) | AT_STATX_DONT_SYNC : flags;
}

int preload_statx_overlay(int dirfd, const char *path, int flags, struct statx *extended)
{
    struct stat status;
    int result = 0;
    sys_critical_enter();
    struct file_open *open = names_descriptor(path, flags) ? file_get(dirfd) : NULL;
    if (open != NULL) {
        result = fd_stat_by_kernel(open, dirfd, &status);
        if (result == 0)
            result = fd_stat(open, dirfd, &status);
        file_put(open);
        if (result == FILE_KERNEL)
            result = sys_fstat(dirfd, &status);
    } else if (fd_on_mount(makedev(extended->stx_dev_major, extended->stx_dev_minor))) {
        fd_statx_path(dirfd, path, flags, extended);
    }
    sys_critical_leave();
    if (open == NULL || result < 0)
        return result;
    extended->stx_size = (uint64_t)status.st_size;
    extended->stx_blocks = (uint64_t)status.st_blocks;
    extended->stx_atime = statx_time(status.st_atim);
    extended->stx_mtime = statx_time(status.st_mtim);
    extended->stx_ctime = statx_time(status.st_ctim);
    return 0;
}

PRELOAD_EXPORT int statx(int dirfd, const char *path, int flags, unsigned mask,
                         struct statx *status)
{
    flags = preload_statx_flags(dirfd, path, flags);
    int result = PRELOAD_REAL(statx)(dirfd, path, flags, mask, status);
    if (result != 0 || !preload_active())
        return result;
    bool ours = names_descriptor(path, flags) && file_is_managed(dirfd);
    if (!ours && !fd_on_mount(makedev(status->stx_dev_major, status->stx_dev_minor)))
        return 0;
    int saved = errno;
    result = preload_statx_overlay(dirfd, path, flags, status);
    errno = saved;
    return (int)preload_result(result);
}
