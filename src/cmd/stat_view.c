/*
 * directnfs stat: the views that are tables.
 */
#include "cmd/stat_view.h"

#include <string.h>
#include <time.h>

#include "cmd/cmd.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static size_t bounded(size_t count, size_t limit)
{
    return count < limit ? count : limit;
}

void stat_time(char text[STAT_TIME_BYTES], uint64_t realtime_ns)
{
    time_t seconds = (time_t)(realtime_ns / 1000000000u);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL || strftime(text, STAT_TIME_BYTES, "%FT%TZ", &tm) == 0)
        strcpy(text, "-");
}

/* Whose row it is: a process, or 0 for the sum. */
static void cell_pnum(struct cmd_table *table, uint32_t pid)
{
    if (pid == 0 && table->for_people)
        cmd_table_text(table, "sum", SIZE_MAX);
    else
        cmd_table_number(table, pid);
}

/* ---- servers ---- */

static const struct cmd_column server_columns[] = {
    {"ID", CMD_NUMBER},       {"SVRNAME", CMD_CUT_END}, {"DIRNAME", CMD_CUT_START},
    {"MNTPORT", CMD_NUMBER},  {"NFSPORT", CMD_NUMBER},  {"NFSVERSION", CMD_TEXT},
    {"WTMAX", CMD_NUMBER},    {"RTMAX", CMD_NUMBER},    {"SECURITY", CMD_TEXT},
    {"MOUNT", CMD_CUT_START}, {"KIND", CMD_TEXT},
};

static void fill_servers(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->server_count; i++) {
        const struct directnfs_server_stats *server = set->servers[i];
        char version[24];
        snprintf(version, sizeof(version), "NFSv%u", server->version);
        cmd_table_number(table, i + 1);
        cmd_table_text(table, server->name, sizeof(server->name));
        cmd_table_text(table, server->directory, sizeof(server->directory));
        cmd_table_number(table, server->mntport);
        cmd_table_number(table, server->nfsport);
        cmd_table_text(table, version, sizeof(version));
        cmd_table_number(table, server->wtmax);
        cmd_table_number(table, server->rtmax);
        cmd_table_text(table, server->security, sizeof(server->security));
        cmd_table_text(table, server->mount, sizeof(server->mount));
        cmd_table_text(
            table, server->kind == DIRECTNFS_KERNEL_BACKED ? "kernel-backed" : "standalone", 16);
    }
}

/* ---- processes ---- */

static const struct cmd_column process_columns[] = {
    {"PNUM", CMD_NUMBER},        {"PROGRAM", CMD_TEXT},    {"READS", CMD_NUMBER},
    {"READ_BYTES", CMD_NUMBER},  {"READ_US", CMD_NUMBER},  {"WRITES", CMD_NUMBER},
    {"WRITE_BYTES", CMD_NUMBER}, {"WRITE_US", CMD_NUMBER}, {"ERRORS", CMD_NUMBER},
    {"DIRECT", CMD_NUMBER},      {"KERNEL", CMD_NUMBER},
};

static void cells_of_latency(struct cmd_table *table, const struct directnfs_latency *counted)
{
    struct host_latency latency;
    host_stats_latency(counted, &latency);
    cmd_table_real(table, latency.mean);
    cmd_table_real(table, latency.p50);
    cmd_table_real(table, latency.p90);
    cmd_table_real(table, latency.p99);
    cmd_table_real(table, latency.max);
}

static void fill_process(const struct directnfs_stats *stats, uint32_t pid, struct cmd_table *table)
{
    const struct directnfs_counters *counters = &stats->counters;
    const struct directnfs_latency *read = &counters->procedures[6].latency;
    const struct directnfs_latency *write = &counters->procedures[7].latency;
    struct host_latency latency;
    uint64_t errors = 0;
    for (int i = 0; i < DIRECTNFS_PROCEDURES; i++)
        errors += counters->procedures[i].errors;
    cell_pnum(table, pid);
    cmd_table_text(table, stats->program, sizeof(stats->program));
    cmd_table_count(table, read->calls);
    cmd_table_count(table, counters->read_bytes);
    host_stats_latency(read, &latency);
    cmd_table_real(table, latency.mean);
    cmd_table_count(table, write->calls);
    cmd_table_count(table, counters->write_bytes);
    host_stats_latency(write, &latency);
    cmd_table_real(table, latency.mean);
    cmd_table_count(table, errors);
    cmd_table_count(table, counters->files_direct);
    cmd_table_count(table, counters->files_kernel);
}

static void fill_processes(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->count; i++)
        fill_process(set->processes[i], set->processes[i]->pid, table);
}

static void fill_processes_sum(const struct stat_set *set, struct cmd_table *table)
{
    fill_process(set->sum, 0, table);
}

/* ---- channels ---- */

