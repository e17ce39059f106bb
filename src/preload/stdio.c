/*
 * Stdio calls the kernel inside libc, where no wrapper sees it. So a file that is written as a
 * stream belongs to the kernel, for all processes. A stream that only reads shows the file as it
 * was when the stream was made.
 */
#include <string.h>

#include "fd/adopt.h"
#include "fd/world.h"
#include "preload/preload.h"
#include "sys/large.h"

/*
 * The descriptors that are known to have a stream, a bit each. If a file is duplicated onto one of
 * them (dup2(fd, fileno(log))), stdio uses it from then on, and fclose() closes it inside libc.
 */
enum { STREAM_WORDS = 1024 };
static SYS_LARGE _Atomic uint64_t streams[STREAM_WORDS]; /* no lock: each word is atomic */
static atomic_int streams_top = STDERR_FILENO;           /* no stream is known above it */

static void set_stream(int fd, bool is)
{
    uint64_t bit = UINT64_C(1) << (fd % 64);
    if (fd < 0 || fd >= STREAM_WORDS * 64)
        return;
    int top = atomic_load_explicit(&streams_top, memory_order_relaxed);
    while (is && fd > top && !atomic_compare_exchange_weak(&streams_top, &top, fd))
        ;
    if (is)
        atomic_fetch_or_explicit(&streams[fd / 64], bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&streams[fd / 64], ~bit, memory_order_relaxed);
}

bool preload_is_stream(int fd)
{
    if (fd <= STDERR_FILENO)
        return true;
    return fd < STREAM_WORDS * 64 &&
           (atomic_load_explicit(&streams[fd / 64], memory_order_relaxed) >> (fd % 64) & 1);
}

void preload_stdio_start(void)
{
    for (int fd = 0; fd <= atomic_load(&streams_top); fd++)
        if (preload_is_stream(fd))
            fd_demote_stream(fd, "stdio");
}

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

/* Keeps errno. NULL, with errno: the kernel must not write to the file now. */
static FILE *opened_stream(FILE *stream, const char *mode)
{
    if (stream == NULL)
        return NULL;
    int saved = errno, result = 0;
    int fd = fileno(stream);
    set_stream(fd, true);
    if (fd >= 0 && preload_active()) {
        struct preload_stay stay = preload_stay_begin();
        result = fd_opened_for_stream(fd, flags_of_mode(mode), "stdio");
        preload_stay_end(stay);
    }
    errno = saved;
    if (result == 0)
        return stream;
    set_stream(fd, false);
    PRELOAD_REAL(fclose)(stream);
    errno = -result;
    return NULL;
}

PRELOAD_EXPORT FILE *fopen(const char *path, const char *mode)
{
    preload_opening(AT_FDCWD, path, flags_of_mode(mode));
    return opened_stream(PRELOAD_REAL(fopen)(path, mode), mode);
}

/* Before libc closes the descriptor. 0, or -1 and errno: its data could not be committed. */
static int leave_descriptor(int fd)
{
    if (preload_demote_stream(fd) == 0)
        return 0;
    int error = errno;
    if (preload_managed(fd)) /* another file will get its number */
        preload_forget(fd);
    return preload_fail(error);
}

PRELOAD_EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    if (preload_active())
        leave_descriptor(fileno(stream));
    preload_opening(path ? AT_FDCWD : fileno(stream), path ? path : "", flags_of_mode(mode));
    return opened_stream(PRELOAD_REAL(freopen)(path, mode, stream), mode);
}

PRELOAD_EXPORT FILE *fdopen(int fd, const char *mode)
{
    if (preload_demote_stream(fd) < 0)
        return NULL;
    FILE *stream = PRELOAD_REAL(fdopen)(fd, mode);
    if (stream != NULL)
        set_stream(fd, true);
    return stream;
}

/* libc closes the descriptor. It can be managed if a function that is not wrapped made its
 * stream. */
PRELOAD_EXPORT int fclose(FILE *stream)
{
    int saved = errno;
    int fd = fileno(stream);
    errno = saved;
    int demoted = leave_descriptor(fd);
    saved = errno;
    set_stream(fd, false);
    int result = PRELOAD_REAL(fclose)(stream);
    return result == 0 && demoted < 0 ? preload_fail(saved) : result;
}

PRELOAD_EXPORT void backtrace_symbols_fd(void *const *addresses, int count, int fd)
{
    if (preload_demote_stream(fd) == 0)
        PRELOAD_REAL(backtrace_symbols_fd)(addresses, count, fd);
}

PRELOAD_EXPORT int vdprintf(int fd, const char *format, va_list arguments)
{
    if (preload_demote_stream(fd) < 0)
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
    if (preload_demote_stream(fd) < 0)
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
