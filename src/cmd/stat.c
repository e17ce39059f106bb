/*
 * directnfs stat: collects the statistics of processes and prints views of them.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/rundir.h"
#include "cmd/stat_view.h"
#include "host/stats_read.h"
#include "sys/log.h"

/* What was asked for. */
struct request {
    const struct stat_view *view; /* NULL: all */
    bool json, last;
    uint32_t pid; /* 0: all */
};

/* ---- reading ---- */

static void complain_of(int error)
{
    if (error)
        cmd_complain("stat", "cannot read the run directory: %s", strerror(-error));
}

static void read_directory(void *snapshot)
{
    complain_of(host_stats_snapshot_read(snapshot));
}

static void read_all(struct host_stats_snapshot *snapshot)
{
    *snapshot = (struct host_stats_snapshot){0};
    cmd_rundir_visit("stat", read_directory, snapshot);
    for (unsigned i = 0; i < snapshot->problem_count; i++) {
        char *path = cmd_printable(snapshot->problems[i].path, sizeof(snapshot->problems[i].path));
        cmd_complain("stat", "%s is passed over: %s", path, snapshot->problems[i].reason);
        free(path);
    }
}

/* ---- printing ---- */

static void print_json(const struct stat_set *set, const struct request *request)
{
    struct cmd_json json = {.out = stdout};
    if (request->view) {
        request->view->print_json(set, &json, NULL);
        return;
    }
    cmd_json_open(&json, NULL, '{');
    for (size_t i = 0; i < STAT_VIEWS; i++)
        stat_views[i].print_json(set, &json, stat_views[i].name);
    cmd_json_close(&json, '}');
}

static void print(const struct stat_set *set, const struct request *request)
{
    size_t width = cmd_terminal_width();
    for (size_t i = 0; i < STAT_VIEWS; i++) {
        if (request->view && request->view != &stat_views[i])
            continue;
        if (!request->view)
            printf("%s%s\n", i ? "\n" : "", stat_views[i].title);
        stat_views[i].print(set, width, stdout);
    }
}

/* Says why there is nothing to show. */
static void complain_of_nothing(const struct request *request)
{
    char *printable = cmd_rundir_name();
    if (request->pid)
        cmd_complain("stat", "no process %u %s directnfs, as far as %s tells", request->pid,
                     request->last ? "that has ended used" : "uses", printable);
    else if (request->last)
        cmd_complain("stat", "no process that used directnfs has ended, as far as %s tells",
                     printable);
    else
        cmd_complain("stat",
                     "no process uses directnfs now, as far as %s tells; --last shows what ended",
                     printable);
    free(printable);
}

static int show(const struct request *request)
{
    struct host_stats_snapshot snapshot;
    log_set_level(LOG_LEVEL_ERROR);
    read_all(&snapshot);
    struct directnfs_stats **all = request->last ? snapshot.ended : snapshot.processes;
    unsigned count = request->last ? snapshot.ended_count : snapshot.count;
    struct stat_set set = {.ended = request->last,
                           .processes = calloc(count + 1, sizeof(*set.processes))};
    for (unsigned i = 0; set.processes && i < count; i++) {
        if (request->pid == 0 || all[i]->pid == request->pid)
            set.processes[set.count++] = all[i];
    }
    int result = CMD_FINE;
    if (set.count == 0) {
        complain_of_nothing(request);
        result = CMD_NOT_FINE;
    } else {
        stat_set_servers(&set);
        if (request->json)
            print_json(&set, request);
        else
            print(&set, request);
    }
    free(set.processes);
    free(set.servers);
    host_stats_snapshot_free(&snapshot);
    return result;
}

static const struct stat_view *find_view(const char *name)
{
    for (size_t i = 0; i < STAT_VIEWS; i++)
        if (strcmp(stat_views[i].name, name) == 0)
            return &stat_views[i];
    return NULL;
}

int cmd_stat(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"last", no_argument, NULL, 'l'},
        {"pid", required_argument, NULL, 'p'},
        {0},
    };
    struct request request = {0};
    double pid;
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        switch (option) {
        case 'j':
            request.json = true;
            break;
        case 'l':
            request.last = true;
            break;
        case 'p':
            if (!cmd_parse_number(optarg, false, 1, INT32_MAX, &pid))
                return cmd_usage_error("stat", "--pid takes a process number, not '%s'", optarg);
            request.pid = (uint32_t)pid;
            break;
        default:
            return cmd_option_error("stat", option, argv);
        }
    }
    if (argc - optind > 1)
        return cmd_usage_error("stat", "one view at a time; '%s' is too much", argv[optind + 1]);
    if (argc > optind) {
        request.view = find_view(argv[optind]);
        if (request.view == NULL)
            return cmd_usage_error("stat",
                                   "no view is called '%s'; there are servers, channels, files and "
                                   "stats",
                                   argv[optind]);
    }
    return show(&request);
}
