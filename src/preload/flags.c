/* fcntl(2) and ioctl(2). Locks, owners, leases and hints stay the kernel's business. */
#include <linux/fs.h>

#include "fd/descriptors.h"
#include "fd/life.h"
#include "preload/preload.h"

PRELOAD_SLOW static int set_flags(int fd, int flags)
{
    struct preload_stay stay = preload_stay_begin();
    struct fd_flags_change change;
    fd_flags_begin(&change, fd, flags);
    int result = sys_fcntl(fd, F_SETFL, flags);
    fd_flags_end(&change);
    preload_stay_end(stay);
    return (int)preload_result(result);
}

static bool takes_lock(int command)
{
    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
           command == F_OFD_SETLKW;
}

static bool is_lock(int command, const struct flock *lock)
{
    return takes_lock(command) && lock->l_type != F_UNLCK;
}

PRELOAD_SLOW static void managed_locked(int fd)
{
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return;
    fd_locked(open);
    preload_leave(open);
}

PRELOAD_EXPORT int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);

    /* Our own descriptors do not exist for the application: not even their FD_CLOEXEC. */
    if (PRELOAD_UNLIKELY(sys_fd_is_ours(fd)) && !sys_critical_inside())
        return preload_fail(EBADF);
    if (command == F_SETFL && preload_managed(fd))
        return set_flags(fd, (int)(long)argument);
    if (preload_managed(fd) &&
        (command == F_GETLK || command == F_OFD_GETLK || takes_lock(command)))
        preload_stay_call_for(fd_locking, fd);
    int result = PRELOAD_REAL(fcntl)(fd, command, argument);
    if (result == 0 && preload_managed(fd) && is_lock(command, argument))
        managed_locked(fd);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return preload_duplicated(fd, result);
    return result;
}

PRELOAD_EXPORT int flock(int fd, int operation)
{
    if (preload_managed(fd))
        preload_stay_call_for(fd_locking, fd);
    int result = PRELOAD_REAL(flock)(fd, operation);
    if (result == 0 && preload_managed(fd) && !(operation & LOCK_UN))
        managed_locked(fd);
    return result;
}

PRELOAD_EXPORT int lockf(int fd, int command, off_t size)
{
    if (preload_managed(fd))
        preload_stay_call_for(fd_locking, fd);
    int result = PRELOAD_REAL(lockf)(fd, command, size);
    if (result == 0 && preload_managed(fd) && (command == F_LOCK || command == F_TLOCK))
        managed_locked(fd);
    return result;
}

/* FS_IOC_RESVSP and its kind: XFS's calls before fallocate(2). The layout is struct
 * xfs_flock64's. */
struct space {
    int16_t type, whence;
    int64_t start, length;
    int32_t sysid, pid, rest[4];
};
#define SPACE_REQUEST(number) _IOW('X', number, struct space)

/* Requests that the file system carries out itself: it does not know data that the kernel has not
 * seen. Returns the error of the refusal. 0: the kernel may do it. */
static int refusal(int fd, unsigned long request, const void *argument)
{
    struct file_clone_range range = {.src_fd = fd};
    switch (request) {
    case FICLONE:
        range.src_fd = (int)(long)argument;
        break;
    case FICLONERANGE:
        if (file_table_limit() == 0 || preload_get(&range, argument, sizeof(range)) != 0)
            return 0; /* no file is managed, or the kernel says EFAULT */
        break;
    case FIDEDUPERANGE:
    case SPACE_REQUEST(40): /* reserve */
    case SPACE_REQUEST(41): /* give back */
    case SPACE_REQUEST(42):
    case SPACE_REQUEST(43):
    case SPACE_REQUEST(57): /* fill with zeros */
        if (preload_managed(fd) && preload_get(NULL, argument, _IOC_SIZE(request)) != 0)
            return EFAULT;
        break;
    default:
        return 0;
    }
    int source = (int)range.src_fd;
    if (!preload_managed(fd) && !preload_managed(source))
        return 0;
    return sys_fcntl(source, F_GETFD, 0) == -EBADF ? EBADF : EOPNOTSUPP;
}

/* FIONREAD: the kernel knows neither the size nor the offset of a file of ours. */
PRELOAD_SLOW static int tell_unread(int fd, int *unread)
{
    struct stat status;
    off_t now = lseek(fd, 0, SEEK_CUR);
    if (now < 0 || fstat(fd, &status) < 0)
        return -1;
    int left = (int)(status.st_size - now); /* cut to an int, as the kernel does */
    return (int)preload_result(preload_put(unread, &left, sizeof(left)));
}

PRELOAD_EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);

    int error = refusal(fd, request, argument);
    if (PRELOAD_UNLIKELY(error != 0))
        return preload_fail(error);
    if (request == FIONREAD && preload_managed(fd))
        return tell_unread(fd, argument);
    return PRELOAD_REAL(ioctl)(fd, request, argument);
}
