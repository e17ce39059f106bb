#include "cmd/strays.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/print.h"
#include "cmd/rundir.h"
#include "run/strays.h"

enum { DIRECTORIES_OPEN = 32 }; /* in a search for a file */

bool cmd_strays_read(struct stats_snapshot *snapshot)
{
    char problem[CMD_RUNDIR_PROBLEM];
    int run = run_open(), error = run == -ENOENT ? 0 : run;
    if (run >= 0) {
        error = stats_read_strays(run, NULL, snapshot);
        run_close(run);
    }
    if (error)
        cmd_complain("flush", "%s", cmd_rundir_problem(error, problem));
    return error == 0;
}

/* ---- which ---- */

/* A mount may have got another device since, as it was mounted again. */
static bool is_on(const struct stats_stray *stray, dev_t device)
{
    struct stat status;
    return stray->device == device ||
           (stray->mount[0] && stat(stray->mount, &status) == 0 && status.st_dev == device);
}

bool cmd_stray_is_of(const struct stats_stray *stray, const struct cmd_stray_target *target)
{
    const char *slash = strrchr(target->name, '/');
    if (target->aside)
        return strcmp(stray->file, slash ? slash + 1 : target->name) == 0;
    return (!target->file || stray->inode == target->inode) && is_on(stray, target->device);
}

/* True for the name of a stray's file; with a directory, only if it is this run directory. */
static bool is_stray_name(const char *name)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    struct run_stray_name parsed;
    struct stat named, here;
    if (!run_stray_parse(last, &parsed) || !slash)
        return slash == NULL && run_stray_parse(last, &parsed);
    int run = run_open();
    bool same = run >= 0 && fstatat(run, last, &here, AT_SYMLINK_NOFOLLOW) == 0 &&
                lstat(name, &named) == 0 && named.st_dev == here.st_dev &&
                named.st_ino == here.st_ino;
    run_close(run);
    return same;
}

int cmd_strays_find(const char *name, struct cmd_stray_target *target)
{
    struct stats_snapshot snapshot = {0};
    struct stat status;
    *target = (struct cmd_stray_target){.name = name, .aside = is_stray_name(name), .file = true};
    if (!target->aside && stat(name, &status) != 0)
        return -errno;
    if (!target->aside && !S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
    if (!target->aside) {
        target->device = status.st_dev;
        target->inode = status.st_ino;
    }
    bool found = false;
    if (!cmd_strays_read(&snapshot))
        return -EIO;
    for (unsigned i = 0; i < snapshot.stray_count; i++)
        found = found || cmd_stray_is_of(&snapshot.strays[i], target);
    stats_snapshot_free(&snapshot);
    return found ? 0 : -ENOENT;
}

/* ---- saying ---- */

/* The path, or what is known of it. */
static const char *name_of(const struct stats_stray *stray, char name[PATH_MAX])
{
    if (strcmp(stray->path, stray->mount) != 0)
        snprintf(name, PATH_MAX, "%s", stray->path);
    else
        snprintf(name, PATH_MAX, "%s: file number %llu", stray->mount,
                 (unsigned long long)stray->inode);
    return name;
}

static const char *file_of(const struct stats_stray *stray, char file[PATH_MAX])
{
    char path[RUN_PATH_MAX];
    snprintf(file, PATH_MAX, "%s/%s", run_name(path), stray->file);
    return file;
}

static void say_one(const struct stats_stray *stray)
{
    char name[PATH_MAX], file[PATH_MAX], since[CMD_TIME_BYTES];
    file_of(stray, file);
    cmd_time(since, stray->since_ns);
    if (!stray->whole)
        cmd_complain("flush",
                     "%s is not finished, or damaged, and is never written to a file: a process "
                     "that sets data aside keeps it until that is finished; 'directnfs flush "
                     "--discard %s' removes it",
                     file, file);
    else
        cmd_complain("flush",
                     "%s: %llu bytes that a process wrote are not sent to server %s, as the file "
                     "may have been changed by others since; they were set aside %s in %s: "
                     "'directnfs flush --force %s' writes them to the file, 'directnfs flush "
                     "--discard %s' removes them",
                     name_of(stray, name), (unsigned long long)stray->bytes, stray->server, since,
                     file, file, file);
}

unsigned cmd_strays_say(const struct cmd_stray_target *target)
{
    struct stats_snapshot snapshot = {0};
    unsigned count = !cmd_strays_read(&snapshot);
    for (unsigned i = 0; i < snapshot.stray_count; i++) {
        if (target && !cmd_stray_is_of(&snapshot.strays[i], target))
            continue;
        say_one(&snapshot.strays[i]);
        count++;
    }
    stats_snapshot_free(&snapshot);
    return count;
}

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    char *printable = cmd_printable(cmd_need(length < 0 ? NULL : text), SIZE_MAX);
    puts(printable);
    free(printable);
    free(text);
}

static bool remove_one(const struct stats_stray *stray)
{
    int run = run_open();
    int error = run < 0 ? run : run_stray_remove(run, stray->file);
    char file[PATH_MAX];
    run_close(run);
    if (error && error != -ENOENT)
        cmd_complain("flush", "%s cannot be removed: %s", file_of(stray, file),
                     error == -EBUSY ? "a process writes it" : strerror(-error));
    return !error || error == -ENOENT;
}

bool cmd_strays_discard(const struct cmd_stray_target *target)
{
    struct stats_snapshot snapshot = {0};
    char name[PATH_MAX], file[PATH_MAX];
    bool fine = cmd_strays_read(&snapshot);
    for (unsigned i = 0; i < snapshot.stray_count; i++) {
        const struct stats_stray *stray = &snapshot.strays[i];
        if (!cmd_stray_is_of(stray, target))
            continue;
        bool removed = remove_one(stray);
        fine = fine && removed;
        if (removed)
            print("%s: %llu bytes removed with %s", name_of(stray, name),
                  (unsigned long long)stray->bytes, file_of(stray, file));
    }
    stats_snapshot_free(&snapshot);
    return fine;
}

