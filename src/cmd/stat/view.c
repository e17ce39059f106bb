/* directnfs stat: the views that are tables. */
#include "cmd/stat/view.h"

#include <string.h>

#include "cmd/cmd.h"

/* ---- cells ---- */

uint64_t stat_uncommitted_in(const struct stat_set *set, const struct directnfs_file_stats *file,
                             bool unsent)
{
    for (size_t i = 0; file->inode && i < set->snapshot->uncommitted_count; i++) {
        const struct stats_uncommitted *one = &set->snapshot->uncommitted_files[i];
        if (one->inode == file->inode && one->device == file->device)
            return unsent ? one->unsent : one->bytes;
    }
    return 0;
}

/* For kinds up to STATS_LAST_NUMBER that are not times. */
static uint64_t number_of(const struct stat_row *row, const struct stats_field *field)
{
    const void *at = stats_at(field, row->record);
    switch (field->kind) {
    case STATS_COUNT:
    case STATS_GAUGE:
        return *(const uint64_t *)at;
    case STATS_AGE:
        return stats_age(row->set->snapshot, *(const uint64_t *)at) / 1000;
    case STATS_UNTIL:
        return stats_seconds_until(*(const uint64_t *)at);
    case STATS_LATENCY:
        return ((const struct directnfs_latency *)at)->calls;
    case STATS_ERRORS:
        return stats_errors(at);
    case STATS_PROCESS:
        return row->stats->pid;
    case STATS_SERVER:
        return stat_server_id(row->set, stat_server_of(row->stats, *(const uint32_t *)at));
    case STATS_SERVER_OWN:
        return stat_server_id(row->set, row->record);
    case STATS_UNCOMMITTED:
    case STATS_UNSENT:
        return stat_uncommitted_in(row->set, row->record, field->kind == STATS_UNSENT);
    default:
        return *(const uint32_t *)at;
    }
}

/* "kernel: mmap", "direct (closed)". Nobody knows if a file that the kernel serves is open. */
static const char *file_state(const struct directnfs_file_stats *file, char *text, size_t size)
{
    bool direct = file->state == DIRECTNFS_FILE_DIRECT;
    bool reason = !direct && file->reason[0] != '\0';
    snprintf(text, size, "%s%s%.*s%s", direct ? "direct" : "kernel", reason ? ": " : "",
             reason ? (int)sizeof(file->reason) : 0, file->reason,
             direct && file->slot == DIRECTNFS_SLOT_CLOSED ? " (closed)" : "");
    return text;
}

/* A connection is silent if a call waits on it and its path is silent. */
static uint32_t channel_state(const struct directnfs_stats *stats,
                              const struct directnfs_channel_stats *channel)
{
    for (uint32_t i = 0; channel->oldest_ns && i < stats->path_count && i < DIRECTNFS_PATHS; i++) {
        const struct directnfs_path_stats *path = &stats->paths[i];
        if (path->server == channel->server && path->state == DIRECTNFS_CHANNEL_SILENT &&
            strncmp(path->path, channel->path, sizeof(path->path)) == 0 &&
            strncmp(path->local, channel->local, sizeof(path->local)) == 0)
            return DIRECTNFS_CHANNEL_SILENT;
    }
    return channel->state;
}

static bool is_channel(const struct stat_row *row)
{
    const struct directnfs_channel_stats *channels = row->stats->channels, *record = row->record;
    return record >= channels && record < channels + DIRECTNFS_CHANNELS;
}

enum { WORD = DIRECTNFS_NAME_BYTES }; /* bytes; the longest word is the name of a server */

