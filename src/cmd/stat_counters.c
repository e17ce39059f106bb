/*
 * directnfs stat: the view stats: calls and how long they took, by process and procedure.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/stat_view.h"
#include "host/stats_read.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The counters that are no procedure. */
static const struct {
    const char *name;
    size_t offset;
} counters[] = {
    {"NFS_READBYTES", offsetof(struct directnfs_counters, read_bytes)},
    {"NFS_WRITEBYTES", offsetof(struct directnfs_counters, write_bytes)},
    {"VERIFIER_CHANGES", offsetof(struct directnfs_counters, verifier_changes)},
    {"REWRITTEN_BYTES", offsetof(struct directnfs_counters, rewritten_bytes)},
    {"JUKEBOX_WAITS", offsetof(struct directnfs_counters, jukebox_waits)},
    {"RETRANSMISSIONS", offsetof(struct directnfs_counters, retransmissions)},
    {"FILES_DIRECT", offsetof(struct directnfs_counters, files_direct)},
    {"FILES_KERNEL", offsetof(struct directnfs_counters, files_kernel)},
    {"FILES_NOT_SHOWN", offsetof(struct directnfs_counters, files_not_shown)},
    {"CHANNELS_NOT_SHOWN", offsetof(struct directnfs_counters, channels_not_shown)},
};

static uint64_t counter(const struct directnfs_counters *from, size_t i)
{
    uint64_t value;
    memcpy(&value, (const char *)from + counters[i].offset, sizeof(value));
    return value;
}

/* ---- sums ---- */

static void add(struct directnfs_counters *sum, const struct directnfs_counters *more)
{
    for (size_t p = 0; p < DIRECTNFS_PROCEDURES; p++) {
        struct directnfs_procedure_stats *to = &sum->procedures[p];
        const struct directnfs_procedure_stats *from = &more->procedures[p];
        struct directnfs_latency *latency = &to->latency;
        const struct directnfs_latency *more_latency = &from->latency;
        latency->calls += more_latency->calls;
        to->errors += from->errors;
        latency->total_ns += more_latency->total_ns;
        if (latency->max_ns < more_latency->max_ns)
            latency->max_ns = more_latency->max_ns;
        for (size_t i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
            latency->histogram[i] += more_latency->histogram[i];
    }
    for (size_t i = 0; i < LENGTH(counters); i++) {
        uint64_t value = counter(sum, i) + counter(more, i);
        memcpy((char *)sum + counters[i].offset, &value, sizeof(value));
    }
}

/* ---- for people ---- */

static const struct cmd_column procedure_columns[] = {
    {"PROCEDURE", false}, {"CALLS", true},  {"ERRORS", true}, {"MEAN_US", true},
    {"P50_US", true},     {"P99_US", true}, {"MAX_US", true},
};

/* What was never called is left out. */
static void print_counters(const struct directnfs_counters *from, size_t width, FILE *out)
{
    struct cmd_table table = {
        .columns = procedure_columns, .column_count = LENGTH(procedure_columns), .key_columns = 1};
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++) {
        const struct directnfs_procedure_stats *procedure = &from->procedures[p];
        struct host_latency latency;
        if (procedure->latency.calls == 0)
            continue;
        host_stats_latency(&procedure->latency, &latency);
        cmd_table_text(&table, host_stats_procedure_name(p), SIZE_MAX);
        cmd_table_number(&table, procedure->latency.calls);
        cmd_table_number(&table, procedure->errors);
        cmd_table_real(&table, latency.mean);
        cmd_table_real(&table, latency.p50);
        cmd_table_real(&table, latency.p99);
        cmd_table_real(&table, latency.max);
    }
    cmd_table_print(&table, width, "No call was made.", out);
    cmd_table_free(&table);

    const char *separator = "";
    for (size_t i = 0; i < LENGTH(counters); i++) {
        uint64_t value = counter(from, i);
        /* The first two always, the others when there is something to see. */
        if (value == 0 && i >= 2)
            continue;
        fprintf(out, "%s%s %llu", separator, counters[i].name, (unsigned long long)value);
        separator = i % 4 == 3 ? "\n" : "  ";
    }
    fputc('\n', out);
}

void stat_counters_print(const struct stat_set *set, size_t width, FILE *out)
{
    struct directnfs_counters *sum = calloc(1, sizeof(*sum));
    for (size_t i = 0; i < set->count; i++) {
        const struct directnfs_stats *stats = set->processes[i];
        char *program = cmd_printable(stats->program, sizeof(stats->program));
        if (i > 0)
            fputc('\n', out);
        if (set->ended)
            fprintf(out, "Ended processes of user %u: %llu, the last was PNUM %u (%s)\n",
                    stats->uid, (unsigned long long)stats->processes, stats->pid, program);
        else
            fprintf(out, "PNUM %u (%s)\n", stats->pid, program);
        free(program);
        print_counters(&stats->counters, width, out);
        if (sum)
            add(sum, &stats->counters);
    }
    if (sum && set->count > 1) {
        fprintf(out, "\nSum of %zu %s\n", set->count, set->ended ? "users" : "processes");
        print_counters(sum, width, out);
    }
    free(sum);
}

/* ---- JSON ---- */

static void print_latency(struct cmd_json *json, const struct directnfs_procedure_stats *procedure,
                          const char *name)
{
    struct host_latency latency;
    host_stats_latency(&procedure->latency, &latency);
    cmd_json_open(json, name, '{');
    cmd_json_number(json, "errors", procedure->errors);
    cmd_json_real(json, "mean_us", latency.mean);
    cmd_json_real(json, "p50_us", latency.p50);
    cmd_json_real(json, "p99_us", latency.p99);
    cmd_json_real(json, "max_us", latency.max);
    size_t last = DIRECTNFS_HISTOGRAM_BUCKETS;
    while (last > 0 && procedure->latency.histogram[last - 1] == 0)
        last--;
    cmd_json_open(json, "histogram", '[');
    for (size_t i = 0; i < last; i++)
        cmd_json_number(json, NULL, procedure->latency.histogram[i]);
    cmd_json_close(json, ']');
    cmd_json_close(json, '}');
}

static void print_process(const struct stat_set *set, const struct directnfs_stats *stats,
                          struct cmd_json *json)
{
    const struct directnfs_counters *from = &stats->counters;
    cmd_json_open(json, NULL, '{');
    cmd_json_number(json, "pnum", stats->pid);
    cmd_json_text(json, "program", stats->program, sizeof(stats->program));
    cmd_json_number(json, "uid", stats->uid);
    if (set->ended)
        cmd_json_number(json, "processes", stats->processes);
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        cmd_json_number(json, host_stats_procedure_name(p), from->procedures[p].latency.calls);
    for (size_t i = 0; i < LENGTH(counters); i++)
        cmd_json_number(json, counters[i].name, counter(from, i));
    cmd_json_open(json, "latency", '{');
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        if (from->procedures[p].latency.calls > 0)
            print_latency(json, &from->procedures[p], host_stats_procedure_name(p));
    cmd_json_close(json, '}');
    cmd_json_close(json, '}');
}

void stat_counters_print_json(const struct stat_set *set, struct cmd_json *json, const char *key)
{
    cmd_json_open(json, key, '[');
    for (size_t i = 0; i < set->count; i++)
        print_process(set, set->processes[i], json);
    cmd_json_close(json, ']');
}