/* ---- writing ---- */

/* The file that is searched for in the directories of a mount, and its name once it is found. */
static const struct run_stray *wanted;
static char found[PATH_MAX];

static bool is_wanted(const struct stat *status)
{
    return S_ISREG(status->st_mode) && status->st_ino == wanted->inode;
}

static int look(const char *name, const struct stat *status, int type, struct FTW *place)
{
    (void)place;
    if (type != FTW_F || !is_wanted(status) || strlen(name) >= sizeof(found))
        return 0;
    strcpy(found, name);
    return 1;
}

/* A name of the stray's file: the one that it had, or any on the mount. NULL: none. */
static const char *find_file(const struct run_stray *stray)
{
    struct stat status;
    wanted = stray;
    if (stat(stray->path, &status) == 0 && is_wanted(&status))
        return stray->path;
    return nftw(stray->mount, look, DIRECTORIES_OPEN, FTW_MOUNT | FTW_PHYS) == 1 ? found : NULL;
}

/* 0 or -errno */
static int write_piece(int fd, const char *bytes, size_t length, uint64_t offset)
{
    while (length > 0) {
        ssize_t done = pwrite(fd, bytes, length, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        bytes += done;
        length -= (size_t)done;
        offset += (size_t)done;
    }
    return 0;
}

/* Writes all pieces to the open file, and to the server's disk. 0 or -errno. */
static int write_all(struct run_stray_file *file, int fd)
{
    static char bytes[RUN_STRAY_PIECE];
    uint64_t offset;
    ssize_t length;
    int result = 0;
    while (!result && (length = run_stray_next(file, &offset, bytes)) != 0)
        result = length < 0 ? (int)length : write_piece(fd, bytes, (size_t)length, offset);
    if (!result && fsync(fd) != 0)
        result = -errno;
    return result;
}

/* Opens the file of this name, if it is the stray's. Returns its descriptor or -errno. */
static int open_file(const char *name, const struct stats_stray *stray)
{
    struct stat status;
    int fd = open(name, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return -error;
    }
    if (S_ISREG(status.st_mode) && status.st_ino == stray->inode && is_on(stray, status.st_dev))
        return fd;
    close(fd);
    return -ESTALE;
}

/* Opens the stray's file, writes it, and closes it. 0 or -errno of any of these. */
static int force(struct run_stray_file *file, const char *name, const struct stats_stray *stray)
{
    int result = run_stray_check(file), fd = result ? result : open_file(name, stray);
    if (fd < 0)
        return fd;
    result = write_all(file, fd);
    if (close(fd) != 0 && !result)
        result = -errno;
    return result;
}

static bool force_one(const struct cmd_stray_target *target, const struct stats_stray *stray)
{
    char text[RUN_STRAY_TEXT], path[PATH_MAX];
    struct run_stray_file file;
    struct run_stray head;
    int run = run_open(), result = run_stray_read(&file, run, stray->file, text, &head);
    run_close(run);
    file_of(stray, path);
    if (result) {
        cmd_complain("flush", "%s cannot be read: %s", path, strerror(-result));
        return false;
    }
    const char *name = target->aside ? find_file(&head) : target->name;
    result = name ? force(&file, name, stray) : -ENOENT;
    run_stray_close(&file);
    if (!name)
        cmd_complain("flush",
                     "%s: no file of number %llu is found on %s; what is of a file that is gone "
                     "goes by 'directnfs flush --discard %s'",
                     path, (unsigned long long)head.inode, head.mount, path);
    else if (result == -EBADMSG)
        cmd_complain("flush", "%s is damaged, and is not written to %s", path, name);
    else if (result == -ESTALE)
        cmd_complain("flush", "%s is of another file than %s is now, and is not written to it",
                     path, name);
    else if (result)
        cmd_complain("flush", "%s: what is in %s cannot be written to it, and stays there: %s",
                     name, path, strerror(-result));
    if (result || !remove_one(stray))
        return false;
    print("%s: %llu bytes written, which were in %s", name, (unsigned long long)head.bytes, path);
    return true;
}

/* An older stray of this file; NULL: none. If it were written later, it would undo the newer
 * one. */
static const struct stats_stray *older(const struct stats_snapshot *snapshot, unsigned index)
{
    for (unsigned i = 0; i < index; i++)
        if (snapshot->strays[i].inode == snapshot->strays[index].inode &&
            strcmp(snapshot->strays[i].mount, snapshot->strays[index].mount) == 0 &&
            snapshot->strays[i].whole)
            return &snapshot->strays[i];
    return NULL;
}

bool cmd_strays_force(const struct cmd_stray_target *target)
{
    struct stats_snapshot snapshot = {0};
    char file[PATH_MAX], first[PATH_MAX];
    bool read = cmd_strays_read(&snapshot), whole = true, fine = read;
    for (unsigned i = 0; i < snapshot.stray_count && fine; i++) {
        const struct stats_stray *stray = &snapshot.strays[i], *before = older(&snapshot, i);
        if (!cmd_stray_is_of(stray, target))
            continue;
        whole = whole && stray->whole;
        if (!stray->whole) {
            say_one(stray);
        } else if (target->aside && before) {
            cmd_complain("flush", "%s is newer than %s, of the same file: first that one",
                         file_of(stray, file), file_of(before, first));
            fine = false;
        } else {
            fine = force_one(target, stray);
        }
    }
    stats_snapshot_free(&snapshot);
    return fine && whole;
}
