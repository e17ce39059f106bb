#include "cmd/top/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/files.h"
#include "cmd/mounts.h"
#include "cmd/print.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

const char *const top_view_names[TOP_VIEWS] = {"paths", "processes", "files", "calls", "mounts"};

/* ---- filling ---- */

struct filling {
    struct cmd_table *table;
    const struct top_model *model;
    const struct top_period *period; /* with rates, or with totals */
};

static struct cmd_row *begin_row(const struct filling *filling, uint64_t key, size_t source)
{
    struct cmd_row *row = cmd_table_begin(filling->table);
    row->key = key;
    row->source = source;
    row->history = top_history_of(filling->model, key);
    return row;
}

/* Puts a number in full. */
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

/* Puts no text if no call waits long: a column without any text is not shown. */
static void put_age(struct cmd_table *table, const struct stats_snapshot *shown, uint64_t since_ns)
{
    char text[CMD_BRIEF] = "";
    double microseconds = (double)stats_age(shown, since_ns) / 1000;
    if (microseconds > 0)
        cmd_brief_time(text, microseconds);
    cmd_table_cell(table, text, sizeof(text), microseconds);
}

static void put_history(struct cmd_table *table)
{
    const struct top_history *history = table->rows[table->count - 1].history;
    cmd_table_cell(table, "", 0, history ? (double)top_history_max(history) : 0);
}

#define TEXT(member)         cmd_table_text(table, (member), sizeof(member))
#define NUMBER(number)       cmd_table_number(table, (number))
#define COUNT(number)        cmd_table_count(table, (number))
#define TIME(latency, which) cmd_table_time(table, &(latency), STATS_##which)

/* ---- paths ---- */

#define PATH_COLUMNS(COLUMN)                                                               \
    COLUMN("SERVER", CMD_CUT_START, TEXT(path->server))                                    \
    COLUMN("PATH", CMD_TEXT, TEXT(path->path))                                             \
    COLUMN("LOCAL", CMD_TEXT, TEXT(path->local), .drop = 6)                                \
    COLUMN("USER", CMD_TEXT, put_user(table, path->user), .drop = 13)                      \
    COLUMN("STATE", CMD_TEXT, TEXT(state), .state = true)                                  \
    COLUMN("PROC", CMD_NUMBER, NUMBER(path->processes), .drop = 9)                         \
    COLUMN("CONN", CMD_NUMBER, NUMBER(path->channels), .drop = 12)                         \
    COLUMN("BUSY", CMD_NUMBER, NUMBER(path->outstanding), .drop = 3)                       \
    COLUMN("OLDEST", CMD_NUMBER, put_age(table, shown, path->oldest_ns), .drop = 3)        \
    COLUMN("CALLS/S", CMD_NUMBER, COUNT(path->latency.calls), .total = "CALLS", .drop = 1) \
    COLUMN("RECV/S", CMD_NUMBER, COUNT(path->received_bytes), .total = "RECV", .drop = 2)  \
    COLUMN("SENT/S", CMD_NUMBER, COUNT(path->sent_bytes), .total = "SENT", .drop = 2)      \
    COLUMN("MEAN", CMD_NUMBER, TIME(path->latency, MEAN), .drop = 4)                       \
    COLUMN("P99", CMD_NUMBER, TIME(path->latency, P99), .drop = 5)                         \
    COLUMN("MOVED", CMD_NUMBER, NUMBER(totals->paths[i].reissued), .drop = 11)             \
    COLUMN("DOWNS", CMD_NUMBER, NUMBER(totals->paths[i].downs), .drop = 10)                \
    COLUMN("REASON", CMD_TEXT, TEXT(path->reason), .drop = 7, .wide = true)                \
    COLUMN("HISTORY", CMD_TEXT, put_history(table), .drop = 8, .wide = true, .history = true)
static const struct cmd_column path_columns[] = {PATH_COLUMNS(CMD_AS_COLUMN)};

static enum top_look look_of_path(const char *state)
{
    return strcmp(state, "up") == 0       ? TOP_LOOK_GOOD
           : strcmp(state, "down") == 0   ? TOP_LOOK_BAD
           : strcmp(state, "silent") == 0 ? TOP_LOOK_BAD
           : strcmp(state, "unused") == 0 ? TOP_LOOK_PLAIN
                                          : TOP_LOOK_NOTICE;
}

