/*
 * Owner, mode, times and extended attributes are the kernel's business. But data that was written
 * behind must reach the server first. A later WRITE would date the file anew, and clear its
 * set-user-ID bits and its capabilities. A new access control list could even refuse it.
 */
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

#include "fd/truncate.h"
#include "preload/preload.h"

PRELOAD_SLOW static void send_first(int dirfd, const char *path, int flags)
{
    struct preload_stay stay = preload_stay_begin();
    struct stat status;
    int known = path == NULL ? sys_fstat(dirfd, &status)
                             : sys_fstatat(dirfd, path, &status,
                                           flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH));
    if (known == 0 && S_ISREG(status.st_mode))
        fd_attributes_changing(status.st_dev, status.st_ino);
    preload_stay_end(stay);
}

static inline void changing(int dirfd, const char *path, int flags)
{
    if (preload_active())
        send_first(dirfd, path, flags);
}

/* ---- mode ---- */

PRELOAD_EXPORT int chmod(const char *path, mode_t mode)
{
    changing(AT_FDCWD, path, 0);
    return PRELOAD_REAL(chmod)(path, mode);
}

PRELOAD_EXPORT int fchmod(int fd, mode_t mode)
{
    changing(fd, NULL, 0);
    return PRELOAD_REAL(fchmod)(fd, mode);
}

PRELOAD_EXPORT int fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    changing(dirfd, path, flags);
    return PRELOAD_REAL(fchmodat)(dirfd, path, mode, flags);
}

/* ---- owner ---- */

PRELOAD_EXPORT int chown(const char *path, uid_t user, gid_t group)
{
    changing(AT_FDCWD, path, 0);
    return PRELOAD_REAL(chown)(path, user, group);
}

PRELOAD_EXPORT int lchown(const char *path, uid_t user, gid_t group)
{
    changing(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return PRELOAD_REAL(lchown)(path, user, group);
}

PRELOAD_EXPORT int fchown(int fd, uid_t user, gid_t group)
{
    changing(fd, NULL, 0);
    return PRELOAD_REAL(fchown)(fd, user, group);
}

PRELOAD_EXPORT int fchownat(int dirfd, const char *path, uid_t user, gid_t group, int flags)
{
    changing(dirfd, path, flags);
    return PRELOAD_REAL(fchownat)(dirfd, path, user, group, flags);
}

/* ---- times ---- */

PRELOAD_EXPORT int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
    changing(dirfd, path, flags);
    return PRELOAD_REAL(utimensat)(dirfd, path, times, flags);
}

PRELOAD_EXPORT int futimens(int fd, const struct timespec times[2])
{
    changing(fd, NULL, 0);
    return PRELOAD_REAL(futimens)(fd, times);
}

PRELOAD_EXPORT int utime(const char *path, const struct utimbuf *times)
{
    changing(AT_FDCWD, path, 0);
    return PRELOAD_REAL(utime)(path, times);
}

PRELOAD_EXPORT int utimes(const char *path, const struct timeval times[2])
{
    changing(AT_FDCWD, path, 0);
    return PRELOAD_REAL(utimes)(path, times);
}

PRELOAD_EXPORT int lutimes(const char *path, const struct timeval times[2])
{
    changing(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return PRELOAD_REAL(lutimes)(path, times);
}

PRELOAD_EXPORT int futimes(int fd, const struct timeval times[2])
{
    changing(fd, NULL, 0);
    return PRELOAD_REAL(futimes)(fd, times);
}

PRELOAD_EXPORT int futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    changing(dirfd, path, 0);
    return PRELOAD_REAL(futimesat)(dirfd, path, times);
}

/* ---- extended attributes: removing one needs nothing, as no WRITE undoes that ---- */

PRELOAD_EXPORT int setxattr(const char *path, const char *name, const void *value, size_t size,
                            int flags)
{
    changing(AT_FDCWD, path, 0);
    return PRELOAD_REAL(setxattr)(path, name, value, size, flags);
}

PRELOAD_EXPORT int lsetxattr(const char *path, const char *name, const void *value, size_t size,
                             int flags)
{
    changing(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return PRELOAD_REAL(lsetxattr)(path, name, value, size, flags);
}

PRELOAD_EXPORT int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    changing(fd, NULL, 0);
    return PRELOAD_REAL(fsetxattr)(fd, name, value, size, flags);
}
