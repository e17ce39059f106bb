#include "cmd/top_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/text.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

const char *const top_view_names[TOP_VIEWS] = {"paths", "processes", "files", "calls"};

const char *top_number(char text[TOP_NUMBER], double number)
{
    static const char units[] = " kMGTPE";
    unsigned unit = 0;
    while (number >= 999.5 && unit < sizeof(units) - 2) {
        number /= 1000;
        unit++;
    }
    int digits = unit == 0        ? number < 9.95 && number != (double)(int)number
                 : number < 9.995 ? 2
                                  : number < 99.95;
    int length = snprintf(text, TOP_NUMBER, "%.*f", digits, number);
    if (unit && length > 0 && length < TOP_NUMBER - 1)
        snprintf(text + length, (size_t)(TOP_NUMBER - length), "%c", units[unit]);
    return text;
}

const char *top_time(char text[TOP_NUMBER], double microseconds)
{
    if (microseconds < 999.5)
        snprintf(text, TOP_NUMBER, "%.0fus", microseconds);
    else if (microseconds < 999500)
        snprintf(text, TOP_NUMBER, "%.*fms", microseconds < 9995 ? 2 : microseconds < 99950,
                 microseconds / 1000);
    else
        snprintf(text, TOP_NUMBER, "%.1fs", microseconds / 1e6);
    return text;
}

/* ---- filling ---- */

struct filling {
    struct top_table *table;
    const struct top_model *model;
    const struct top_period *period; /* rates, or totals */
    bool totals;
    struct top_row *row;
    unsigned cell;
};

/* NULL without memory. */
static struct top_row *begin_row(struct filling *filling, uint64_t key, size_t source)
{
    struct top_table *table = filling->table;
    if ((table->count & (table->count - 1)) == 0) {
        struct top_row *more =
            reallocarray(table->rows, table->count ? 2 * table->count : 1, sizeof(*more));
        if (!more)
            return NULL;
        table->rows = more;
    }
    filling->row = &table->rows[table->count++];
    *filling->row = (struct top_row){
        .key = key, .source = source, .history = top_history_of(filling->model, key)};
    filling->cell = 0;
    return filling->row;
}

static void put(struct filling *filling, const char *text, size_t limit, double number)
{
    struct top_cell *cell = &filling->row->cells[filling->cell++];
    cell->text = cmd_printable(text, limit);
    cell->number = number;
}

static void put_text(struct filling *filling, const char *text, size_t limit)
{
    put(filling, text, limit, 0);
}

static void put_number(struct filling *filling, double number)
{
    char text[TOP_NUMBER];
    put(filling, top_number(text, number), sizeof(text), number);
}

/* A counter: as a rate, or as it is. */
static void put_count(struct filling *filling, uint64_t count)
{
    double seconds = filling->period->seconds;
    if (filling->totals)
        put_number(filling, (double)count);
    else if (seconds > 0)
        put_number(filling, (double)count / seconds);
    else
        put(filling, "-", 1, 0);
}

static void put_time(struct filling *filling, const struct directnfs_latency *latency, double time)
{
    char text[TOP_NUMBER];
    if (latency->calls && (filling->totals || filling->period->seconds > 0))
        put(filling, top_time(text, time), sizeof(text), time);
    else
        put(filling, "-", 1, 0);
}

static void put_user(struct filling *filling, uid_t user)
{
    char number[CMD_USER_NUMBER];
    put_text(filling, cmd_user_name(user, number), 32);
}

static void put_history(struct filling *filling)
{
    const struct top_history *history = filling->row->history;
    put(filling, "", 0, history ? (double)top_history_max(history) : 0);
}

/* ---- paths ---- */

