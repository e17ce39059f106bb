/* Changing the size, and allocation. */
#include "fd/life.h"
#include "fd/stat.h"
#include "fd/truncate.h"
#include "file/limits.h"
#include "preload/preload.h"

PRELOAD_SLOW void preload_truncating(int dirfd, const char *path)
{
    struct preload_stay stay = preload_stay_begin();
    fd_truncating(dirfd, path);
    preload_stay_end(stay);
}

PRELOAD_SLOW static int managed_ftruncate(int fd, off_t size)
{
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    int result = fd_ftruncate(open, fd, size);
    preload_leave(open);
    return (int)preload_result(result);
}

PRELOAD_EXPORT int ftruncate(int fd, off_t size)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed_ftruncate(fd, size));
    if (preload_active())
        preload_truncating(fd, "");
    int result = PRELOAD_REAL(ftruncate)(fd, size);
    if (result == 0 && preload_active()) {
        sys_critical_enter();
        fd_truncated_by_kernel(fd, size);
        sys_critical_leave();
    }
    return result;
}

/* For a process that has no free descriptor, or that would lose locks by a close. As
 * fd_truncate_path(). */
PRELOAD_SLOW static int truncate_without_descriptor(const char *path, off_t size)
{
    sys_critical_enter();
    int result = fd_truncate_path(path, size);
    sys_critical_leave();
    return result;
}

/* True if this process may have locks on the file: the close of any descriptor would end them. */
static bool may_be_locked(const struct stat *status)
{
    sys_critical_enter();
    bool locked = fd_is_locked(status->st_dev, status->st_ino) ||
                  fd_is_left_to_kernel(status->st_dev, status->st_ino);
    sys_critical_leave();
    return locked;
}

/*
 * Truncates by path through the engine, so that the ledger learns of it. It opens the file: that
 * needs the permission that truncate(2) needs, and fails with the same errors. FILE_KERNEL: the
 * file is not on a mount of ours, or the kernel must say the error.
 */
PRELOAD_SLOW static int mounted_truncate(const char *path, off_t size)
{
    struct stat status;
    int result = -EMFILE; /* not done */
    if (sys_fstatat(AT_FDCWD, path, &status, 0) < 0 || !S_ISREG(status.st_mode) ||
        !fd_on_mount(status.st_dev))
        return FILE_KERNEL;
    if (may_be_locked(&status))
        result = truncate_without_descriptor(path, size);
    if (result != -EMFILE)
        return (int)preload_result(result);
    int fd = sys_open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd == -EMFILE || fd == -ENFILE)
        return (int)preload_result(truncate_without_descriptor(path, size));
    if (fd < 0)
        return FILE_KERNEL;
    int adopted = preload_adopt(fd, O_WRONLY);
    if (adopted < 0)
        return (int)preload_result(adopted);
    result = ftruncate(fd, size);
    int saved = errno;
    int closed = close(fd);
    if (result == 0)
        return closed;
    errno = saved;
    return result;
}

PRELOAD_EXPORT int truncate(const char *path, off_t size)
{
    if (preload_active() && size >= 0)
        PRELOAD_RETURN_IF_SERVED(mounted_truncate(path, size));
    return PRELOAD_REAL(truncate)(path, size);
}

PRELOAD_SLOW static int managed_allocate(int fd, int mode, off_t offset, off_t length, bool emulate)
{
    if (offset < 0 || length <= 0)
        return -EINVAL;
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    int result = fd_allocate(open, fd, mode, offset, length, emulate);
    preload_leave(open);
    return result;
}

PRELOAD_EXPORT int fallocate(int fd, int mode, off_t offset, off_t length)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(preload_result(managed_allocate(fd, mode, offset, length, false)));
    return PRELOAD_REAL(fallocate)(fd, mode, offset, length);
}

/* Returns the error instead of setting errno. */
PRELOAD_EXPORT int posix_fallocate(int fd, off_t offset, off_t length)
{
    if (preload_managed(fd)) {
        int result = managed_allocate(fd, 0, offset, length, true);
        if (result != FILE_KERNEL)
            return -result;
    }
    return PRELOAD_REAL(posix_fallocate)(fd, offset, length);
}

/* ---- the limit on sizes ---- */

static inline int limited(int result, __rlimit_resource_t resource)
{
    if (result == 0 && resource == RLIMIT_FSIZE && preload_active())
        file_size_limit_learn();
    return result;
}

PRELOAD_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    return limited(PRELOAD_REAL(setrlimit)(resource, limit), resource);
}

PRELOAD_EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit,
                           struct rlimit *old)
{
    return limited(PRELOAD_REAL(prlimit)(pid, resource, limit, old), resource);
}
