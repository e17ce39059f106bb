#include "run/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/fd.h"
#include "sys/hash.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

/* Set by the command, which has one thread. */
static int visited = -1;

/* What run_start() saw. Constant afterwards, except for the owner, which changes only while no
 * other thread is in the library. */
static struct {
    bool started;
    uid_t owner;
    int parent;                /* the directory that has the run directory, or -1 */
    char chosen[RUN_PATH_MAX]; /* $DIRECTNFS_RUN */
} at_start = {.parent = -1};

/* The user as which this thread opens files, while it acts as the owner instead. */
static __thread struct {
    unsigned depth;
    uid_t self;
} acting;

static void act_as_owner(void)
{
    if (!at_start.started || acting.depth++ > 0)
        return;
    /* A user that does not exist changes nothing, and the call returns the old one. */
    acting.self = (uid_t)sys_call1(SYS_setfsuid, -1);
    if (acting.self != at_start.owner)
        sys_call1(SYS_setfsuid, at_start.owner);
}

static void act_as_self(void)
{
    if (at_start.started && --acting.depth == 0 && acting.self != at_start.owner)
        sys_call1(SYS_setfsuid, acting.self);
}

uid_t run_owner(void)
{
    return at_start.started ? at_start.owner : (uid_t)sys_call0(SYS_geteuid);
}

int run_path(char path[RUN_PATH_MAX])
{
    const char *chosen = at_start.started ? at_start.chosen : secure_getenv("DIRECTNFS_RUN");
    int length;
    if (chosen && *chosen)
        length = snprintf(path, RUN_PATH_MAX, "%s", chosen);
    else
        length = snprintf(path, RUN_PATH_MAX, "/dev/shm/directnfs.%u", (unsigned)run_owner());
    if (length <= 0 || length >= RUN_PATH_MAX)
        return -ENAMETOOLONG;
    /* With a slash at the end a symbolic link would be followed. */
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    return 0;
}

/* The last part of the path, and in *parent what it is relative to. */
static const char *find(char path[RUN_PATH_MAX], int *parent)
{
    char *slash = strrchr(path, '/');
    *parent = AT_FDCWD;
    if (at_start.parent < 0)
        return path;
    *parent = at_start.parent;
    return slash ? slash + 1 : path;
}

void run_start(void)
{
    char path[RUN_PATH_MAX];
    const char *chosen = secure_getenv("DIRECTNFS_RUN");
    if (chosen && strlen(chosen) < sizeof(at_start.chosen))
        strcpy(at_start.chosen, chosen);
    else if (chosen)
        memset(at_start.chosen, '/', sizeof(at_start.chosen) - 1); /* too long: told when needed */
    at_start.owner = (uid_t)sys_call0(SYS_geteuid);
    at_start.started = true;
    if (run_path(path) != 0)
        return;
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = '\0';
    int fd = sys_open(slash ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0)
        at_start.parent = sys_fd_protect(fd);
}

void run_become(uid_t user)
{
    at_start.owner = user;
}

const char *run_name(char path[RUN_PATH_MAX])
{
    if (run_path(path) != 0)
        strcpy(path, "the run directory");
    return path;
}

/* Does the open directory belong to `owner`, and can nobody else enter? */
static int prove(int fd, uid_t owner, char *why)
{
    struct stat status;
    int error = sys_fstat(fd, &status);
    if (error) {
        snprintf(why, RUN_WHY, "cannot be examined: %s", strerror(-error));
        return error;
    }
    if (owner != RUN_ANYBODY && status.st_uid != owner) {
        snprintf(why, RUN_WHY, "belongs to user %u, not to %u", (unsigned)status.st_uid,
                 (unsigned)owner);
        return -EPERM;
    }
    if (status.st_mode & 077) {
        snprintf(why, RUN_WHY, "is open to other users (mode %04o)",
                 (unsigned)(status.st_mode & 07777));
        return -EPERM;
    }
    return 0;
}

int run_open_at(int parent, const char *path, uid_t owner, char why[RUN_WHY])
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
        snprintf(why, RUN_WHY, "is %s",
                 sys_fstatat(parent, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                         S_ISLNK(status.st_mode)
                     ? "a symbolic link"
                     : "no directory");
    else
        snprintf(why, RUN_WHY, "cannot be opened: %s", strerror(-error));
    return error;
}

/* Returns the descriptor, with the thread as the owner; or -errno, with the thread as itself. */
static int opened(int run)
{
    if (run < 0)
        act_as_self();
    return run;
}