/* For the other kinds. `text` has room for words that are made here. */
static const char *word_of(const struct stat_row *row, const struct stats_field *field,
                           char text[WORD])
{
    const void *at = stats_at(field, row->record);
    const struct directnfs_server_stats *server;
    switch (field->kind) {
    case STATS_STATE:
        if (is_channel(row))
            return stats_state_name(channel_state(row->stats, row->record));
        return stats_state_name(*(const uint32_t *)at);
    case STATS_FILE_STATE:
        return file_state(row->record, text, WORD);
    case STATS_MOUNT_KIND:
        return *(const uint32_t *)at == DIRECTNFS_KERNEL_BACKED ? "kernel-backed" : "standalone";
    case STATS_SECURITY:
        return stats_security_text(*(const uint32_t *)at, text);
    case STATS_SERVER_NAME:
        server = stat_server_of(row->stats, *(const uint32_t *)at);
        return server ? server->name : "-";
    case STATS_PROCEDURE:
        return stats_procedure_name((unsigned)((const struct directnfs_procedure_stats *)at -
                                               row->stats->counters.procedures));
    case STATS_ID:
        snprintf(text, WORD, "%016llx", (unsigned long long)*(const uint64_t *)at);
        return text;
    case STATS_TIME:
        cmd_time(text, *(const uint64_t *)at);
        return text;
    default:
        snprintf(text, WORD, *(const uint32_t *)at == 4 ? "NFSv4.1" : "NFSv3");
        return text;
    }
}

/* The mean of a file's reads, writes or syncs. */
static double waited_us(const struct stat_row *row, const struct stats_field *field)
{
    const struct directnfs_file_stats *file = row->record;
    uint64_t count = field->offset == offsetof(struct directnfs_file_stats, read_ns) ? file->reads
                     : field->offset == offsetof(struct directnfs_file_stats, write_ns)
                         ? file->writes
                         : file->syncs;
    return count ? (double)*(const uint64_t *)stats_at(field, file) / 1000 / (double)count : 0;
}

static void put_cell(struct cmd_table *table, const struct stat_row *row,
                     const struct stats_field *field)
{
    const void *at = stats_at(field, row->record);
    char text[WORD];
    if (field->kind >= STATS_MEAN && field->kind <= STATS_MAX)
        cmd_table_time(table, at, field->kind);
    else if (field->kind == STATS_WAITED)
        cmd_table_real(table, waited_us(row, field));
    else if (field->kind == STATS_PROCESS && row->stats == row->set->sum && table->for_people)
        cmd_table_text(table, "sum", SIZE_MAX);
    else if (field->kind <= STATS_LAST_COUNT)
        cmd_table_count(table, number_of(row, field));
    else if (field->kind <= STATS_LAST_NUMBER)
        cmd_table_number(table, number_of(row, field));
    else if (field->kind <= STATS_LAST_TEXT)
        cmd_table_text(table, at, field->bound);
    else
        cmd_table_text(table, word_of(row, field, text), WORD);
}

/* ---- rows ---- */

void stat_row_put(struct cmd_table *table, const struct stat_view *view, const struct stat_row *row)
{
    for (size_t i = 0; i < table->column_count; i++)
        put_cell(table, row, &view->fields->list[i]);
}

/* Puts a row for each used slot of the view's table; without a table, one for the process. */
static void put_process(struct cmd_table *table, const struct stat_view *view,
                        const struct stat_set *set, const struct directnfs_stats *stats)
{
    struct stat_row row = {.set = set, .stats = stats, .record = stats};
    if (view->table == NULL) {
        stat_row_put(table, view, &row);
        return;
    }
    uint32_t count = *stats_count(stats, view->table);
    for (uint32_t i = 0; i < count && i < view->table->slots; i++) {
        row.record = stats_slot(stats, view->table, i);
        if (*(const uint32_t *)row.record != DIRECTNFS_SLOT_FREE)
            stat_row_put(table, view, &row);
    }
}

/* ---- printing ---- */