static const struct top_column path_columns[] = {
    {.name = "SERVER", .end = true},
    {.name = "PATH"},
    {.name = "LOCAL", .drop = 6},
    {.name = "USER", .drop = 13},
    {.name = "STATE", .state = true},
    {.name = "PROC", .drop = 9, .number = true},
    {.name = "CONN", .drop = 12, .number = true},
    {.name = "BUSY", .drop = 3, .number = true},
    {.name = "CALLS/S", .total = "CALLS", .drop = 1, .number = true},
    {.name = "RECV/S", .total = "RECV", .drop = 2, .number = true},
    {.name = "SENT/S", .total = "SENT", .drop = 2, .number = true},
    {.name = "MEAN", .drop = 4, .number = true},
    {.name = "P99", .drop = 5, .number = true},
    {.name = "MOVED", .drop = 11, .number = true},
    {.name = "DOWNS", .drop = 10, .number = true},
    {.name = "REASON", .drop = 7, .wide = true},
    {.name = "HISTORY", .drop = 8, .wide = true, .history = true},
};

static enum top_mark path_mark(const char *state)
{
    return strcmp(state, "up") == 0        ? TOP_GOOD
           : strcmp(state, "down") == 0    ? TOP_BAD
           : strcmp(state, "probing") == 0 ? TOP_WARNING
           : strcmp(state, "unused") == 0  ? TOP_PLAIN
                                           : TOP_NOTICE;
}

static void fill_paths(struct filling *filling)
{
    const struct cmd_path_list *totals = &filling->model->total.paths;
    for (size_t i = 0; i < filling->period->paths.count && i < totals->count; i++) {
        const struct cmd_path *path = &filling->period->paths.paths[i];
        struct host_latency latency;
        unsigned count;
        char state[40];
        struct top_row *row = begin_row(filling, top_path_key(filling->model, path), i);
        if (!row)
            return;
        const char *word = cmd_path_state(path, &count);
        row->mark = path_mark(word);
        if (path->processes > count && count)
            snprintf(state, sizeof(state), "%s %u/%u", word, count, path->processes);
        else
            snprintf(state, sizeof(state), "%s", word);
        host_stats_latency(&path->latency, &latency);
        put_text(filling, path->server, sizeof(path->server));
        put_text(filling, path->path, sizeof(path->path));
        put_text(filling, path->local, sizeof(path->local));
        put_user(filling, path->user);
        put_text(filling, state, sizeof(state));
        put_number(filling, path->processes);
        put_number(filling, (double)path->channels);
        put_number(filling, (double)path->outstanding);
        put_count(filling, path->latency.calls);
        put_count(filling, path->received_bytes);
        put_count(filling, path->sent_bytes);
        put_time(filling, &path->latency, latency.mean);
        put_time(filling, &path->latency, latency.p99);
        put_number(filling, (double)totals->paths[i].reissued);
        put_number(filling, (double)totals->paths[i].downs);
        put_text(filling, path->reason, sizeof(path->reason));
        put_history(filling);
    }
}

/* ---- processes ---- */

static const struct top_column process_columns[] = {
    {.name = "PID", .number = true},
    {.name = "USER", .drop = 9},
    {.name = "PROGRAM"},
    {.name = "READ/S", .total = "READS", .drop = 3, .number = true},
    {.name = "WRITE/S", .total = "WRITES", .drop = 3, .number = true},
    {.name = "RD-B/S", .total = "RD-B", .drop = 4, .number = true},
    {.name = "WR-B/S", .total = "WR-B", .drop = 4, .number = true},
    {.name = "CALLS/S", .total = "CALLS", .number = true},
    {.name = "BUSY", .drop = 5, .number = true},
    {.name = "MEAN", .drop = 1, .number = true},
    {.name = "P99", .drop = 2, .number = true},
    {.name = "ERR/S", .total = "ERRORS", .drop = 8, .number = true},
    {.name = "FILES", .drop = 6, .number = true},
    {.name = "KERNEL", .drop = 6, .number = true},
    {.name = "HISTORY", .drop = 7, .wide = true, .history = true},
};

