#include "cmd/top/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/print.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

const char *const top_view_names[TOP_VIEWS] = {"paths", "processes", "files", "calls"};

/* ---- filling ---- */

struct filling {
    struct cmd_table *table;
    const struct top_model *model;
    const struct top_period *period; /* rates, or totals */
};

static struct cmd_row *begin_row(const struct filling *filling, uint64_t key, size_t source)
{
    struct cmd_row *row = cmd_table_begin(filling->table);
    row->key = key;
    row->source = source;
    row->history = top_history_of(filling->model, key);
    return row;
}

/* A number that is not made brief. */
static void put_pid(struct cmd_table *table, uint32_t pid)
{
    char text[24];
    snprintf(text, sizeof(text), "%u", pid);
    cmd_table_cell(table, text, sizeof(text), pid);
}

static void put_user(struct cmd_table *table, uid_t user)
{
    char number[CMD_USER_NUMBER];
    cmd_table_text(table, cmd_user_name(user, number), 32);
}

static void put_history(struct cmd_table *table)
{
    const struct top_history *history = table->rows[table->count - 1].history;
    cmd_table_cell(table, "", 0, history ? (double)top_history_max(history) : 0);
}

/* ---- paths ---- */

static const struct cmd_column path_columns[] = {
    {.name = "SERVER", .kind = CMD_CUT_START},
    {.name = "PATH"},
    {.name = "LOCAL", .drop = 6},
    {.name = "USER", .drop = 13},
    {.name = "STATE", .state = true},
    {.name = "PROC", .kind = CMD_NUMBER, .drop = 9},
    {.name = "CONN", .kind = CMD_NUMBER, .drop = 12},
    {.name = "BUSY", .kind = CMD_NUMBER, .drop = 3},
    {.name = "CALLS/S", .kind = CMD_NUMBER, .total = "CALLS", .drop = 1},
    {.name = "RECV/S", .kind = CMD_NUMBER, .total = "RECV", .drop = 2},
    {.name = "SENT/S", .kind = CMD_NUMBER, .total = "SENT", .drop = 2},
    {.name = "MEAN", .kind = CMD_NUMBER, .drop = 4},
    {.name = "P99", .kind = CMD_NUMBER, .drop = 5},
    {.name = "MOVED", .kind = CMD_NUMBER, .drop = 11},
    {.name = "DOWNS", .kind = CMD_NUMBER, .drop = 10},
    {.name = "REASON", .drop = 7, .wide = true},
    {.name = "HISTORY", .drop = 8, .wide = true, .history = true},
};

static enum top_look look_of_path(const char *state)
{
    return strcmp(state, "up") == 0        ? TOP_LOOK_GOOD
           : strcmp(state, "down") == 0    ? TOP_LOOK_BAD
           : strcmp(state, "probing") == 0 ? TOP_LOOK_WARNING
           : strcmp(state, "unused") == 0  ? TOP_LOOK_PLAIN
                                           : TOP_LOOK_NOTICE;
}

static void fill_paths(const struct filling *filling)
{
    struct cmd_table *table = filling->table;
    const struct cmd_path_list *totals = &filling->model->total.paths;
    for (size_t i = 0; i < filling->period->paths.count && i < totals->count; i++) {
        const struct cmd_path *path = &filling->period->paths.paths[i];
        unsigned count;
        char state[40];
        struct cmd_row *row = begin_row(filling, top_path_key(filling->model, path), i);
        const char *word = cmd_path_state(path, &count);
        row->look = look_of_path(word);
        if (path->processes > count && count)
            snprintf(state, sizeof(state), "%s %u/%u", word, count, path->processes);
        else
            snprintf(state, sizeof(state), "%s", word);
        cmd_table_text(table, path->server, sizeof(path->server));
        cmd_table_text(table, path->path, sizeof(path->path));
        cmd_table_text(table, path->local, sizeof(path->local));
        put_user(table, path->user);
        cmd_table_text(table, state, sizeof(state));
        cmd_table_number(table, path->processes);
        cmd_table_number(table, path->channels);
        cmd_table_number(table, path->outstanding);
        cmd_table_count(table, path->latency.calls);
        cmd_table_count(table, path->received_bytes);
        cmd_table_count(table, path->sent_bytes);
        cmd_table_time(table, &path->latency, STATS_MEAN);
        cmd_table_time(table, &path->latency, STATS_P99);
        cmd_table_number(table, totals->paths[i].reissued);
        cmd_table_number(table, totals->paths[i].downs);
        cmd_table_text(table, path->reason, sizeof(path->reason));
        put_history(table);
    }
}

/* ---- processes ---- */

