#include "cmd/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "run/directory.h"

#define RUN_PARENT "/dev/shm"
#define RUN_PREFIX "directnfs."

/* Only this user's directory is visited. RUN_ANYBODY: no user was chosen. */
static uid_t chosen_user = RUN_ANYBODY;
static gid_t chosen_group;

static void cannot_become(const char *command, const char *who)
{
    cmd_complain(command, "cannot become %s: %m", who);
    exit(CMD_NOT_FINE);
}

/* Root becomes the user while `visit` runs, with that user's rights only. */
static void visit_as(const char *command, uid_t user, gid_t group, void (*visit)(void *argument),
                     void *argument)
{
    bool other = geteuid() == 0 && user != 0;
    gid_t own = getegid(), *groups = NULL;
    int count = other ? getgroups(0, NULL) : 0;
    if (other) {
        groups = malloc(sizeof(*groups) * ((size_t)(count > 0 ? count : 0) + 1));
        if (groups == NULL || (count = getgroups(count, groups)) < 0 || setgroups(1, &group) != 0 ||
            setegid(group) != 0 || seteuid(user) != 0)
            cannot_become(command, "the user of a run directory");
    }
    visit(argument);
    if (other && (seteuid(0) != 0 || setegid(own) != 0 || setgroups((size_t)count, groups) != 0))
        cannot_become(command, "root again");
    free(groups);
}

static void visit_open(const char *command, int run, void (*visit)(void *argument), void *argument)
{
    struct stat status;
    run_visit(run);
    if (fstat(run, &status) == 0)
        visit_as(command, status.st_uid, status.st_gid, visit, argument);
    run_visit(-1);
    close(run);
}

/* True for one directory, false for those of all users. */
static bool is_one(void)
{
    const char *chosen = getenv("DIRECTNFS_RUN");
    return geteuid() != 0 || (chosen != NULL && *chosen != '\0');
}

/* The user that must own the one directory. Root may name a directory of anybody. */
static uid_t owner_of_one(void)
{
    return chosen_user != RUN_ANYBODY ? chosen_user : geteuid() != 0 ? geteuid() : RUN_ANYBODY;
}

/* -ENOENT: nobody has made it yet. */
static int open_one(char path[RUN_PATH_MAX], char why[RUN_WHY])
{
    int error = run_path(path);
    if (error == 0)
        return run_open_at(AT_FDCWD, path, owner_of_one(), why);
    strcpy(path, "DIRECTNFS_RUN");
    strcpy(why, "is too long a name");
    return error;
}

static void say_passed_over(char problem[CMD_RUNDIR_PROBLEM], const char *path, const char *why,
                            const char *remedy)
{
    snprintf(problem, CMD_RUNDIR_PROBLEM, "the run directory %.100s is passed over: it %.60s%s",
             path, why, remedy);
}

static int visit_one(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM])
{
    char path[RUN_PATH_MAX], why[RUN_WHY], remedy[64] = "";
    struct stat status;
    int run = open_one(path, why);
    if (run >= 0)
        visit_open(command, run, visit, argument);
    if (run >= 0 || run == -ENOENT)
        return 0;
    if (run == -EACCES && lstat(path, &status) == 0)
        snprintf(remedy, sizeof(remedy), "; ask as user %u, whose it is, or as root",
                 status.st_uid);
    say_passed_over(problem, path, why, remedy);
    return run;
}

/* True if it is a directory of this user, even one that cannot be used. */
static bool is_of(int parent, const char *name, uid_t user)
{
    struct stat status;
    return fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode) &&
           status.st_uid == user;
}

/* A directory that does not belong to the user in its name was made by somebody else: it is passed
 * over. */