static const struct cmd_column channel_columns[] = {
    {"PNUM", CMD_NUMBER},       {"SVRNAME", CMD_TEXT},      {"PATH", CMD_TEXT},
    {"LOCAL", CMD_TEXT},        {"CH_ID", CMD_NUMBER},      {"SVR_ID", CMD_NUMBER},
    {"SENDS", CMD_NUMBER},      {"RECVS", CMD_NUMBER},      {"PINGS", CMD_NUMBER},
    {"RECO", CMD_NUMBER},       {"STATE", CMD_TEXT},        {"OUTSTANDING", CMD_NUMBER},
    {"SENT_BYTES", CMD_NUMBER}, {"RECV_BYTES", CMD_NUMBER}, {"RTT_US", CMD_NUMBER},
    {"REISSUED", CMD_NUMBER},
};

const char *stat_channel_state(uint32_t state)
{
    static const char *const names[] = {
        [DIRECTNFS_CHANNEL_DOWN] = "down",
        [DIRECTNFS_CHANNEL_UP] = "up",
        [DIRECTNFS_CHANNEL_PROBING] = "probing",
        [DIRECTNFS_CHANNEL_OFFLINE] = "offline",
    };
    return state < LENGTH(names) ? names[state] : "unknown";
}

static void fill_channels_of(const struct stat_set *set, const struct directnfs_stats *stats,
                             struct cmd_table *table)
{
    for (size_t i = 0; i < bounded(stats->channel_count, DIRECTNFS_CHANNELS); i++) {
        const struct directnfs_channel_stats *channel = &stats->channels[i];
        if (channel->slot == DIRECTNFS_SLOT_FREE)
            continue;
        const struct directnfs_server_stats *server = stat_server_of(stats, channel->server);
        cmd_table_number(table, stats->pid);
        cmd_table_text(table, server ? server->name : "-", sizeof(server->name));
        cmd_table_text(table, channel->path, sizeof(channel->path));
        cmd_table_text(table, channel->local, sizeof(channel->local));
        cmd_table_number(table, channel->id);
        cmd_table_number(table, stat_server_id(set, server));
        cmd_table_count(table, channel->sends);
        cmd_table_count(table, channel->recvs);
        cmd_table_count(table, channel->pings);
        cmd_table_count(table, channel->reconnects);
        cmd_table_text(table, stat_channel_state(channel->state), 16);
        cmd_table_number(table, channel->outstanding);
        cmd_table_count(table, channel->sent_bytes);
        cmd_table_count(table, channel->received_bytes);
        cmd_table_number(table, channel->rtt_us);
        cmd_table_count(table, channel->reissued);
    }
}

static void fill_channels(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->count; i++)
        fill_channels_of(set, set->processes[i], table);
}

/* ---- paths ---- */

static const struct cmd_column path_columns[] = {
    {"PNUM", CMD_NUMBER},     {"SVRNAME", CMD_CUT_END}, {"PATH", CMD_TEXT},
    {"LOCAL", CMD_TEXT},      {"STATE", CMD_TEXT},      {"CALLS", CMD_NUMBER},
    {"MEAN_US", CMD_NUMBER},  {"P50_US", CMD_NUMBER},   {"P90_US", CMD_NUMBER},
    {"P99_US", CMD_NUMBER},   {"MAX_US", CMD_NUMBER},   {"DOWNS", CMD_NUMBER},
    {"REISSUED", CMD_NUMBER}, {"SINCE", CMD_TEXT},      {"REASON", CMD_CUT_END},
};

static void fill_paths_of(const struct directnfs_stats *stats, uint32_t pid,
                          struct cmd_table *table)
{
    for (size_t i = 0; i < bounded(stats->path_count, DIRECTNFS_PATHS); i++) {
        const struct directnfs_path_stats *path = &stats->paths[i];
        char since[STAT_TIME_BYTES];
        if (path->slot == DIRECTNFS_SLOT_FREE)
            continue;
        stat_time(since, path->since_ns);
        cell_pnum(table, pid);
        cmd_table_text(table, path->name, sizeof(path->name));
        cmd_table_text(table, path->path, sizeof(path->path));
        cmd_table_text(table, path->local, sizeof(path->local));
        cmd_table_text(table, stat_channel_state(path->state), 16);
        cmd_table_count(table, path->latency.calls);
        cells_of_latency(table, &path->latency);
        cmd_table_count(table, path->downs);
        cmd_table_count(table, path->reissued);
        cmd_table_text(table, since, sizeof(since));
        cmd_table_text(table, path->reason, sizeof(path->reason));
    }
}

static void fill_paths(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->count; i++)
        fill_paths_of(set->processes[i], set->processes[i]->pid, table);
}

static void fill_paths_sum(const struct stat_set *set, struct cmd_table *table)
{
    fill_paths_of(set->sum, 0, table);
}

/* ---- files ---- */