static void fill_paths(const struct filling *filling)
{
    struct cmd_table *table = filling->table;
    const struct cmd_path_list *totals = &filling->model->total.paths;
    const struct stats_snapshot *shown = &filling->period->stats;
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
        PATH_COLUMNS(CMD_AS_CELL)
    }
}

/* ---- processes ---- */

#define PROCESS_COLUMNS(COLUMN)                                                              \
    COLUMN("PID", CMD_NUMBER, put_pid(table, stats->pid))                                    \
    COLUMN("USER", CMD_TEXT, put_user(table, stats->uid), .drop = 9)                         \
    COLUMN("PROGRAM", CMD_TEXT, TEXT(stats->program))                                        \
    COLUMN("READ/S", CMD_NUMBER, COUNT(reads->calls), .total = "READS", .drop = 3)           \
    COLUMN("WRITE/S", CMD_NUMBER, COUNT(writes->calls), .total = "WRITES", .drop = 3)        \
    COLUMN("RD-B/S", CMD_NUMBER, COUNT(counters->read_bytes), .total = "RD-B", .drop = 4)    \
    COLUMN("WR-B/S", CMD_NUMBER, COUNT(counters->write_bytes), .total = "WR-B", .drop = 4)   \
    COLUMN("CALLS/S", CMD_NUMBER, COUNT(calls.calls), .total = "CALLS")                      \
    COLUMN("BUSY", CMD_NUMBER, NUMBER(top_outstanding(stats)), .drop = 5)                    \
    COLUMN("MEAN", CMD_NUMBER, TIME(calls, MEAN), .drop = 1)                                 \
    COLUMN("P99", CMD_NUMBER, TIME(calls, P99), .drop = 2)                                   \
    COLUMN("ERR/S", CMD_NUMBER, COUNT(stats_errors(counters)), .total = "ERRORS", .drop = 8) \
    COLUMN("FILES", CMD_NUMBER, NUMBER(files), .drop = 6)                                    \
    COLUMN("KERNEL", CMD_NUMBER, NUMBER(kernel), .drop = 6)                                  \
    COLUMN("HISTORY", CMD_TEXT, put_history(table), .drop = 7, .wide = true, .history = true)
static const struct cmd_column process_columns[] = {PROCESS_COLUMNS(CMD_AS_COLUMN)};

static void fill_processes(const struct filling *filling)
{
    struct cmd_table *table = filling->table;
    for (unsigned i = 0; i < filling->period->stats.count; i++) {
        const struct directnfs_stats *stats = filling->period->stats.processes[i];
        const struct directnfs_counters *counters = &stats->counters;
        const struct directnfs_latency *reads = &counters->procedures[6].latency;
        const struct directnfs_latency *writes = &counters->procedures[7].latency;
        struct directnfs_latency calls = {0};
        unsigned files = 0, kernel = 0;
        struct cmd_row *row = begin_row(filling, top_key('p', stats->pid), i);
        row->pid = stats->pid;
        top_add_calls(&calls, counters);
        top_count_files(stats, &files, &kernel);
        PROCESS_COLUMNS(CMD_AS_CELL)
    }
}

/* ---- files ---- */

#define FILE_COLUMNS(COLUMN)                                                                     \
    COLUMN("FILE", CMD_CUT_START, TEXT(sum->name), .wide = true)                                 \
    COLUMN("SIZE", CMD_NUMBER, NUMBER(sum->size), .drop = 5)                                     \
    COLUMN("STATE", CMD_TEXT, cmd_table_text(table, file->kernel ? "kernel" : "direct", 8),      \
           .state = true)                                                                        \
    COLUMN("PROC", CMD_NUMBER, NUMBER(file->processes), .drop = 1)                               \
    COLUMN("OPENS", CMD_NUMBER, NUMBER(sum->opens), .drop = 7)                                   \
    COLUMN("SERVER", CMD_CUT_START, cmd_table_text(table, server, DIRECTNFS_NAME_BYTES),         \
           .drop = 8)                                                                            \
    COLUMN("READ/S", CMD_NUMBER, COUNT(sum->reads), .total = "READS", .drop = 4)                 \
    COLUMN("WRITE/S", CMD_NUMBER, COUNT(sum->writes), .total = "WRITES", .drop = 4)              \
    COLUMN("SYNC/S", CMD_NUMBER, COUNT(sum->syncs), .total = "SYNCS", .drop = 6)                 \
    COLUMN("SYNC", CMD_NUMBER, put_mean(table, sum->sync_ns, sum->syncs), .drop = 6)             \
    COLUMN("RD-B/S", CMD_NUMBER, COUNT(sum->read_bytes), .total = "RD-B", .drop = 3)             \
    COLUMN("WR-B/S", CMD_NUMBER, COUNT(sum->write_bytes), .total = "WR-B", .drop = 3)            \
    COLUMN("WHY ON THE KERNEL", CMD_TEXT, cmd_table_text(table, reason, DIRECTNFS_REASON_BYTES), \
           .drop = 2, .wide = true)