const struct stat_view stat_views[STAT_VIEWS] = {
    {"servers", "Servers", &stats_tables[STATS_SERVERS].fields, &stats_tables[STATS_SERVERS],
     .key_columns = 2, .none = "No server was mounted."},
    {"sessions", "Sessions", &stats_tables[STATS_SESSIONS].fields, &stats_tables[STATS_SESSIONS],
     .key_columns = 2, .none = "No session was made: that is of NFSv4.1.", .per_process = true},
    {"mounts", "Mounts", .key_columns = 4, .none = "No mount was used.",
     .columns = &stat_mount_columns, .fill = stat_mounts_fill},
    {"processes", "Processes", &stats_process_fields, .key_columns = 2,
     .none = "No process uses directnfs.", .sums = true},
    {"channels", "Channels", &stats_tables[STATS_CHANNELS].fields, &stats_tables[STATS_CHANNELS],
     .key_columns = 5, .none = "No connection was made.", .per_process = true},
    {"paths", "Network paths", &stats_tables[STATS_PATHS].fields, &stats_tables[STATS_PATHS],
     .key_columns = 4, .none = "No network path was used.", .sums = true},
    {"files", "Files", &stats_tables[STATS_FILES].fields, &stats_tables[STATS_FILES],
     .key_columns = 1, .first_part = 6, .none = "No file of a configured mount was opened.",
     .columns = &stat_file_columns, .fill = stat_files_fill},
    {"agents", "What sends for those who die", .key_columns = 1, .none = "No agent was needed.",
     .columns = &stat_agent_columns, .fill = stat_agents_fill},
    {"strays", "What was set aside", .key_columns = 1, .first_part = 6,
     .none = "Nothing was set aside.", .columns = &stat_stray_columns, .fill = stat_strays_fill},
    {"stats", "Calls by process", &stats_procedure_fields, .key_columns = 1,
     .none = "No call was made.", .print = stat_counters_print,
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

struct cmd_table stat_table(const struct stat_view *view, double seconds, bool own)
{
    static struct cmd_column columns[STAT_COLUMNS];
    struct cmd_table table = {.columns = columns,
                              .key_columns = view->key_columns,
                              .first_part = view->first_part,
                              .none = view->none,
                              .seconds = seconds};
    own = view->columns && (own || view->fields == NULL);
    for (size_t i = 0; own && i < view->columns->count; i++)
        columns[table.column_count++] = view->columns->list[i];
    for (size_t i = 0; !own && i < view->fields->count && view->fields->list[i].name; i++) {
        enum stats_kind kind = view->fields->list[i].kind;
        columns[table.column_count++] = (struct cmd_column){
            .name = view->fields->list[i].name,
            .key = kind == STATS_PROCESS ? "pnum" : NULL, /* programs know it by this name */
            .kind = kind <= STATS_LAST_NUMBER                           ? CMD_NUMBER
                    : kind == STATS_CUT_START                           ? CMD_CUT_START
                    : kind == STATS_CUT_END || kind == STATS_FILE_STATE ? CMD_CUT_END
                                                                        : CMD_TEXT};
    }
    return table;
}

void stat_table_sort(struct cmd_table *table, const char *sort)
{
    int column = sort ? cmd_column_find(table->columns, table->column_count, sort) : -1;
    if (column >= 0)
        cmd_table_sort(table, (size_t)column, false);
}

/* Fills the table. `with_sum`: with the row of the sum, if the view has one. */
static void fill(const struct stat_view *view, const struct stat_set *set, const char *sort,
                 bool with_sum, struct cmd_table *table)
{
    if (view->fill && (view->fields == NULL || table->for_people || set->only_sum)) {
        view->fill(table, set);
        stat_table_sort(table, sort);
        return;
    }
    bool servers = view->table == &stats_tables[STATS_SERVERS];
    for (size_t i = 0; servers && i < set->server_count; i++)
        stat_row_put(table, view, &(struct stat_row){.set = set, .record = set->servers[i]});
    for (size_t i = 0; !servers && !(view->sums && set->only_sum) && i < set->count; i++)
        put_process(table, view, set, set->processes[i]);
    for (size_t i = 0; view->fields == &stats_process_fields && i < set->loaded_count; i++)
        put_process(table, view, set, set->loaded[i]);
    stat_table_sort(table, sort);
    if (view->sums && with_sum)
        put_process(table, view, set, set->sum);
}

void stat_view_print(const struct stat_view *view, const struct stat_set *set, size_t width,
                     const char *sort, FILE *out)
{
    if (view->print) {
        view->print(set, width, sort, out);
        return;
    }
    struct cmd_table table = stat_table(view, set->snapshot->seconds, true);
    table.for_people = true;
    fill(view, set, sort, set->only_sum || set->count + set->sum->processes > 1, &table);
    cmd_table_print(&table, width, out);
    cmd_table_free(&table);
}

void stat_view_print_json(const struct stat_view *view, const struct stat_set *set,
                          const char *sort, struct cmd_json *json, const char *key)
{
    if (view->print_json) {
        view->print_json(set, json, key);
        return;
    }
    struct cmd_table table = stat_table(view, 0, set->only_sum);
    fill(view, set, sort, set->only_sum, &table);
    cmd_json_table(json, key, &table);
    cmd_table_free(&table);
}