static void fill_processes(struct filling *filling)
{
    for (unsigned i = 0; i < filling->period->stats.count; i++) {
        const struct directnfs_stats *stats = filling->period->stats.processes[i];
        const struct directnfs_counters *counters = &stats->counters;
        struct directnfs_latency calls = {0};
        struct host_latency latency;
        unsigned files = 0, kernel = 0;
        struct top_row *row = begin_row(filling, top_key('p', stats->pid, "", ""), i);
        if (!row)
            return;
        row->pid = stats->pid;
        top_add_calls(&calls, counters);
        host_stats_latency(&calls, &latency);
        top_count_files(stats, &files, &kernel);
        char pid[24];
        snprintf(pid, sizeof(pid), "%u", stats->pid);
        put(filling, pid, sizeof(pid), stats->pid);
        put_user(filling, stats->uid);
        put_text(filling, stats->program, sizeof(stats->program));
        put_count(filling, counters->procedures[6].latency.calls);
        put_count(filling, counters->procedures[7].latency.calls);
        put_count(filling, counters->read_bytes);
        put_count(filling, counters->write_bytes);
        put_count(filling, calls.calls);
        put_number(filling, (double)top_outstanding(stats));
        put_time(filling, &calls, latency.mean);
        put_time(filling, &calls, latency.p99);
        put_count(filling, top_errors(counters));
        put_number(filling, files);
        put_number(filling, kernel);
        put_history(filling);
    }
}

/* ---- files ---- */

static const struct top_column file_columns[] = {
    {.name = "FILE", .wide = true, .end = true},
    {.name = "SIZE", .drop = 5, .number = true},
    {.name = "STATE", .state = true},
    {.name = "PID", .drop = 1, .number = true},
    {.name = "PROGRAM", .drop = 7},
    {.name = "OPENS", .drop = 6, .number = true},
    {.name = "SERVER", .drop = 8, .end = true},
    {.name = "READ/S", .total = "READS", .drop = 4, .number = true},
    {.name = "WRITE/S", .total = "WRITES", .drop = 4, .number = true},
    {.name = "RD-B/S", .total = "RD-B", .drop = 3, .number = true},
    {.name = "WR-B/S", .total = "WR-B", .drop = 3, .number = true},
    {.name = "WHY ON THE KERNEL", .drop = 2, .wide = true},
};

static void fill_files_of(struct filling *filling, const struct directnfs_stats *stats)
{
    for (unsigned i = 0; i < stats->file_count; i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        if (!top_shows_file(file))
            continue;
        uint64_t whose = (uint64_t)stats->pid << 16 | i;
        struct top_row *row = begin_row(filling, top_key('f', whose, file->name, ""), i);
        if (!row)
            return;
        bool kernel = file->state == DIRECTNFS_FILE_KERNEL;
        row->pid = stats->pid;
        row->mark = kernel ? TOP_WARNING : TOP_GOOD;
        char pid[24];
        snprintf(pid, sizeof(pid), "%u", stats->pid);
        put_text(filling, file->name, sizeof(file->name));
        put_number(filling, (double)file->size);
        put_text(filling, kernel ? "kernel" : "direct", 8);
        put(filling, pid, sizeof(pid), stats->pid);
        put_text(filling, stats->program, sizeof(stats->program));
        put_number(filling, file->opens);
        put_text(filling,
                 file->server < stats->server_count ? stats->servers[file->server].name : "-",
                 DIRECTNFS_NAME_BYTES);
        put_count(filling, file->reads);
        put_count(filling, file->writes);
        put_count(filling, file->read_bytes);
        put_count(filling, file->write_bytes);
        put_text(filling, kernel ? file->reason : "", sizeof(file->reason));
    }
}

static void fill_files(struct filling *filling)
{
    for (unsigned i = 0; i < filling->period->stats.count; i++) {
        const struct directnfs_stats *stats = filling->period->stats.processes[i];
        if (filling->model->pid == 0 || stats->pid == filling->model->pid)
            fill_files_of(filling, stats);
    }
}