static const struct cmd_column file_columns[] = {FILE_COLUMNS(CMD_AS_COLUMN)};

static void put_time(struct cmd_table *table, double microseconds)
{
    char text[CMD_BRIEF] = "-";
    if (microseconds > 0)
        cmd_brief_time(text, microseconds);
    cmd_table_cell(table, text, sizeof(text), microseconds);
}

static void put_mean(struct cmd_table *table, uint64_t ns, uint64_t count)
{
    put_time(table, count && !table->unknown ? (double)ns / 1000 / (double)count : 0);
}

/* One row for each file. */
static void fill_files(const struct filling *filling)
{
    struct cmd_table *table = filling->table;
    const struct stats_snapshot *shown = &filling->period->stats;
    uint32_t pid = filling->model->pid;
    struct cmd_files files = {0};
    for (unsigned p = 0; p < shown->count; p++)
        if (!pid || shown->processes[p]->pid == pid)
            cmd_files_add(&files, shown->processes[p], top_shows_file);
    for (size_t i = 0; i < files.count; i++) {
        const struct cmd_file *file = &files.list[i];
        const struct directnfs_file_stats *sum = &file->sum;
        struct cmd_row *row = begin_row(filling, top_key('f', file->key), i);
        row->pid = file->pid;
        row->look = file->kernel ? TOP_LOOK_WARNING : TOP_LOOK_GOOD;
        const char *reason = file->kernel ? sum->reason : "";
        const char *server = file->server ? file->server->name : "-";
        FILE_COLUMNS(CMD_AS_CELL)
    }
    cmd_files_free(&files);
}

/* ---- calls ---- */

#define CALL_COLUMNS(COLUMN)                                                      \
    COLUMN("CALL", CMD_TEXT, cmd_table_text(table, name + strlen("NFS_"), 32))    \
    COLUMN("CALLS/S", CMD_NUMBER, COUNT(one->latency.calls), .total = "CALLS")    \
    COLUMN("ERR/S", CMD_NUMBER, COUNT(one->errors), .total = "ERRORS", .drop = 5) \
    COLUMN("MEAN", CMD_NUMBER, TIME(one->latency, MEAN), .drop = 1)               \
    COLUMN("P50", CMD_NUMBER, TIME(one->latency, P50), .drop = 4)                 \
    COLUMN("P99", CMD_NUMBER, TIME(one->latency, P99), .drop = 2)                 \
    COLUMN("MAX", CMD_NUMBER, TIME(one->latency, MAX), .drop = 3)                 \
    COLUMN("HISTORY", CMD_TEXT, put_history(table), .drop = 6, .wide = true, .history = true)
static const struct cmd_column call_columns[] = {CALL_COLUMNS(CMD_AS_COLUMN)};

/* Those of the selected process; else of all, including those that ended. */
static const struct directnfs_counters *counters_of(const struct filling *filling)
{
    const struct top_period *period = filling->period;
    struct directnfs_stats **selected = top_selected(filling->model, period);
    if (filling->model->pid)
        return selected ? &(*selected)->counters : NULL;
    return period->sum ? &period->sum->counters : NULL;
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
        CALL_COLUMNS(CMD_AS_CELL)
    }
}

/* ---- mounts ---- */

