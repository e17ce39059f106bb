#include "cmd/rundir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "host/run.h"

#define RUN_PARENT "/dev/shm"
#define RUN_PREFIX "directnfs."

/* As root: becomes the user for as long as `visit` runs. */
static void visit_as(const char *command, uid_t user, gid_t group, void (*visit)(void *argument),
                     void *argument)
{
    bool other = geteuid() == 0 && user != 0;
    gid_t own = getegid();
    if (other && (setegid(group) != 0 || seteuid(user) != 0)) {
        cmd_complain(command, "cannot become user %u: %m", user);
        exit(CMD_NOT_FINE);
    }
    visit(argument);
    if (other && (seteuid(0) != 0 || setegid(own) != 0)) {
        cmd_complain(command, "cannot become root again: %m");
        exit(CMD_NOT_FINE);
    }
}

static void visit_one(const char *command, void (*visit)(void *argument), void *argument)
{
    char path[HOST_RUN_PATH_MAX];
    struct stat status;
    if (host_run_path(path, "") != 0)
        cmd_complain(command, "the run directory's name is too long");
    else if (stat(path, &status) == 0) /* else nobody has made it yet */
        visit_as(command, status.st_uid, status.st_gid, visit, argument);
}

/* What does not belong to the user in its name was put there by somebody else: it is passed over.
 */
static void visit_all(const char *command, void (*visit)(void *argument), void *argument)
{
    DIR *parent = opendir(RUN_PARENT);
    if (parent == NULL) {
        cmd_complain(command, "cannot read " RUN_PARENT ": %m");
        return;
    }
    for (struct dirent *entry; (entry = readdir(parent)) != NULL;) {
        const char *number = entry->d_name + strlen(RUN_PREFIX);
        char path[sizeof(RUN_PARENT) + 1 + sizeof(entry->d_name)], *end;
        struct stat status;
        if (strncmp(entry->d_name, RUN_PREFIX, strlen(RUN_PREFIX)) != 0 ||
            !isdigit((unsigned char)*number))
            continue;
        unsigned long uid = strtoul(number, &end, 10);
        snprintf(path, sizeof(path), "%s/%s", RUN_PARENT, entry->d_name);
        if (*end != '\0' || lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) ||
            status.st_uid != uid)
            continue;
        if (setenv("DIRECTNFS_RUN", path, 1) == 0)
            visit_one(command, visit, argument);
    }
    closedir(parent);
    unsetenv("DIRECTNFS_RUN");
}

/* Is it one directory, and not those of all users? */
static bool is_one(void)
{
    const char *chosen = getenv("DIRECTNFS_RUN");
    return geteuid() != 0 || (chosen != NULL && *chosen != '\0');
}

void cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument)
{
    if (is_one())
        visit_one(command, visit, argument);
    else
        visit_all(command, visit, argument);
}

static uid_t chosen_user = (uid_t)-1;
static gid_t chosen_group;

int cmd_rundir_choose(const char *command, const char *user)
{
    char path[HOST_RUN_PATH_MAX];
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
    *(int *)argument = host_run_prepare();
}

bool cmd_rundir_make(const char *command)
{
    char path[HOST_RUN_PATH_MAX];
    struct stat status;
    int error = 0;
    if (!is_one() || host_run_path(path, "") != 0 || stat(path, &status) == 0)
        return true;
    if (chosen_user == (uid_t)-1)
        prepare(&error);
    else
        visit_as(command, chosen_user, chosen_group, prepare, &error);
    return error == 0;
}

const char *cmd_rundir_problem(int error, char text[CMD_RUNDIR_PROBLEM])
{
    char path[HOST_RUN_PATH_MAX] = "", remedy[64] = "";
    struct stat status;
    host_run_path(path, "");
    if (error == -EACCES && stat(path, &status) == 0)
        snprintf(remedy, sizeof(remedy), "; ask as user %u, whose it is, or as root",
                 status.st_uid);
    snprintf(text, CMD_RUNDIR_PROBLEM, "the run directory %.100s cannot be read: %.80s%s", path,
             strerror(-error), remedy);
    return text;
}

void cmd_rundir_name(char path[HOST_RUN_PATH_MAX])
{
    strcpy(path, RUN_PARENT "/" RUN_PREFIX "*");
    if (is_one())
        host_run_path(path, "");
}
