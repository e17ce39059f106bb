/* directnfs stat: collects the statistics of processes and prints views of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/rundir.h"
#include "cmd/snapshot.h"
#include "cmd/stat/view.h"
#include "sys/log.h"
#include "sys/sys.h"

/* What was asked for. */
struct request {
    const struct stat_view *view; /* NULL: the page; for programs, all */
    bool all;                     /* all views, one after the other */
    struct stat_filter filter;
    bool json, prometheus, sum;
    const char *sort;
    const char *plot; /* a file to draw to */
    double interval;  /* seconds; 0: one report */
    unsigned count;   /* number of reports; 0: no end */
};

/* ---- reading ---- */

static void complain_of_problems(const struct stats_snapshot *snapshot)
{
    for (unsigned i = 0; i < snapshot->problem_count; i++)
        cmd_complain("stat", "%s is passed over: %s", snapshot->problems[i].path,
                     snapshot->problems[i].reason);
    if (snapshot->problems_left_out)
        cmd_complain("stat", "... and %u more files", snapshot->problems_left_out);
}

/* ---- printing ---- */

/* In an interval, each report is an object with its time. */
static void print_json(const struct stat_set *set, const struct request *request)
{
    struct cmd_json json = {.out = stdout};
    char time[CMD_TIME_BYTES];
    if (request->view && !request->interval) {
        stat_view_print_json(request->view, set, request->sort, &json, NULL);
        return;
    }
    cmd_json_open(&json, NULL, '{');
    if (request->interval) {
        cmd_time(time, set->snapshot->taken_ns);
        cmd_json_text(&json, "time", time, sizeof(time));
        cmd_json_real(&json, "seconds", set->snapshot->seconds);
    }
    for (size_t i = 0; i < STAT_VIEWS; i++) {
        const struct stat_view *view = &stat_views[i];
        if (request->view ? view == request->view : !view->on_request)
            stat_view_print_json(view, set, request->sort, &json, view->name);
    }
    cmd_json_close(&json, '}');
}

static void print(const struct stat_set *set, const struct request *request)
{
    const char *separator = "";
    size_t width = cmd_terminal_width();
    char time[CMD_TIME_BYTES];
    if (!request->view && !request->all) {
        stat_page_print(set, width, stdout);
        return;
    }
    if (request->interval) {
        cmd_time(time, set->snapshot->taken_ns);
        if (set->snapshot->seconds > 0)
            printf("%s, per second over %.2f s\n", time, set->snapshot->seconds);
        else
            printf("%s, since start\n", time);
    }
    for (size_t i = 0; i < STAT_VIEWS; i++) {
        const struct stat_view *view = &stat_views[i];
        if (request->view ? view != request->view : view->on_request)
            continue;
        if (!request->view)
            printf("%s%s\n", separator, view->title);
        separator = "\n";
        stat_view_print(view, set, width, request->sort, stdout);
    }
    if (request->interval)
        putchar('\n');
}

/* Says why there is nothing to show. */
static void complain_of_nothing(const struct request *request)
{
    char directory[RUN_PATH_MAX];
    cmd_rundir_name(directory);
    const char *server = request->filter.server;
    bool last = request->filter.last;
    if (request->filter.pid && server)
        cmd_complain("stat", "no process %u uses the server %s, as far as %s tells",
                     request->filter.pid, server, directory);
    else if (request->filter.pid)
        cmd_complain("stat", "no process %u uses directnfs, as far as %s tells",
                     request->filter.pid, directory);
    else if (server)
        cmd_complain("stat",
                     "no process uses the server %s, as far as %s tells; 'directnfs stat servers' "
                     "shows which ones are used",
                     server, directory);
    else if (last)
        cmd_complain("stat", "no process that used directnfs has ended, as far as %s tells",
                     directory);
    else
        cmd_complain("stat",
                     "no process uses directnfs now, as far as %s tells; --last shows what ended",
                     directory);
}

struct file_number {
    uint64_t device, inode;
};

static int by_number(const void *one, const void *other)
{
    const struct file_number *a = one, *b = other;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->inode > b->inode) - (a->inode < b->inode);
}

/* The files that processes have open, sorted, and their number. NULL: no memory. */
static struct file_number *open_files(const struct stats_snapshot *snapshot, size_t *count)
{
    size_t room = 1;
    for (unsigned i = 0; i < snapshot->count; i++)
        room += DIRECTNFS_FILES;
    struct file_number *files = calloc(room, sizeof(*files));
    *count = 0;
    for (unsigned i = 0; files && i < snapshot->count; i++) {
        const struct directnfs_stats *stats = snapshot->processes[i];
        for (uint32_t k = 0; k < stats->file_count && k < DIRECTNFS_FILES; k++) {
            const struct directnfs_file_stats *one = &stats->files[k];
            if (one->slot == DIRECTNFS_SLOT_USED)
                files[(*count)++] = (struct file_number){one->device, one->inode};
        }
    }
    if (files)
        qsort(files, *count, sizeof(*files), by_number);
    return files;
}