#define MOUNT_COLUMNS(COLUMN)                                                       \
    COLUMN("SERVER", CMD_CUT_END, TEXT(sum->name), .drop = 7)                       \
    COLUMN("MOUNT", CMD_CUT_START, TEXT(sum->mount), .wide = true)                  \
    COLUMN("USER", CMD_TEXT, put_user(table, mount->user), .drop = 6)               \
    COLUMN("PROC", CMD_NUMBER, NUMBER(mount->processes), .drop = 8)                 \
    COLUMN("READ/S", CMD_NUMBER, COUNT(reads->calls), .total = "READS")             \
    COLUMN("RD-B/S", CMD_NUMBER, COUNT(reads->bytes), .total = "RD-B", .drop = 4)   \
    COLUMN("RD-KB", CMD_NUMBER, cmd_table_real(table, read.kilobytes), .drop = 3)   \
    COLUMN("RD-RTT", CMD_NUMBER, put_time(table, read.rtt_us), .drop = 1)           \
    COLUMN("RD-EXE", CMD_NUMBER, put_time(table, read.exe_us), .drop = 2)           \
    COLUMN("WRITE/S", CMD_NUMBER, COUNT(writes->calls), .total = "WRITES")          \
    COLUMN("WR-B/S", CMD_NUMBER, COUNT(writes->bytes), .total = "WR-B", .drop = 4)  \
    COLUMN("WR-KB", CMD_NUMBER, cmd_table_real(table, write.kilobytes), .drop = 3)  \
    COLUMN("WR-RTT", CMD_NUMBER, put_time(table, write.rtt_us), .drop = 1)          \
    COLUMN("WR-EXE", CMD_NUMBER, put_time(table, write.exe_us), .drop = 2)          \
    COLUMN("RESENT/S", CMD_NUMBER, COUNT(all.resent), .total = "RESENT", .drop = 5) \
    COLUMN("ERR/S", CMD_NUMBER, COUNT(all.errors), .total = "ERRORS", .drop = 5)
static const struct cmd_column mount_columns[] = {MOUNT_COLUMNS(CMD_AS_COLUMN)};

/* For the selected process; else for all, including those that ended. */
static void fill_mounts(const struct filling *filling)
{
    struct cmd_table *table = filling->table;
    const struct top_period *period = filling->period;
    const struct stats_snapshot *shown = &period->stats;
    struct directnfs_stats **selected = top_selected(filling->model, period);
    struct directnfs_stats **processes = filling->model->pid ? selected : shown->processes;
    struct cmd_mounts mounts = {0};
    size_t count = filling->model->pid ? selected != NULL : shown->count;
    cmd_mounts_add(&mounts, (const struct directnfs_stats *const *)processes, count, true);
    if (!filling->model->pid)
        cmd_mounts_add(&mounts, (const struct directnfs_stats *const *)shown->ended,
                       shown->ended_count, false);
    for (size_t i = 0; i < mounts.count; i++) {
        const struct cmd_mount *mount = &mounts.list[i];
        const struct directnfs_mount_stats *sum = &mount->sum;
        const struct directnfs_operation_stats *reads = &sum->operations[DIRECTNFS_READ];
        const struct directnfs_operation_stats *writes = &sum->operations[DIRECTNFS_WRITE];
        struct directnfs_operation_stats all = {0};
        for (unsigned k = 0; k < DIRECTNFS_OPERATIONS; k++) {
            all.resent += sum->operations[k].resent;
            all.errors += sum->operations[k].errors;
        }
        struct cmd_operation read = cmd_operation(reads), write = cmd_operation(writes);
        uint64_t key = cmd_index_key(top_key('m', mount->user), sum->name);
        begin_row(filling, cmd_index_key(cmd_index_key(key, sum->directory), sum->mount), i);
        MOUNT_COLUMNS(CMD_AS_CELL)
    }
    cmd_mounts_free(&mounts);
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
    {mount_columns, LENGTH(mount_columns), 4, fill_mounts, "No mount was used."},
};

void top_choice_begin(struct top_choice *choice)
{
    *choice = (struct top_choice){.view = TOP_PATHS};
    for (unsigned i = 0; i < TOP_VIEWS; i++)
        choice->sort[i].column = views[i].sort;
    choice->sort[TOP_FILES].reverse = true; /* so "kernel" comes before "direct" */
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
