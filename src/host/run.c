#include "host/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/log.h"
#include "sys/sys.h"

/* The command's; it has one thread. */
static int visited = -1;

int host_run_path(char path[HOST_RUN_PATH_MAX])
{
    const char *chosen = secure_getenv("DIRECTNFS_RUN");
    int length;
    if (chosen && *chosen)
        length = snprintf(path, HOST_RUN_PATH_MAX, "%s", chosen);
    else
        length = snprintf(path, HOST_RUN_PATH_MAX, "/dev/shm/directnfs.%u",
                          (unsigned)sys_call0(SYS_geteuid));
    if (length <= 0 || length >= HOST_RUN_PATH_MAX)
        return -ENAMETOOLONG;
    /* With a slash at the end a symbolic link would be followed. */
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    return 0;
}

const char *host_run_name(char path[HOST_RUN_PATH_MAX])
{
    if (host_run_path(path) != 0)
        strcpy(path, "the run directory");
    return path;
}

/* Of a directory that is open: is it this user's, and nobody else's? */
static int prove(int fd, uid_t owner, char *why)
{
    struct stat status;
    int error = sys_fstat(fd, &status);
    if (error) {
        snprintf(why, HOST_RUN_WHY, "cannot be examined: %s", strerror(-error));
        return error;
    }
    if (owner != HOST_RUN_ANYBODY && status.st_uid != owner) {
        snprintf(why, HOST_RUN_WHY, "belongs to user %u, not to %u", (unsigned)status.st_uid,
                 (unsigned)owner);
        return -EPERM;
    }
    if (status.st_mode & 077) {
        snprintf(why, HOST_RUN_WHY, "is open to other users (mode %04o)",
                 (unsigned)(status.st_mode & 07777));
        return -EPERM;
    }
    return 0;
}

int host_run_open_at(int parent, const char *path, uid_t owner, char why[HOST_RUN_WHY])
{
    struct stat status;
    int fd = sys_openat(parent, path,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    int error = fd < 0 ? fd : prove(fd, owner, why);
    if (fd >= 0 && !error)
        return fd;
    if (fd >= 0)
        sys_close(fd);
    else if (error == -ENOTDIR || error == -ELOOP)
        snprintf(why, HOST_RUN_WHY, "is %s",
                 sys_fstatat(parent, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                         S_ISLNK(status.st_mode)
                     ? "a symbolic link"
                     : "no directory");
    else
        snprintf(why, HOST_RUN_WHY, "cannot be opened: %s", strerror(-error));
    return error;
}

int host_run_open(void)
{
    char path[HOST_RUN_PATH_MAX], why[HOST_RUN_WHY];
    if (visited >= 0)
        return sys_fcntl(visited, F_DUPFD_CLOEXEC, 0);
    int error = host_run_path(path);
    return error ? error : host_run_open_at(AT_FDCWD, path, (uid_t)sys_call0(SYS_geteuid), why);
}

void host_run_visit(int run)
{
    visited = run;
}

int host_run_make(void)
{
    char path[HOST_RUN_PATH_MAX], why[HOST_RUN_WHY];
    if (visited >= 0)
        return host_run_open();
    int error = host_run_path(path);
    if (error) {
        log_error("the run directory's name is too long: set DIRECTNFS_RUN to a shorter path");
        return error;
    }
    error = sys_mkdir(path, 0700);
    if (error && error != -EEXIST) {
        log_error("cannot make the run directory %s: %s; make it with mode 0700, or set "
                  "DIRECTNFS_RUN to a directory that can be made",
                  path, strerror(-error));
        return error;
    }
    int run = host_run_open_at(AT_FDCWD, path, (uid_t)sys_call0(SYS_geteuid), why);
    if (run < 0)
        log_error("the run directory %s %s; give it to this user with mode 0700, remove it, or set "
                  "DIRECTNFS_RUN to another one",
                  path, why);
    return run;
}

int host_run_open_file(int run, const char *name, int flags)
{
    struct stat status;
    /* A pipe, or a lease that somebody has, shall not keep us waiting. */
    int fd = sys_openat(run, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0)
        return fd == -ELOOP || fd == -ENXIO || fd == -EISDIR ? -EBADMSG : fd;
    int error = sys_fstat(fd, &status);
    if (!error && !S_ISREG(status.st_mode))
        error = -EBADMSG;
    else if (!error && status.st_uid != (uid_t)sys_call0(SYS_geteuid))
        error = -EPERM;
    if (error)
        sys_close(fd);
    return error ? error : fd;
}

int host_run_open_named(const char *name, int flags)
{
    int run = host_run_open();
    int fd = run < 0 ? run : host_run_open_file(run, name, flags);
    if (run >= 0)
        sys_close(run);
    return fd;
}

/* Reads a small file whole; returns its length without the terminator, or -errno. */
static ssize_t read_small(const char *path, char *text, size_t size)
{
    int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    ssize_t length;
    do
        length = sys_read(fd, text, size - 1);
    while (length == -EINTR);
    sys_close(fd);
    if (length >= 0)
        text[length] = '\0';
    return length;
}

/* State, count of threads and start time of a process: fields 3, 20 and 22 of proc(5)'s stat. */
static int read_stat(const char *path, char *state, long *threads, uint64_t *starttime)
{
    char text[1024];
    ssize_t length = read_small(path, text, sizeof(text));
    if (length < 0)
        return (int)length;
    /* The program's name, in parentheses, may hold anything. */
    char *field = strrchr(text, ')');
    if (!field || field[1] != ' ')
        return -EBADMSG;
    field += 2;
    *state = *field;
    for (int number = 3; number < 22; number++) {
        if (number == 20)
            *threads = strtol(field, NULL, 10);
        field = strchr(field, ' ');
        if (!field)
            return -EBADMSG;
        field++;
    }
    *starttime = strtoull(field, NULL, 10);
    return 0;
}

int host_identity_self(struct host_identity *identity)
{
    char state;
    long threads;
    identity->pid = (uint32_t)sys_getpid();
    return read_stat("/proc/self/stat", &state, &threads, &identity->starttime);
}

bool host_identity_alive(const struct host_identity *identity)
{
    char path[40], state = 'R';
    long threads = 1;
    uint64_t starttime = 0;
    if (sys_kill((pid_t)identity->pid, 0) == -ESRCH)
        return false;
    snprintf(path, sizeof(path), "/proc/%u/stat", identity->pid);
    if (read_stat(path, &state, &threads, &starttime) < 0)
        return true; /* dying just now, or hidden: not surely dead */
    if (starttime != identity->starttime)
        return false;
    /* The first thread may have ended before the others: only without them it is a zombie. */
    return !((state == 'Z' || state == 'X') && threads <= 1);
}

uint64_t host_boot_id(void)
{
    char text[64];
    ssize_t length = read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text));
    uint64_t hash = 14695981039346656037u;
    for (ssize_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    return length > 0 ? hash : 0;
}

uint64_t host_pid_namespace(void)
{
    struct stat status;
    return sys_fstatat(AT_FDCWD, "/proc/self/ns/pid", &status, 0) == 0 ? status.st_ino : 0;
}
