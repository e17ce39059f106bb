#include "sys/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <syslog.h>

#include "sys/fd.h"
#include "sys/sys.h"
#include "sys/text.h"

enum { LINE_MAX_BYTES = 1024, SYSLOG_WAIT_MS = 50 };

static const char *const names[] = {"error", "warning", "notice", "info", "debug"};

/* Set once at start, before threads use them. */
static _Atomic int threshold = LOG_LEVEL_NOTICE;
static bool to_syslog;
static int syslog_socket = -1;
static _Atomic int file = -1; /* tests open another one while threads run */
static struct stat stderr_at_start;
static bool stderr_known;

static int syslog_connect(int fd)
{
    static const struct sockaddr_un place = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    return sys_connect(fd, (const struct sockaddr *)&place, sizeof(place));
}

int log_open(const char *target)
{
    stderr_known = sys_fstat(STDERR_FILENO, &stderr_at_start) == 0;
    if (!target || strcmp(target, "stderr") == 0)
        return 0;
    if (strcmp(target, "syslog") == 0) {
        int fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return fd;
        syslog_connect(fd); /* connect now: the program may go where that name leads nowhere */
        syslog_socket = sys_fd_protect(fd);
        to_syslog = true;
        return 0;
    }
    if (target[0] != '/')
        return -EINVAL;
    int fd =
        sys_open(target, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (fd < 0)
        return fd;
    file = sys_fd_protect(fd);
    return 0;
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

int log_level_parse(const char *name, enum log_level *level)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *level = (enum log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

bool log_wanted(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&threshold, memory_order_relaxed);
}

uint64_t log_place(void)
{
    struct stat status;
    if (to_syslog || sys_fstat(file >= 0 ? file : STDERR_FILENO, &status) != 0)
        return 0;
    return (uint64_t)status.st_dev * UINT64_C(0x9e3779b97f4a7c15) ^ status.st_ino;
}

/* An application may close descriptor 2 and open a data file or a connection there. So a file gets
 * messages only if it was the standard error at start, or is a terminal or a pipe to a log. */
static bool stderr_is_safe(void)
{
    struct stat now;
    if (sys_fstat(STDERR_FILENO, &now) != 0)
        return false;
    if (S_ISCHR(now.st_mode) || S_ISFIFO(now.st_mode))
        return true;
    return stderr_known && now.st_dev == stderr_at_start.st_dev &&
           now.st_ino == stderr_at_start.st_ino;
}

/* Does it take a line now? A pipe that nobody reads must not stop the program. */
static bool is_ready(int fd)
{
    struct pollfd poll = {.fd = fd, .events = POLLOUT};
    return sys_poll(&poll, 1, 0) == 1 && poll.revents == POLLOUT;
}

/* Writes without two signals: that of a pipe without a reader, and that of a file that may not
 * grow. */
static void write_line(int fd, const char *line, size_t length)
{
    const unsigned long raised = 1UL << (SIGPIPE - 1) | 1UL << (SIGXFSZ - 1);
    const struct timespec now = {0, 0};
    unsigned long before, pending = 0;
    if (!is_ready(fd))
        return;
    sys_sigprocmask(SIG_BLOCK, &raised, &before);
    sys_call2(SYS_rt_sigpending, &pending, sizeof(pending));
    const unsigned long ours = raised & ~pending;
    long result = sys_write(fd, line, length);
    if ((result == -EPIPE || result == -EFBIG) && ours)
        sys_call4(SYS_rt_sigtimedwait, &ours, NULL, &now, sizeof(ours));
    sys_sigprocmask(SIG_SETMASK, &before, NULL);
}

/*
 * Writes to the daemon, and connects again if that was restarted. It does not use syslog(3), which
 * allocates, and has a lock: a child of fork() would find it held for ever by a thread that is not
 * there. The daemon adds the time.
 */
static void write_syslog(enum log_level level, const char *text)
{
    static const int priority[] = {LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG};
    char line[LINE_MAX_BYTES + 128];
    int length = snprintf(line, sizeof(line), "<%d>%.64s[%d]: directnfs: %s",
                          LOG_DAEMON | priority[level], program_invocation_short_name,
                          (int)sys_getpid(), text);
    struct iovec vector = {line, (size_t)length};
    const struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    struct pollfd poll = {.fd = syslog_socket, .events = POLLOUT};
    sys_poll(&poll, 1, SYSLOG_WAIT_MS);
    ssize_t sent = sys_sendmsg(syslog_socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && sent != -EAGAIN && syslog_connect(syslog_socket) == 0)
        sys_sendmsg(syslog_socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void log_write(enum log_level level, const char *format, ...)
{
    if (!log_wanted(level))
        return;
    char line[LINE_MAX_BYTES];
    int length = snprintf(line, sizeof(line), "directnfs[%d]: ", (int)sys_getpid());
    int prefix = length;
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof(line) - 2)
        length = (int)sizeof(line) - 2;
    /* One message is one line: a file's name may have a newline, or characters that a terminal
     * obeys. */
    sys_text_clean(line);
    if (to_syslog) {
        write_syslog(level, line + prefix);
        return;
    }
    line[length++] = '\n';
    if (file >= 0)
        write_line(file, line, (size_t)length);
    else if (stderr_is_safe())
        write_line(STDERR_FILENO, line, (size_t)length);
}
