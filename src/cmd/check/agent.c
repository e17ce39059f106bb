/* directnfs check: can writes be left behind, and was something set aside? */
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/check/check.h"
#include "cmd/cmd.h"
#include "cmd/print.h"
#include "run/command.h"
#include "run/directory.h"
#include "stats/read.h"

extern char **environ;

/* Reports what every write costs without an agent. */
static void say_none(const char *format, const char *what, const char *why)
{
    check_say(CHECK_WARNING, "agent", format, what, why);
    check_word("agent", "cannot be had");
}

/* 0, or an errno value: this process cannot start the command. */
static int try_command(const char *command)
{
    char *const words[] = {(char *)"directnfs", (char *)"--version", NULL};
    posix_spawn_file_actions_t actions;
    int status = 0;
    pid_t child;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error)
        error = posix_spawn(&child, command, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return error;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    return status == 0 ? 0 : ENOEXEC;
}

static void say_command(void)
{
    char library[PATH_MAX], command[PATH_MAX];
    if (!cmd_library(library))
        return; /* `run` says so */
    if (!run_command_of(library, command)) {
        say_none("beside %s%s is no command directnfs that can be trusted, so no agent can be "
                 "started: each write(2) waits for its server, as with write_behind_max = 0",
                 library, "");
        check_remedy("install the command where the package has it, as root's");
        return;
    }
    int error = try_command(command);
    if (error) {
        say_none("%s cannot be started (%s), so there is no agent: each write(2) waits for its "
                 "server, as with write_behind_max = 0",
                 command, strerror(error));
        return;
    }
    check_say(CHECK_INFO, "agent", "%s is started when a program is about to write behind",
              command);
    check_word("agent", "none");
}

static void say_agent(const struct stats_agent *agent)
{
    char since[CMD_TIME_BYTES];
    if (agent && agent->lack[0])
        say_none("a program cannot leave writes behind (%s)%s: each of its writes waits for its "
                 "server, as with write_behind_max = 0",
                 agent->lack, "");
    if (agent && agent->state == STATS_AGENT_ALIVE) {
        cmd_time(since, agent->since_ns);
        check_say(CHECK_INFO, "agent",
                  "process %u sends for those who die, since %s; it watches %u", agent->pid, since,
                  agent->watched);
        if (!agent->lack[0])
            check_word("agent", "alive");
        check_number("pid", agent->pid);
        return;
    }
    say_command();
}

void check_agent(const struct check *check)
{
    struct stats_snapshot snapshot = {0};
    char path[RUN_PATH_MAX];
    unsigned long long bytes = 0;
    int run = run_open();
    if (run >= 0) { /* an error is reported with the run directory */
        stats_read_uncommitted(run, &snapshot);
        stats_read_strays(run, NULL, &snapshot);
        run_close(run);
    }
    if (check->tunables.write_behind_max > 0)
        say_agent(snapshot.agent_count ? snapshot.agents : NULL);
    for (unsigned i = 0; i < snapshot.stray_count; i++)
        bytes += snapshot.strays[i].bytes;
    if (snapshot.stray_count) {
        check_say(CHECK_WARNING, "strays",
                  "%llu bytes that processes wrote were set aside in %s, as their files may have "
                  "been changed by others since",
                  bytes, run_name(path));
        check_number("stray_bytes", bytes);
        check_remedy("`directnfs flush` says what can be done with them");
    }
    stats_snapshot_free(&snapshot);
}