/* `make`: if it is missing; `say`: on the log what is wrong. */
static int open_or_make(bool make, bool say)
{
    char path[RUN_PATH_MAX], why[RUN_WHY];
    int parent;
    if (visited >= 0)
        return sys_fcntl(visited, F_DUPFD_CLOEXEC, 0);
    int error = run_path(path);
    if (error) {
        if (say)
            log_error("the run directory's name is too long: set DIRECTNFS_RUN to a shorter path");
        return error;
    }
    const char *name = find(path, &parent);
    act_as_owner();
    int run = run_open_at(parent, name, run_owner(), why);
    if (run == -ENOENT && make) {
        error = (int)sys_call3(SYS_mkdirat, parent, name, 0700);
        if (error && error != -EEXIST) {
            if (say)
                log_error("cannot make the run directory %s: %s; make it with mode 0700, or set "
                          "DIRECTNFS_RUN to a directory that can be made",
                          path, strerror(-error));
            return opened(error);
        }
        run = run_open_at(parent, name, run_owner(), why);
    }
    if (run < 0 && say)
        log_error("the run directory %s %s; give it to user %u with mode 0700, remove it, or set "
                  "DIRECTNFS_RUN to another one",
                  path, why, (unsigned)run_owner());
    return opened(run);
}

int run_open(void)
{
    return open_or_make(false, false);
}

int run_make(void)
{
    return open_or_make(true, true);
}

int run_make_quietly(void)
{
    return open_or_make(true, false);
}

void run_close(int run)
{
    if (run < 0)
        return;
    sys_close(run);
    if (visited < 0)
        act_as_self();
}

void run_visit(int run)
{
    visited = run;
}

/* ---- who uses it ---- */

/* The mark is a lock on a byte of the directory above. On a directory only read locks are
 * possible. */
static struct flock mark_of(short type, const char *name)
{
    uint64_t hash = sys_hash(SYS_HASH_NONE ^ run_owner(), name, strlen(name));
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(hash >> 2), .l_len = 1};
}

/* A descriptor of the directory above, and in *mark the lock on it; or -errno. */
static int open_above(short type, struct flock *mark)
{
    char path[RUN_PATH_MAX];
    int parent, error = visited >= 0 ? -EINVAL : run_path(path);
    if (error)
        return error;
    const char *above = ".", *name = find(path, &parent);
    if (parent == AT_FDCWD && strrchr(path, '/')) {
        *strrchr(path, '/') = '\0';
        above = *path ? path : "/";
        name = path + strlen(path) + 1;
    }
    *mark = mark_of(type, name);
    return sys_openat(parent, above, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

int run_use(void)
{
    struct flock mark;
    int fd = open_above(F_RDLCK, &mark);
    int error = fd < 0 ? fd : sys_fcntl(fd, F_OFD_SETLK, (long)&mark);
    if (error < 0 && fd >= 0)
        sys_close(fd);
    return error < 0 ? error : fd;
}

bool run_is_used(void)
{
    struct flock mark;
    int fd = open_above(F_WRLCK, &mark);
    bool used = fd >= 0 && sys_fcntl(fd, F_OFD_GETLK, (long)&mark) == 0 && mark.l_type != F_UNLCK;
    if (fd >= 0)
        sys_close(fd);
    return used;
}

/* ---- what is in it ---- */

int run_open_file(int run, const char *name, int flags)
{
    struct stat status;
    /* Do not wait for a pipe, or for a lease of another process. */
    int fd = sys_openat(run, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0)
        return fd == -ELOOP || fd == -ENXIO || fd == -EISDIR ? -EBADMSG : fd;
    int error = sys_fstat(fd, &status);
    if (!error && !S_ISREG(status.st_mode))
        error = -EBADMSG;
    else if (!error && status.st_uid != run_owner())
        error = -EPERM;
    if (error)
        sys_close(fd);
    return error ? error : fd;
}

int run_open_named(const char *name, int flags)
{
    int run = run_open();
    int fd = run < 0 ? run : run_open_file(run, name, flags);
    run_close(run);
    return fd;
}

int run_list(int run, run_visitor *visit, void *argument)
{
    struct entry {
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
    } * entry;
    char buffer[4096] __attribute__((aligned(8)));
    int fd = sys_openat(run, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int result = fd < 0 ? fd : 0;
    ssize_t length = 0;
    while (!result && (length = sys_getdents64(fd, buffer, sizeof(buffer))) > 0) {
        for (ssize_t at = 0; !result && at < length; at += entry->length) {
            entry = (struct entry *)(buffer + at);
            result = visit(argument, entry->name);
        }
    }
    if (fd >= 0)
        sys_close(fd);
    return result ? result : (int)length;
}