static const struct cmd_column process_columns[] = {
    {.name = "PID", .kind = CMD_NUMBER},
    {.name = "USER", .drop = 9},
    {.name = "PROGRAM"},
    {.name = "READ/S", .kind = CMD_NUMBER, .total = "READS", .drop = 3},
    {.name = "WRITE/S", .kind = CMD_NUMBER, .total = "WRITES", .drop = 3},
    {.name = "RD-B/S", .kind = CMD_NUMBER, .total = "RD-B", .drop = 4},
    {.name = "WR-B/S", .kind = CMD_NUMBER, .total = "WR-B", .drop = 4},
    {.name = "CALLS/S", .kind = CMD_NUMBER, .total = "CALLS"},
    {.name = "BUSY", .kind = CMD_NUMBER, .drop = 5},
    {.name = "MEAN", .kind = CMD_NUMBER, .drop = 1},
    {.name = "P99", .kind = CMD_NUMBER, .drop = 2},
    {.name = "ERR/S", .kind = CMD_NUMBER, .total = "ERRORS", .drop = 8},
    {.name = "FILES", .kind = CMD_NUMBER, .drop = 6},
    {.name = "KERNEL", .kind = CMD_NUMBER, .drop = 6},
    {.name = "HISTORY", .drop = 7, .wide = true, .history = true},
};

static void fill_processes(const struct filling *filling)
{
    struct cmd_table *table = filling->table;
    for (unsigned i = 0; i < filling->period->stats.count; i++) {
        const struct directnfs_stats *stats = filling->period->stats.processes[i];
        const struct directnfs_counters *counters = &stats->counters;
        struct directnfs_latency calls = {0};
        unsigned files = 0, kernel = 0;
        struct cmd_row *row = begin_row(filling, top_key('p', stats->pid), i);
        row->pid = stats->pid;
        top_add_calls(&calls, counters);
        top_count_files(stats, &files, &kernel);
        put_pid(table, stats->pid);
        put_user(table, stats->uid);
        cmd_table_text(table, stats->program, sizeof(stats->program));
        cmd_table_count(table, counters->procedures[6].latency.calls);
        cmd_table_count(table, counters->procedures[7].latency.calls);
        cmd_table_count(table, counters->read_bytes);
        cmd_table_count(table, counters->write_bytes);
        cmd_table_count(table, calls.calls);
        cmd_table_number(table, top_outstanding(stats));
        cmd_table_time(table, &calls, STATS_MEAN);
        cmd_table_time(table, &calls, STATS_P99);
        cmd_table_count(table, stats_errors(counters));
        cmd_table_number(table, files);
        cmd_table_number(table, kernel);
        put_history(table);
    }
}

/* ---- files ---- */

static const struct cmd_column file_columns[] = {
    {.name = "FILE", .kind = CMD_CUT_START, .wide = true},
    {.name = "SIZE", .kind = CMD_NUMBER, .drop = 5},
    {.name = "STATE", .state = true},
    {.name = "PID", .kind = CMD_NUMBER, .drop = 1},
    {.name = "PROGRAM", .drop = 7},
    {.name = "OPENS", .kind = CMD_NUMBER, .drop = 6},
    {.name = "SERVER", .kind = CMD_CUT_START, .drop = 8},
    {.name = "READ/S", .kind = CMD_NUMBER, .total = "READS", .drop = 4},
    {.name = "WRITE/S", .kind = CMD_NUMBER, .total = "WRITES", .drop = 4},
    {.name = "RD-B/S", .kind = CMD_NUMBER, .total = "RD-B", .drop = 3},
    {.name = "WR-B/S", .kind = CMD_NUMBER, .total = "WR-B", .drop = 3},
    {.name = "WHY ON THE KERNEL", .drop = 2, .wide = true},
};

static void fill_files_of(const struct filling *filling, const struct directnfs_stats *stats)
{
    struct cmd_table *table = filling->table;
    for (unsigned i = 0; i < stats->file_count; i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        if (!top_shows_file(file))
            continue;
        uint64_t whose = (uint64_t)stats->pid << 16 | i;
        struct cmd_row *row = begin_row(filling, cmd_index_key(top_key('f', whose), file->name), i);
        bool kernel = file->state == DIRECTNFS_FILE_KERNEL;
        row->pid = stats->pid;
        row->look = kernel ? TOP_LOOK_WARNING : TOP_LOOK_GOOD;
        cmd_table_text(table, file->name, sizeof(file->name));
        cmd_table_number(table, file->size);
        cmd_table_text(table, kernel ? "kernel" : "direct", 8);
        put_pid(table, stats->pid);
        cmd_table_text(table, stats->program, sizeof(stats->program));
        cmd_table_number(table, file->opens);
        cmd_table_text(table,
                       file->server < stats->server_count ? stats->servers[file->server].name : "-",
                       DIRECTNFS_NAME_BYTES);
        cmd_table_count(table, file->reads);
        cmd_table_count(table, file->writes);
        cmd_table_count(table, file->read_bytes);
        cmd_table_count(table, file->write_bytes);
        cmd_table_text(table, kernel ? file->reason : "", sizeof(file->reason));
    }
}

