#include "run/start.h"

#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "run/directory.h"
#include "run/log_limit.h"
#include "sys/proc.h"

enum { GROUP_MAX = 400, DAY_S = 86400, HOST_GROUP = 1 };

/* The path of the control group in the unified hierarchy; empty: it is not known. */
static void read_group(char group[GROUP_MAX])
{
    char text[2048];
    group[0] = '\0';
    int fd = sys_proc_open("self/cgroup", O_RDONLY);
    ssize_t length = fd < 0 ? 0 : sys_read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        sys_close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    const char *path = line ? strchr(line, '/') : NULL;
    if (path)
        snprintf(group, GROUP_MAX, "%.*s", (int)strcspn(path, "\n"), path);
}

/* The number of a control group: a service that is started again has another one with the old name.
 * 0: it is the whole host's group, or not known. */
static uint64_t number_of(const char *group)
{
    char path[GROUP_MAX + 32];
    struct stat status;
    struct statfs system;
    snprintf(path, sizeof(path), "/sys/fs/cgroup%s", group);
    bool known = group[0] != '\0' && (int)sys_call2(SYS_statfs, path, &system) == 0 &&
                 system.f_type == CGROUP2_SUPER_MAGIC &&
                 sys_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
    return known && status.st_ino != HOST_GROUP ? status.st_ino : 0;
}

bool run_may_say_start(void)
{
    char subject[GROUP_MAX + 128], group[GROUP_MAX];
    const char *start = secure_getenv("DIRECTNFS_START");
    if (start && *start) {
        snprintf(subject, sizeof(subject), "start: %.100s", start);
    } else {
        read_group(group);
        uint64_t number = number_of(group);
        /* A login has one group for all that is started in it, by hand too. */
        long session = number == 0 || strstr(group, "user.slice") ? sys_call1(SYS_getsid, 0) : 0;
        snprintf(subject, sizeof(subject), "start: %s %llu %ld", group, (unsigned long long)number,
                 session);
    }
    /* Most programs end here: one look costs less than to map the table. */
    if (run_was_said(subject, DAY_S))
        return false;
    int run = run_make_quietly();
    if (run < 0)
        return false;
    run_close(run);
    return run_may_say(subject, DAY_S);
}
