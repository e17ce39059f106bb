/* Memory maps, which are the kernel's, and advice about future reads. */
#include "ahead/ahead.h"
#include "fd/closed.h"
#include "fd/world.h"
#include "preload/preload.h"

/*
 * A shared map shows what others write, even if it is read-only. A private map shows the file as it
 * is now, and need not show more. MAP_SYNC asks for persistent memory, and no file on NFS is that.
 * It gets the kernel's answer, and the engine keeps the file: MariaDB asks so for its log. On a
 * closed mount the kernel would fetch the pages without the protection that was asked for.
 */
PRELOAD_EXPORT void *mmap(void *address, size_t size, int protection, int flags, int fd,
                          off_t offset)
{
    if (!(flags & MAP_ANONYMOUS) && preload_managed(fd)) {
        if ((flags & MAP_TYPE) == MAP_SHARED_VALIDATE && (flags & MAP_SYNC)) {
            errno = EOPNOTSUPP;
            return MAP_FAILED;
        }
        struct preload_stay stay = preload_stay_begin();
        bool closed = fd_is_closed(fd);
        preload_stay_end(stay);
        if (closed) {
            errno = ENODEV;
            return MAP_FAILED;
        }
        if ((flags & MAP_TYPE) == MAP_PRIVATE)
            preload_stay_call_for(fd_fresh, fd);
        else if (preload_demote(fd, "mmap") < 0)
            return MAP_FAILED;
    } else if (!(flags & MAP_ANONYMOUS) && (flags & MAP_TYPE) != MAP_PRIVATE && preload_active()) {
        preload_stay_call_for(fd_shared_map, fd);
    }
    return PRELOAD_REAL(mmap)(address, size, protection, flags, fd, offset);
}

PRELOAD_SLOW static void advise(int fd, off_t offset, off_t length, int advice)
{
    struct file_open *open = preload_enter(fd);
    if (!open)
        return;
    ahead_advise(open, offset, length, advice);
    preload_leave(open);
}

/* Returns the error instead of setting errno. */
PRELOAD_EXPORT int posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
    if (preload_managed(fd)) {
        if (length < 0 || advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE)
            return EINVAL;
        if (offset >= 0)
            advise(fd, offset, length, advice);
        return 0;
    }
    return PRELOAD_REAL(posix_fadvise)(fd, offset, length, advice);
}

PRELOAD_EXPORT ssize_t readahead(int fd, off64_t offset, size_t count)
{
    if (preload_managed(fd)) {
        if ((sys_fcntl(fd, F_GETFL, 0) & O_ACCMODE) == O_WRONLY)
            return preload_fail(EBADF);
        if (count > INT64_MAX)
            return preload_fail(EINVAL);
        if (offset >= 0 && count > 0)
            advise(fd, offset, (off_t)count, POSIX_FADV_WILLNEED);
        return 0;
    }
    return PRELOAD_REAL(readahead)(fd, offset, count);
}
