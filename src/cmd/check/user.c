/*
 * directnfs check --user, --unit: servers judge the caller by its user and its port. So root asks
 * as the service will.
 */
#include "cmd/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/print.h"

/* ---- what the unit gives ---- */

/* Starts `systemctl show`, which prints lines NAME=VALUE. NULL: it cannot, and *child is 0. */
static FILE *open_unit(const char *unit, pid_t *child)
{
    int ends[2];
    *child = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    pid_t forked = fork();
    if (forked == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp("systemctl", "systemctl", "show", "-p",
               "LoadState,User,AmbientCapabilities,Environment", "--", unit, (char *)NULL);
        _exit(CMD_NOT_FOUND);
    }
    close(ends[1]);
    if (forked < 0) {
        close(ends[0]);
        return NULL;
    }
    *child = forked;
    return fdopen(ends[0], "r");
}

/* Takes the library's variables from a line of NAME=VALUE words; a word may have quotes. */
static void take_environment(char *words)
{
    for (char *word; (word = strsep(&words, " ")) != NULL;) {
        size_t length = strlen(word);
        if (word[0] == '"' && length > 1 && word[length - 1] == '"') {
            word[length - 1] = '\0';
            word++;
        }
        char *value = strncmp(word, "DIRECTNFS_", 10) == 0 ? strchr(word, '=') : NULL;
        if (value == NULL)
            continue;
        *value = '\0';
        setenv(word, value + 1, 1);
    }
}

/* False after a complaint. */
static bool read_unit(struct check_as *as, char *user, size_t size)
{
    char *line = NULL;
    size_t room = 0;
    bool loaded = false;
    pid_t child;
    FILE *out = open_unit(as->unit, &child);
    while (out && getline(&line, &room, out) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *value = strchr(line, '=');
        if (value == NULL)
            continue;
        *value++ = '\0';
        if (strcmp(line, "LoadState") == 0)
            loaded = strcmp(value, "loaded") == 0;
        else if (strcmp(line, "User") == 0)
            snprintf(user, size, "%s", value);
        else if (strcmp(line, "AmbientCapabilities") == 0)
            as->low_ports = strstr(value, "cap_net_bind_service") != NULL;
        else if (strcmp(line, "Environment") == 0)
            take_environment(value);
    }
    free(line);
    if (out)
        fclose(out);
    if (child > 0)
        waitpid(child, NULL, 0);
    if (!loaded)
        cmd_complain("check", "systemd knows no unit '%s'", as->unit);
    return loaded;
}

/* ---- becoming it ---- */

/* Keeps the right to use ports below 1024 if `low_ports`, and no other. 0 or -errno. */
static int become(const struct passwd *entry, bool low_ports)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (low_ports)
        data[0].effective = data[0].permitted = UINT32_C(1) << CAP_NET_BIND_SERVICE;
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || initgroups(entry->pw_name, entry->pw_gid) != 0 ||
        setgid(entry->pw_gid) != 0 || setuid(entry->pw_uid) != 0 ||
        syscall(SYS_capset, &head, data) != 0)
        return -errno;
    return 0;
}

int check_become(struct check_as *as)
{
    char name[64] = "";
    double number;
    as->low_ports = as->unit == NULL;
    if (as->unit && !read_unit(as, name, sizeof(name)))
        return CMD_NOT_FINE;
    if (as->user)
        snprintf(name, sizeof(name), "%s", as->user);
    if (name[0] == '\0') {
        cmd_complain("check", "the unit '%s' names no user: say --user, too", as->unit);
        return CMD_NOT_FINE;
    }
    bool numeric = cmd_parse_number(name, false, 0, UINT32_MAX - 1, &number);
    struct passwd *entry = numeric ? getpwuid((uid_t)number) : getpwnam(name);
    if (entry == NULL) {
        cmd_complain("check", "there is no user '%s'", name);
        return CMD_NOT_FINE;
    }
    if (geteuid() != 0) {
        cmd_complain("check", "only root can ask as another user");
        return CMD_NOT_FINE;
    }
    int error = become(entry, as->low_ports);
    if (error)
        cmd_complain("check", "cannot become user '%s': %s", name, strerror(-error));
    return error ? CMD_NOT_FINE : CMD_FINE;
}

void check_say_as(const struct check_as *as)
{
    char number[CMD_USER_NUMBER];
    const char *user = cmd_user_name(geteuid(), number);
    if (as->unit)
        check_say(CHECK_INFO, "user",
                  "%s %s CAP_NET_BIND_SERVICE (ports below 1024), as the unit "
                  "%s has it",
                  user, as->low_ports ? "with" : "without", as->unit);
    else if (as->user)
        check_say(CHECK_INFO, "user",
                  "%s with CAP_NET_BIND_SERVICE (ports below 1024), as a service with the drop-in "
                  "has it",
                  user);
}