static const struct cmd_column file_columns[] = {
    {"FILENAME", CMD_CUT_START}, {"FILESIZE", CMD_NUMBER},    {"PNUM", CMD_NUMBER},
    {"SVR_ID", CMD_NUMBER},      {"UNCOMMITTED", CMD_NUMBER}, {"STATE", CMD_CUT_END},
};

static uint64_t uncommitted_in(const struct stat_set *set, const struct directnfs_file_stats *file)
{
    for (size_t i = 0; file->inode && i < set->uncommitted_count; i++) {
        const struct host_stats_uncommitted *one = &set->uncommitted_files[i];
        if (one->inode == file->inode && one->device == file->device)
            return one->bytes;
    }
    return 0;
}

static void fill_files_of(const struct stat_set *set, const struct directnfs_stats *stats,
                          struct cmd_table *table)
{
    for (size_t i = 0; i < bounded(stats->file_count, DIRECTNFS_FILES); i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        if (file->slot == DIRECTNFS_SLOT_FREE)
            continue;
        char state[DIRECTNFS_REASON_BYTES + 32];
        bool direct = file->state == DIRECTNFS_FILE_DIRECT;
        bool reason = !direct && file->reason[0] != '\0';
        snprintf(state, sizeof(state), "%s%s%.*s%s", direct ? "direct" : "kernel",
                 reason ? ": " : "", reason ? (int)sizeof(file->reason) : 0, file->reason,
                 file->slot == DIRECTNFS_SLOT_CLOSED ? " (closed)" : "");
        cmd_table_text(table, file->name, sizeof(file->name));
        cmd_table_number(table, file->size);
        cmd_table_number(table, stats->pid);
        cmd_table_number(table, stat_server_id(set, stat_server_of(stats, file->server)));
        cmd_table_number(table, uncommitted_in(set, file));
        cmd_table_text(table, state, sizeof(state));
    }
}

static void fill_files(const struct stat_set *set, struct cmd_table *table)
{
    for (size_t i = 0; i < set->count; i++)
        fill_files_of(set, set->processes[i], table);
}

/* ---- printing ---- */

#define COLUMNS(table, keys) \
    .columns = (table), .column_count = LENGTH(table), .key_columns = (keys)

const struct stat_view stat_views[STAT_VIEWS] = {
    {"servers", "Servers", COLUMNS(server_columns, 2), .none = "No server was mounted.",
     .fill = fill_servers},
    {"processes", "Processes", COLUMNS(process_columns, 2), .none = "No process uses directnfs.",
     .fill = fill_processes, .fill_sum = fill_processes_sum},
    {"channels", "Channels", COLUMNS(channel_columns, 5), .none = "No connection was made.",
     .fill = fill_channels},
    {"paths", "Network paths", COLUMNS(path_columns, 4), .none = "No network path was used.",
     .fill = fill_paths, .fill_sum = fill_paths_sum},
    {"files", "Files", COLUMNS(file_columns, 0),
     .none = "No file of a configured mount was opened.", .fill = fill_files},
    {"stats", "Calls by process", .columns = stat_procedure_columns,
     .column_count = STAT_PROCEDURE_COLUMNS, .print = stat_counters_print,
     .print_json = stat_counters_print_json},
    {"latency", "Latencies", .print = stat_latency_print, .print_json = stat_latency_print_json,
     .on_request = true},
};

const struct stat_view *stat_view_find(const char *name)
{
    for (size_t i = 0; i < STAT_VIEWS; i++)
        if (strcmp(stat_views[i].name, name) == 0)
            return &stat_views[i];
    return NULL;
}

static void fill(const struct stat_view *view, const struct stat_set *set, const char *sort,
                 struct cmd_table *table)
{
    *table = (struct cmd_table){.columns = view->columns,
                                .column_count = view->column_count,
                                .key_columns = view->key_columns,
                                .for_people = table->for_people,
                                .seconds = table->seconds};
    if (!set->only_sum || !view->fill_sum)
        view->fill(set, table);
    if (sort)
        cmd_table_sort(table, sort);
}

void stat_view_print(const struct stat_view *view, const struct stat_set *set, size_t width,
                     const char *sort, FILE *out)
{
    struct cmd_table table = {.for_people = true, .seconds = set->seconds};
    if (view->print) {
        view->print(set, width, sort, out);
        return;
    }
    fill(view, set, sort, &table);
    if (view->fill_sum && (set->only_sum || set->count + set->sum->processes > 1))
        view->fill_sum(set, &table);
    cmd_table_print(&table, width, view->none, out);
    cmd_table_free(&table);
}

void stat_view_print_json(const struct stat_view *view, const struct stat_set *set,
                          const char *sort, struct cmd_json *json, const char *key)
{
    struct cmd_table table = {0};
    if (view->print_json) {
        view->print_json(set, json, key);
        return;
    }
    fill(view, set, sort, &table);
    if (view->fill_sum && set->only_sum)
        view->fill_sum(set, &table);
    cmd_json_table(json, key, &table);
    cmd_table_free(&table);
}
