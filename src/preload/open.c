/* open(2), mkstemp(3) and their twins: the kernel opens the file, then the engine may adopt it. */
#include "preload/preload.h"

static inline bool needs_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

/* Fetches the mode, which follows the flags in some calls only. */
#define COLLECT_MODE(mode, flags)         \
    mode_t mode = 0;                      \
    if (needs_mode(flags)) {              \
        va_list arguments;                \
        va_start(arguments, flags);       \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments);                \
    }

PRELOAD_EXPORT int open(const char *path, int flags, ...)
{
    COLLECT_MODE(mode, flags)
    preload_opening(AT_FDCWD, path, flags);
    return preload_opened(PRELOAD_REAL(open)(path, flags, mode), flags);
}

PRELOAD_EXPORT int openat(int dirfd, const char *path, int flags, ...)
{
    COLLECT_MODE(mode, flags)
    preload_opening(dirfd, path, flags);
    return preload_opened(PRELOAD_REAL(openat)(dirfd, path, flags, mode), flags);
}

PRELOAD_EXPORT int __open_2(const char *path, int flags)
{
    preload_opening(AT_FDCWD, path, flags);
    return preload_opened(PRELOAD_REAL(__open_2)(path, flags), flags);
}

PRELOAD_EXPORT int __openat_2(int dirfd, const char *path, int flags)
{
    preload_opening(dirfd, path, flags);
    return preload_opened(PRELOAD_REAL(__openat_2)(dirfd, path, flags), flags);
}

PRELOAD_EXPORT int creat(const char *path, mode_t mode)
{
    const int flags = O_CREAT | O_WRONLY | O_TRUNC;
    preload_opening(AT_FDCWD, path, flags);
    return preload_opened(PRELOAD_REAL(creat)(path, mode), flags);
}

PRELOAD_EXPORT int openat2(int dirfd, const char *path, const struct open_how *how, size_t size)
{
    if (size >= sizeof(*how) && !sys_bad_pointer(how))
        preload_opening(dirfd, path, (int)how->flags);
    int fd = PRELOAD_REAL(openat2)(dirfd, path, how, size);
    return fd < 0 ? fd : preload_opened(fd, (int)how->flags);
}

PRELOAD_EXPORT int open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
    int fd = PRELOAD_REAL(open_by_handle_at)(mount, handle, flags);
    if (fd >= 0 && preload_active())
        preload_receive(fd, flags); /* the kernel did not ask the server for attributes */
    return fd;
}

enum { TEMPORARY = O_RDWR | O_CREAT | O_EXCL };

PRELOAD_EXPORT int mkstemp(char *pattern)
{
    return preload_opened(PRELOAD_REAL(mkstemp)(pattern), TEMPORARY);
}

PRELOAD_EXPORT int mkostemp(char *pattern, int flags)
{
    return preload_opened(PRELOAD_REAL(mkostemp)(pattern, flags), TEMPORARY | flags);
}

PRELOAD_EXPORT int mkstemps(char *pattern, int length)
{
    return preload_opened(PRELOAD_REAL(mkstemps)(pattern, length), TEMPORARY);
}

PRELOAD_EXPORT int mkostemps(char *pattern, int length, int flags)
{
    return preload_opened(PRELOAD_REAL(mkostemps)(pattern, length, flags), TEMPORARY | flags);
}