/* ---- calls ---- */

static const struct top_column call_columns[] = {
    {.name = "CALL"},
    {.name = "CALLS/S", .total = "CALLS", .number = true},
    {.name = "ERR/S", .total = "ERRORS", .drop = 5, .number = true},
    {.name = "MEAN", .drop = 1, .number = true},
    {.name = "P50", .drop = 4, .number = true},
    {.name = "P99", .drop = 2, .number = true},
    {.name = "MAX", .drop = 3, .number = true},
    {.name = "HISTORY", .drop = 6, .wide = true, .history = true},
};

/* Of the selected process, or of all and of those that ended. */
static const struct directnfs_counters *counters_of(const struct filling *filling)
{
    const struct top_model *model = filling->model;
    for (unsigned i = 0; model->pid && i < filling->period->stats.count; i++)
        if (filling->period->stats.processes[i]->pid == model->pid)
            return &filling->period->stats.processes[i]->counters;
    const struct directnfs_stats *sum = filling->totals ? model->total_sum : model->sum;
    return sum && model->pid == 0 ? &sum->counters : NULL;
}

static void fill_calls(struct filling *filling)
{
    const struct directnfs_counters *counters = counters_of(filling);
    for (unsigned i = 0; counters && i < DIRECTNFS_PROCEDURES; i++) {
        const struct directnfs_procedure_stats *one = &counters->procedures[i];
        const char *name = host_stats_procedure_name(i);
        struct host_latency latency;
        bool ever = filling->model->total_sum &&
                    filling->model->total_sum->counters.procedures[i].latency.calls;
        if (!ever || !begin_row(filling, top_key('c', i, "", ""), i))
            continue;
        host_stats_latency(&one->latency, &latency);
        put_text(filling, name + strlen("NFS_"), 32);
        put_count(filling, one->latency.calls);
        put_count(filling, one->errors);
        put_time(filling, &one->latency, latency.mean);
        put_time(filling, &one->latency, latency.p50);
        put_time(filling, &one->latency, latency.p99);
        put_time(filling, &one->latency, latency.max);
        put_history(filling);
    }
}

/* ---- tables ---- */

static const struct {
    const struct top_column *columns;
    unsigned count;
    unsigned sort;
    void (*fill)(struct filling *filling);
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

struct sorting {
    const struct top_column *column;
    unsigned index;
    bool reverse;
};

static int compare(const void *a, const void *b, void *argument)
{
    const struct sorting *order = argument;
    const struct top_row *first = a, *second = b;
    const struct top_cell *left = &first->cells[order->index];
    const struct top_cell *right = &second->cells[order->index];
    int result = order->column->number || order->column->history
                     ? (left->number < right->number) - (left->number > right->number)
                     : strcmp(left->text, right->text);
    if (order->reverse)
        result = -result;
    /* What is equal stays where it was, at each update. */
    return result ? result : (first->source > second->source) - (first->source < second->source);
}

void top_table_make(struct top_table *table, const struct top_model *model,
                    const struct top_choice *choice)
{
    enum top_view view = choice->view;
    *table = (struct top_table){.columns = views[view].columns,
                                .column_count = views[view].count,
                                .none = views[view].none};
    struct filling filling = {.table = table,
                              .model = model,
                              .period = choice->totals ? &model->total : &model->interval,
                              .totals = choice->totals};
    views[view].fill(&filling);
    unsigned sort = choice->sort[view].column;
    struct sorting order = {&table->columns[sort], sort, choice->sort[view].reverse};
    if (table->count)
        qsort_r(table->rows, table->count, sizeof(*table->rows), compare, &order);
}

void top_table_free(struct top_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        for (unsigned k = 0; k < table->column_count; k++)
            free(table->rows[i].cells[k].text);
    free(table->rows);
    *table = (struct top_table){0};
}
