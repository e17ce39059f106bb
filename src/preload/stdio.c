/*
 * Stdio calls the kernel inside libc, where no wrapper sees it. So a file that is opened as a
 * stream, and a descriptor that becomes one, belong to the kernel.
 */
#include <string.h>

#include "preload/preload.h"

/* The open(2) flags of a mode of fopen(3). */
static int flags_of_mode(const char *mode)
{
    bool update = strchr(mode, '+') != NULL;
    switch (*mode) {
    case 'r':
        return update ? O_RDWR : O_RDONLY;
    case 'w':
        return (update ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC;
    default:
        return (update ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
    }
}

/* errno is kept. */
static FILE *opened_stream(FILE *stream, const char *mode)
{
    if (stream == NULL || !preload_active())
        return stream;
    struct preload_stay stay = preload_stay_begin();
    int fd = fileno(stream);
    if (fd >= 0)
        file_opened_for_kernel(fd, flags_of_mode(mode), "stdio");
    preload_stay_end(stay);
    return stream;
}

PRELOAD_EXPORT FILE *fopen(const char *path, const char *mode)
{
    return opened_stream(PRELOAD_REAL(fopen)(path, mode), mode);
}

PRELOAD_EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    if (preload_active())
        preload_demote(fileno(stream), "stdio");
    return opened_stream(PRELOAD_REAL(freopen)(path, mode, stream), mode);
}

PRELOAD_EXPORT FILE *fdopen(int fd, const char *mode)
{
    if (preload_demote(fd, "stdio") < 0)
        return NULL;
    return PRELOAD_REAL(fdopen)(fd, mode);
}

PRELOAD_EXPORT int vdprintf(int fd, const char *format, va_list arguments)
{
    if (preload_demote(fd, "stdio") < 0)
        return -1;
    return PRELOAD_REAL(vdprintf)(fd, format, arguments);
}

PRELOAD_EXPORT int dprintf(int fd, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = vdprintf(fd, format, arguments);
    va_end(arguments);
    return result;
}

PRELOAD_EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments)
{
    if (preload_demote(fd, "stdio") < 0)
        return -1;
    return PRELOAD_REAL(__vdprintf_chk)(fd, flag, format, arguments);
}

PRELOAD_EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = __vdprintf_chk(fd, flag, format, arguments);
    va_end(arguments);
    return result;
}

PRELOAD_STDIO(PRELOAD_NOTHING, PRELOAD_ALIAS)
