#include "cmd/rundir.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/text.h"
#include "host/run.h"

#define RUN_PARENT "/dev/shm"
#define RUN_PREFIX "directnfs."

static void visit_one(const char *command, void (*visit)(void *argument), void *argument)
{
    char path[HOST_RUN_PATH_MAX];
    struct stat status;
    int error = host_run_path(path, "");
    if (error) {
        cmd_complain(command, "the run directory's name is too long");
        return;
    }
    if (stat(path, &status) != 0)
        return; /* nobody has made it yet */
    bool other = geteuid() == 0 && status.st_uid != 0;
    gid_t group = getegid();
    if (other && (setegid(status.st_gid) != 0 || seteuid(status.st_uid) != 0)) {
        cmd_complain(command, "cannot become user %u to read %s: %m", status.st_uid, path);
        exit(CMD_NOT_FINE);
    }
    visit(argument);
    if (other && (seteuid(0) != 0 || setegid(group) != 0)) {
        cmd_complain(command, "cannot become root again: %m");
        exit(CMD_NOT_FINE);
    }
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

bool cmd_rundir_is_one(void)
{
    const char *chosen = getenv("DIRECTNFS_RUN");
    return geteuid() != 0 || (chosen != NULL && *chosen != '\0');
}

void cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument)
{
    if (cmd_rundir_is_one())
        visit_one(command, visit, argument);
    else
        visit_all(command, visit, argument);
}

char *cmd_rundir_name(void)
{
    char path[HOST_RUN_PATH_MAX] = RUN_PARENT "/" RUN_PREFIX "*";
    if (cmd_rundir_is_one())
        host_run_path(path, "");
    return cmd_printable(path, sizeof(path));
}