/* Complains of data that killed processes wrote and nobody has sent since. */
static void complain_of_orphans(const struct request *request,
                                const struct stats_snapshot *snapshot)
{
    bool files = !request->view || strcmp(request->view->name, "files") == 0;
    unsigned long long bytes = 0;
    unsigned count = 0;
    if (!files || request->interval || request->json || request->prometheus || request->plot ||
        request->filter.pid || request->filter.server || request->filter.last)
        return;
    if (snapshot->uncommitted_count == 0)
        return;
    size_t open_count;
    struct file_number *open = open_files(snapshot, &open_count);
    for (unsigned i = 0; open && i < snapshot->uncommitted_count; i++) {
        const struct stats_uncommitted *file = &snapshot->uncommitted_files[i];
        const struct file_number number = {file->device, file->inode};
        if (bsearch(&number, open, open_count, sizeof(*open), by_number))
            continue;
        bytes += file->bytes;
        count++;
    }
    free(open);
    if (count > 0)
        cmd_complain("stat",
                     "%u file%s that no process has open ha%s %llu bytes that are not committed; "
                     "'directnfs flush' sends them",
                     count, count == 1 ? "" : "s", count == 1 ? "s" : "ve", bytes);
}

/* Complains whatever was asked for: somebody must decide. */
static void complain_of_strays(const struct request *request, const struct stats_snapshot *snapshot)
{
    unsigned long long bytes = 0;
    if (request->interval || request->json || request->prometheus || request->plot ||
        snapshot->stray_count == 0)
        return;
    for (unsigned i = 0; i < snapshot->stray_count; i++)
        bytes += snapshot->strays[i].bytes;
    cmd_complain("stat",
                 "%llu bytes that processes wrote are not sent, as their files may have been "
                 "changed by others since: they are set aside; 'directnfs flush' says what can be "
                 "done",
                 bytes);
}

/* True if there is something to show that belongs to no process. */
static bool is_of_no_process(const struct request *request, const struct stats_snapshot *snapshot)
{
    return request->view
               ? request->view->fill == stat_strays_fill || request->view->fill == stat_agents_fill
               : snapshot->stray_count > 0 && !request->filter.pid && !request->filter.server &&
                     !request->filter.last;
}

/* Not in an interval, of which they say nothing, nor in sums. */
static bool shows_loaded(const struct request *request)
{
    return !request->interval && !request->sum && !request->prometheus && !request->plot &&
           (!request->view || strcmp(request->view->name, "processes") == 0);
}

static int report(const struct request *request, struct stats_snapshot *snapshot,
                  struct stat_plot *plot)
{
    struct stat_set set;
    int result = CMD_FINE;
    stat_set_make(&set, snapshot, &request->filter);
    set.only_sum = request->sum;
    if (shows_loaded(request))
        stat_set_add_loaded(&set, &request->filter);
    bool something = set.count > 0 || set.loaded_count > 0 || request->interval ||
                     request->prometheus || (request->sum && set.sum->processes > 0) ||
                     is_of_no_process(request, snapshot);
    if (!something) {
        complain_of_nothing(request);
        result = CMD_NOT_FINE;
    } else if (request->prometheus) {
        stat_prometheus_print(&set, stdout);
    } else if (request->json) {
        print_json(&set, request);
    } else {
        print(&set, request);
    }
    complain_of_orphans(request, snapshot);
    complain_of_strays(request, snapshot);
    /* The first of several reports is about another time than the others. */
    if (request->plot && (!request->interval || snapshot->seconds > 0))
        stat_plot_add(plot, &set);
    stat_set_free(&set);
    return result;
}

