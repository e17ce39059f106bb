/*
 * directnfs agent: the process that sends what others wrote behind and did not live to send. The
 * library starts it where it is needed (durable/agent.c), or a service manager does.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "fd/care.h"
#include "sys/log.h"
#include "sys/proc.h"

enum { PASSING_MS = 1000 };

struct request {
    bool stay;
};

/* Blocks all signals, in all threads; fd_care() reads some of them. Others are not for the agent: a
 * service manager may send them to all processes of a unit. They must not end or stop it. */
static void block_signals(void)
{
    sigset_t signals;
    sigfillset(&signals);
    sigprocmask(SIG_SETMASK, &signals, NULL);
}

/* ---- its parent ---- */

static FILE *open_parent(const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)getppid(), name);
    return fopen(path, "re");
}

/* True if the library has just started this process. Then the parent shares the memory of the
 * program, and is about to end. It has no exit signal, unlike a program that another program
 * started. */
static bool is_parent_passing(void)
{
    char line[1024] = "";
    FILE *stat = open_parent("stat");
    if (!stat)
        return false;
    if (!fgets(line, sizeof(line), stat))
        line[0] = '\0';
    fclose(stat);
    char *field = strrchr(line, ')'); /* behind the 2nd */
    for (int number = 2; field && number < 38; number++)
        field = strchr(field + 1, ' ');
    return field && atoi(field) == 0;
}

static bool has_parent_library(void)
{
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *maps = open_parent("maps");
    while (maps && !found && getline(&line, &size, maps) > 0)
        found = strstr(line, "/libdirectnfs.so") != NULL;
    if (maps)
        fclose(maps);
    free(line);
    return found;
}

/*
 * The first process of a container adopts all orphans. If it is a program with the library, it
 * adopts the agent, too. The death of an unknown child may be a disaster for it: PostgreSQL starts
 * anew then. So the agent is a child of this process, and this one ends as if nothing had happened.
 * If no process can be had, the agent runs without that, and nothing else changes.
 */
static void stand_between(void)
{
    bool passing = is_parent_passing();
    for (int ms = 0; ms < PASSING_MS && passing; ms++) {
        usleep(1000);
        passing = is_parent_passing();
    }
    signal(SIGCHLD, SIG_DFL);
    pid_t agent = passing || has_parent_library() ? fork() : 0;
    int status = 0, number;
    sigset_t signals;
    if (agent <= 0)
        return;
    sigfillset(&signals);
    while (waitpid(agent, &status, WNOHANG) == 0) {
        if (sigwait(&signals, &number) == 0 && number != SIGCHLD)
            kill(agent, number);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : CMD_FINE);
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    int status = cmd_options(&cmd_agent, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (optind < argc)
        return cmd_usage_error("agent", "'%s' is not expected", argv[optind]);
    block_signals();
    stand_between();
    const char *target = secure_getenv("DIRECTNFS_LOG");
    if (log_open(target && *target ? target : NULL) < 0)
        cmd_complain("agent", "DIRECTNFS_LOG: %s cannot be used; messages go to standard error",
                     target);
    sys_proc_keep();
    int result = fd_care(request.stay);
    if (result == -EBUSY && request.stay)
        cmd_complain("agent", "there is one in this run directory already");
    return result == 0 || result == -EBUSY ? CMD_FINE : CMD_NOT_FINE;
}

static const struct cmd_option options[] = {
    CMD_FLAG_OPTION("stay", 's', stay, "until SIGTERM, also while there is no process to care for"),
};

const struct cmd_command cmd_agent = {
    .name = "agent",
    .usage = "agent [--stay]\n",
    .purpose = "sends what processes of the run directory wrote and do not live to send;\n"
               "         the library starts it where it is needed",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
