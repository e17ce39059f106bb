#include "host/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/log.h"
#include "sys/sys.h"

int host_run_path(char path[HOST_RUN_PATH_MAX], const char *name)
{
    const char *chosen = getenv("DIRECTNFS_RUN");
    int length;
    if (chosen && *chosen)
        length = snprintf(path, HOST_RUN_PATH_MAX, "%s%s%s", chosen, *name ? "/" : "", name);
    else
        length = snprintf(path, HOST_RUN_PATH_MAX, "/dev/shm/directnfs.%u%s%s",
                          (unsigned)sys_call0(SYS_geteuid), *name ? "/" : "", name);
    return length > 0 && length < HOST_RUN_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int host_run_prepare(void)
{
    char path[HOST_RUN_PATH_MAX];
    struct stat status;
    int error = host_run_path(path, "");
    if (error) {
        log_error("the run directory's name is too long: set DIRECTNFS_RUN to a shorter path");
        return error;
    }
    /* A trailing slash would make the check below follow a symbolic link. */
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = '\0';
    error = sys_mkdir(path, 0700);
    if (error && error != -EEXIST) {
        log_error("cannot make the run directory %s: %s; make it with mode 0700, or set "
                  "DIRECTNFS_RUN to a directory that can be made",
                  path, strerror(-error));
        return error;
    }
    error = sys_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW);
    if (error) {
        log_error("cannot examine the run directory %s: %s", path, strerror(-error));
        return error;
    }
    if (!S_ISDIR(status.st_mode)) {
        log_error("the run directory %s is %s; remove it, or set DIRECTNFS_RUN", path,
                  S_ISLNK(status.st_mode) ? "a symbolic link" : "not a directory");
        return -ENOTDIR;
    }
    uid_t self = (uid_t)sys_call0(SYS_geteuid);
    if (status.st_uid != self) {
        log_error("the run directory %s belongs to user %u, not to %u; set DIRECTNFS_RUN to a "
                  "directory of this user",
                  path, (unsigned)status.st_uid, (unsigned)self);
        return -EPERM;
    }
    if (status.st_mode & 077) {
        log_error("the run directory %s is open to other users (mode %04o); chmod 0700 it", path,
                  (unsigned)(status.st_mode & 07777));
        return -EPERM;
    }
    return 0;
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