static int visit_all(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM])
{
    DIR *parent = opendir(RUN_PARENT);
    int error = 0;
    if (parent == NULL) {
        error = -errno;
        snprintf(problem, CMD_RUNDIR_PROBLEM, "cannot read " RUN_PARENT ": %m");
        return error;
    }
    for (struct dirent *entry; (entry = readdir(parent)) != NULL;) {
        char path[sizeof(RUN_PARENT) + 1 + sizeof(entry->d_name)], why[RUN_WHY];
        double uid;
        if (strncmp(entry->d_name, RUN_PREFIX, strlen(RUN_PREFIX)) != 0 ||
            !cmd_parse_number(entry->d_name + strlen(RUN_PREFIX), false, 0, UINT32_MAX - 1, &uid))
            continue;
        int run = run_open_at(dirfd(parent), entry->d_name, (uid_t)uid, why);
        snprintf(path, sizeof(path), "%s/%s", RUN_PARENT, entry->d_name);
        if (run >= 0 && setenv("DIRECTNFS_RUN", path, 1) == 0) /* for messages */
            visit_open(command, run, visit, argument);
        else if (run >= 0)
            close(run);
        else if (is_of(dirfd(parent), entry->d_name, (uid_t)uid)) {
            error = run;
            say_passed_over(problem, path, why, "");
        }
    }
    closedir(parent);
    unsetenv("DIRECTNFS_RUN");
    return error;
}

int cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM])
{
    return is_one() ? visit_one(command, visit, argument, problem)
                    : visit_all(command, visit, argument, problem);
}

bool cmd_rundir_is_foreign(void)
{
    return geteuid() != getuid();
}

int cmd_rundir_choose(const char *command, const char *user)
{
    char path[RUN_PATH_MAX];
    double number;
    bool numeric = cmd_parse_number(user, false, 0, UINT32_MAX - 1, &number);
    const struct passwd *entry = numeric ? getpwuid((uid_t)number) : getpwnam(user);
    if (entry == NULL && !numeric) {
        cmd_complain(command, "there is no user '%s'", user);
        return CMD_NOT_FINE;
    }
    chosen_user = entry ? entry->pw_uid : (uid_t)number;
    chosen_group = entry ? entry->pw_gid : (gid_t)number;
    if (geteuid() != 0 && geteuid() != chosen_user) {
        cmd_complain(command, "only root and user '%s' itself see its processes", user);
        return CMD_NOT_FINE;
    }
    snprintf(path, sizeof(path), RUN_PARENT "/" RUN_PREFIX "%u", chosen_user);
    return setenv("DIRECTNFS_RUN", path, 1) == 0 ? CMD_FINE : CMD_NOT_FINE;
}

static void prepare(void *argument)
{
    int run = run_make();
    *(bool *)argument = run >= 0;
    if (run >= 0)
        close(run);
}

bool cmd_rundir_make(const char *command)
{
    char path[RUN_PATH_MAX], why[RUN_WHY];
    int run = is_one() ? open_one(path, why) : -EACCES;
    bool made = run != -ENOENT;
    if (run >= 0)
        close(run);
    if (made)
        return true;
    if (chosen_user == RUN_ANYBODY)
        prepare(&made);
    else
        visit_as(command, chosen_user, chosen_group, prepare, &made);
    return made;
}

const char *cmd_rundir_problem(int error, char text[CMD_RUNDIR_PROBLEM])
{
    char path[RUN_PATH_MAX];
    snprintf(text, CMD_RUNDIR_PROBLEM, "the run directory %.130s cannot be read: %.80s",
             run_name(path), strerror(-error));
    return text;
}

void cmd_rundir_measure(struct cmd_rundir_memory *memory)
{
    enum { ENTRIES_MAX = 65536 }; /* a bound on what somebody put there */
    struct statvfs system;
    struct stat status;
    int run = run_open(), fd = run >= 0 ? openat(run, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    for (unsigned i = 0; directory && i < ENTRIES_MAX && (entry = readdir(directory)); i++)
        if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            memory->used += (uint64_t)status.st_blocks * 512;
    if (fd >= 0 && fstatvfs(fd, &system) == 0)
        memory->left = (uint64_t)system.f_bavail * system.f_frsize;
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
    run_close(run);
}

void cmd_rundir_name(char path[RUN_PATH_MAX])
{
    strcpy(path, RUN_PARENT "/" RUN_PREFIX "*");
    if (is_one())
        run_name(path);
}
