/*
 * directnfs agent: the process that sends what others wrote behind and did not live to send. The
 * library starts it where it is needed (file/agent.c), or a service manager does.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "file/care.h"
#include "sys/log.h"
#include "sys/proc.h"

struct request {
    bool stay;
};

/* In all threads; file_care() reads them. The library starts it with all blocked. */
static void block_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
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
    const char *target = secure_getenv("DIRECTNFS_LOG");
    if (log_open(target && *target ? target : NULL) < 0)
        cmd_complain("agent", "DIRECTNFS_LOG: %s cannot be used; messages go to standard error",
                     target);
    sys_proc_keep();
    int result = file_care(request.stay);
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
