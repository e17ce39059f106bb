/* directnfs exporter: its options, and the making of the metrics. */
#include "cmd/exporter/exporter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/print.h"
#include "cmd/snapshot.h"
#include "cmd/stat/view.h"
#include "sys/log.h"
#include "sys/sys.h"

#define DEFAULT_LISTEN "127.0.0.1:9913"

struct request {
    const char *listen;
};

/* Prints a problem if it differs from the last one. */
static void complain_of_problem(const struct cmd_snapshot *snapshot)
{
    static char said[CMD_RUNDIR_PROBLEM];
    if (strcmp(said, snapshot->problem) == 0)
        return;
    snprintf(said, sizeof(said), "%s", snapshot->problem);
    if (said[0])
        cmd_complain("exporter", "%s", said);
}

static char *make_metrics(size_t *size)
{
    char *text;
    uint64_t began_ns = sys_now_ns();
    struct cmd_snapshot snapshot;
    struct stat_set set;
    const struct stat_filter everything = {0};
    FILE *out = cmd_need(open_memstream(&text, size));
    cmd_snapshot_read("exporter", &snapshot, 2);
    complain_of_problem(&snapshot);
    stat_set_make(&set, &snapshot.stats, &everything);
    stat_prometheus_print(&set, out);
    unsigned problems = snapshot.stats.problem_count + snapshot.stats.problems_left_out;
    stat_prometheus_gauge(out, "exporter_problems", "Files and directories that could not be read.",
                          problems ? problems : snapshot.unread);
    stat_prometheus_gauge(out, "exporter_read_seconds", "Time that reading them took.",
                          (double)(sys_now_ns() - began_ns) / 1e9);
    stat_set_free(&set);
    cmd_snapshot_free(&snapshot);
    fclose(out);
    return cmd_need(text);
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    char why[EXPORTER_WHY];
    bool wrong;
    int status = cmd_options(&cmd_exporter, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (argc > optind)
        return cmd_usage_error("exporter", "'%s' is too much", argv[optind]);
    bool handed = request.listen == NULL && exporter_is_handed();
    if (!handed && request.listen == NULL)
        request.listen = DEFAULT_LISTEN;
    int fd = exporter_listen(request.listen, &wrong, why);
    if (fd < 0 && wrong)
        return cmd_usage_error("exporter", "%s", why);
    if (fd < 0) {
        cmd_complain("exporter", "%s", why);
        return CMD_NOT_FINE;
    }
    if (geteuid() == 0 && !exporter_drop_privileges()) {
        cmd_complain("exporter", "cannot give root's capabilities up: %m");
        return CMD_NOT_FINE;
    }
    log_set_level(LOG_LEVEL_ERROR);
    if (!handed)
        printf("directnfs exporter: listens on %s\n", request.listen);
    fflush(stdout);
    return exporter_serve(fd, make_metrics);
}

static const struct cmd_option options[] = {
    CMD_TEXT_OPTION("listen", 0, listen, "ADDRESS:PORT",
                    "where HTTP is served, instead of " DEFAULT_LISTEN),
};

const struct cmd_command cmd_exporter = {
    .name = "exporter",
    .usage = "exporter [OPTION...]\n",
    .purpose = "serves metrics to Prometheus over HTTP",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