/* The first report counts from the start, each later one over an interval. */
static int report_again(const struct request *request, struct stats_snapshot *before,
                        struct stat_plot *plot)
{
    struct stats_snapshot now, shown;
    uint64_t next_ns = sys_now_ns();
    int error = stats_snapshot_copy(&shown, before);
    for (unsigned reports = 1; !error; reports++) {
        report(request, &shown, plot);
        stats_snapshot_free(&shown);
        if (fflush(stdout) != 0 || reports == request->count)
            return CMD_FINE;
        next_ns += (uint64_t)(request->interval * 1e9);
        const struct timespec next = {(time_t)(next_ns / 1000000000), (long)(next_ns % 1000000000)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
            ;
        cmd_stats_read("stat", &now, 4);
        error = stats_snapshot_copy(&shown, &now);
        stats_snapshot_subtract(&shown, before);
        stats_snapshot_free(before);
        *before = now;
    }
    stats_snapshot_free(&shown);
    cmd_complain("stat", "there is not enough memory");
    return CMD_NOT_FINE;
}

static int show(const struct request *request)
{
    struct stats_snapshot snapshot;
    struct stat_plot plot = {0};
    log_set_level(LOG_LEVEL_ERROR);
    cmd_stats_read("stat", &snapshot, request->interval ? 4 : 2);
    complain_of_problems(&snapshot);
    int result = request->interval ? report_again(request, &snapshot, &plot)
                                   : report(request, &snapshot, &plot);
    if (request->plot && result == CMD_FINE)
        result = stat_plot_write(&plot, request->plot);
    stat_plot_free(&plot);
    stats_snapshot_free(&snapshot);
    return result;
}

/* ---- options ---- */

/* Lists columns for completion on the command line. */
static int list_columns(const struct cmd_table *table)
{
    for (size_t i = 0; i < table->column_count; i++)
        puts(table->columns[i].name);
    exit(CMD_FINE);
}

/* Rejects options that make no sense together, or alone. */
static int check_request(struct request *request)
{
    bool tables = request->json || request->sort || request->sum || request->interval;
    if (request->prometheus && (request->view || tables || request->filter.last))
        return cmd_usage_error("stat", "--prometheus prints everything, once: only --pid and "
                                       "--server go with it");
    if (request->count && !request->interval)
        return cmd_usage_error("stat", "--count needs --interval");
    if (request->plot && request->interval && !request->count)
        return cmd_usage_error("stat", "--plot with --interval needs --count: it draws at the end");
    if (request->interval && request->filter.last)
        return cmd_usage_error("stat", "--last and --interval do not go together: what has ended "
                                       "does not change");
    if (request->sum + request->filter.last + (request->filter.pid != 0) > 1)
        return cmd_usage_error("stat", "of --sum, --last and --pid only one at a time");
    if (request->sum && request->view && request->view->per_process)
        return cmd_usage_error("stat", "the view %s is of each process, and has no sum",
                               request->view->name);
    if (request->interval && !request->view && !request->all)
        request->view = stat_view_find("processes");
    if (!request->sort)
        return CMD_FINE;

    const struct stat_view *view = request->view;
    if (!view)
        return cmd_usage_error("stat", "--sort needs a view");
    if ((view->fields == NULL && view->fill == NULL) || (request->json && view->print_json))
        return cmd_usage_error("stat", "the view %s is not sorted%s", view->name,
                               view->fields ? " as JSON" : "");
    struct cmd_table table = stat_table(view, 0, !request->json || request->sum);
    if (strcmp(request->sort, "list") == 0)
        return list_columns(&table);
    if (cmd_column_find(table.columns, table.column_count, request->sort) < 0) {
        char names[512] = "";
        for (size_t i = 0, at = 0; i < table.column_count; i++)
            at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
                                   table.columns[i].name);
        return cmd_usage_error("stat", "the view %s has no column '%s'; there are %s", view->name,
                               request->sort, names);
    }
    return CMD_FINE;
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    int status = cmd_options(&cmd_stat, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (argc - optind > 1)
        return cmd_usage_error("stat", "one view at a time; '%s' is too much", argv[optind + 1]);
    request.all = argc > optind && strcmp(argv[optind], "all") == 0;
    if (argc > optind && !request.all) {
        request.view = stat_view_find(argv[optind]);
        if (request.view == NULL)
            return cmd_usage_error("stat",
                                   "no view is called '%s'; there are all, servers, sessions, "
                                   "mounts, processes, channels, paths, files, agents, strays, "
                                   "stats and latency",
                                   argv[optind]);
    }
    status = check_request(&request);
    return status == CMD_FINE ? show(&request) : status;
}

static const struct cmd_option options[] = {
    CMD_NUMBER_OPTION("interval", 0, interval, "SECONDS", 0.1, 1e6, "seconds, 0.1 at least",
                      "report again and again, what was counted in between per second"),
    CMD_WHOLE_OPTION("count", 0, count, "N", 1, UINT32_MAX, "a number of reports, from 1 on",
                     "stop after N reports"),
    CMD_FLAG_OPTION("sum", 0, sum, "show the sum of all processes, ended ones included"),
    CMD_FLAG_OPTION("last", 0, filter.last, "show the sums over processes that have ended"),
    CMD_WHOLE_OPTION("pid", 0, filter.pid, "PID", 1, INT32_MAX, "a process number",
                     "show this process only"),
    CMD_TEXT_OPTION("server", 0, filter.server, "NAME",
                    "show this server, and the processes that use it"),
    CMD_TEXT_OPTION("sort", 0, sort, "COLUMN",
                    "numbers from the largest, texts from A; list: name the columns"),
    CMD_FLAG_OPTION("json", 0, json,
                    "print an array of objects (without a view: an object of arrays)"),
    CMD_FLAG_OPTION("prometheus", 0, prometheus, "print metrics for a node_exporter textfile"),
    CMD_TEXT_OPTION("plot", 0, plot, "FILE",
                    "draw latencies, of several reports over time too, as SVG"),
};

const struct cmd_command cmd_stat = {
    .name = "stat",
    .usage =
        "stat "
        "[all|servers|sessions|mounts|processes|channels|paths|files|agents|strays|stats|latency]\n"
        "     [OPTION...]\n",
    .purpose = "shows which servers, sockets and files running programs use, and how fast",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