static void fill_files(const struct filling *filling)
{
    for (unsigned i = 0; i < filling->period->stats.count; i++) {
        const struct directnfs_stats *stats = filling->period->stats.processes[i];
        if (filling->model->pid == 0 || stats->pid == filling->model->pid)
            fill_files_of(filling, stats);
    }
}

/* ---- calls ---- */

static const struct cmd_column call_columns[] = {
    {.name = "CALL"},
    {.name = "CALLS/S", .kind = CMD_NUMBER, .total = "CALLS"},
    {.name = "ERR/S", .kind = CMD_NUMBER, .total = "ERRORS", .drop = 5},
    {.name = "MEAN", .kind = CMD_NUMBER, .drop = 1},
    {.name = "P50", .kind = CMD_NUMBER, .drop = 4},
    {.name = "P99", .kind = CMD_NUMBER, .drop = 2},
    {.name = "MAX", .kind = CMD_NUMBER, .drop = 3},
    {.name = "HISTORY", .drop = 6, .wide = true, .history = true},
};

/* Of the selected process, or of all and of those that ended. */
static const struct directnfs_counters *counters_of(const struct filling *filling)
{
    const struct top_model *model = filling->model;
    for (unsigned i = 0; model->pid && i < filling->period->stats.count; i++)
        if (filling->period->stats.processes[i]->pid == model->pid)
            return &filling->period->stats.processes[i]->counters;
    const struct directnfs_stats *sum = filling->period->sum;
    return sum && model->pid == 0 ? &sum->counters : NULL;
}

static void fill_calls(const struct filling *filling)
{
    struct cmd_table *table = filling->table;
    const struct directnfs_counters *counters = counters_of(filling);
    for (unsigned i = 0; counters && i < DIRECTNFS_PROCEDURES; i++) {
        const struct directnfs_procedure_stats *one = &counters->procedures[i];
        const char *name = stats_procedure_name(i);
        const struct directnfs_stats *ever = filling->model->total.sum;
        if (!ever || !ever->counters.procedures[i].latency.calls)
            continue;
        begin_row(filling, top_key('c', i), i);
        cmd_table_text(table, name + strlen("NFS_"), 32);
        cmd_table_count(table, one->latency.calls);
        cmd_table_count(table, one->errors);
        cmd_table_time(table, &one->latency, STATS_MEAN);
        cmd_table_time(table, &one->latency, STATS_P50);
        cmd_table_time(table, &one->latency, STATS_P99);
        cmd_table_time(table, &one->latency, STATS_MAX);
        put_history(table);
    }
}

/* ---- tables ---- */

static const struct {
    const struct cmd_column *columns;
    unsigned count;
    unsigned sort;
    void (*fill)(const struct filling *filling);
    const char *none;
} views[TOP_VIEWS] = {
    {path_columns, LENGTH(path_columns), 0, fill_paths, "No network path is in use."},
    {process_columns, LENGTH(process_columns), 7, fill_processes, "No process uses directnfs."},
    {file_columns, LENGTH(file_columns), 2, fill_files, "No file of a configured mount is in use."},
    {call_columns, LENGTH(call_columns), 1, fill_calls, "No call was made."},
};

void top_choice_begin(struct top_choice *choice)
{
    *choice = (struct top_choice){.view = TOP_PATHS};
    for (unsigned i = 0; i < TOP_VIEWS; i++)
        choice->sort[i].column = views[i].sort;
    choice->sort[TOP_FILES].reverse = true; /* "kernel" before "direct" */
}

void top_table_make(struct cmd_table *table, const struct top_model *model,
                    const struct top_choice *choice)
{
    enum top_view view = choice->view;
    const struct top_period *period = choice->totals ? &model->total : &model->interval;
    *table = (struct cmd_table){.columns = views[view].columns,
                                .column_count = views[view].count,
                                .none = views[view].none,
                                .brief = true,
                                .unknown = !choice->totals && period->stats.seconds <= 0,
                                .seconds = choice->totals ? 0 : period->stats.seconds};
    views[view].fill(&(struct filling){table, model, period});
    cmd_table_sort(table, choice->sort[view].column, choice->sort[view].reverse);
}
