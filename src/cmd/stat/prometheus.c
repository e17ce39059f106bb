/*
 * directnfs stat --prometheus: metrics in the text exposition format, 0.0.4. Counters are sums over
 * all processes that run or ended, so they never go back.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/stat/view.h"

#define PREFIX "directnfs_"

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

/* Writes `name="value"`, escaped; `separator` goes before. */
static void label(FILE *out, const char *separator, const char *name, const char *value,
                  size_t limit)
{
    char *text = cmd_printable(value, limit);
    fprintf(out, "%s%s=\"", separator, name);
    for (const char *p = text; *p; p++)
        fprintf(out, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    fputc('"', out);
    free(text);
}

static void path_labels(FILE *out, const char *server, size_t server_size, const char *path,
                        const char *local)
{
    label(out, "", "server", server, server_size);
    label(out, ",", "path", path, DIRECTNFS_ADDRESS_BYTES);
    label(out, ",", "local", local, DIRECTNFS_ADDRESS_BYTES);
}

/* "read" of "NFS_READ" */
static void procedure_label(FILE *out, unsigned procedure)
{
    fputs("procedure=\"", out);
    for (const char *p = stats_procedure_name(procedure) + strlen("NFS_"); *p; p++)
        fputc(tolower((unsigned char)*p), out);
    fputc('"', out);
}

struct labels {
    unsigned procedure;
    const struct directnfs_path_stats *path; /* NULL: of a procedure */
};

static void print_labels(FILE *out, const struct labels *labels)
{
    if (labels->path)
        path_labels(out, labels->path->name, sizeof(labels->path->name), labels->path->path,
                    labels->path->local);
    else
        procedure_label(out, labels->procedure);
}

/* The last bucket has no upper bound but infinity. The count is that of the buckets: they were not
 * read in one instant. */
static void histogram(FILE *out, const char *name, const struct labels *labels,
                      const struct directnfs_latency *counted)
{
    unsigned long long calls = 0;
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
        calls += counted->histogram[i];
        fprintf(out, PREFIX "%s_bucket{", name);
        print_labels(out, labels);
        if (i < DIRECTNFS_HISTOGRAM_BUCKETS - 1)
            fprintf(out, ",le=\"%g\"} %llu\n", (double)stat_bucket_to(i) / 1e6, calls);
        else
            fprintf(out, ",le=\"+Inf\"} %llu\n", calls);
    }
    fprintf(out, PREFIX "%s_sum{", name);
    print_labels(out, labels);
    fprintf(out, "} %.9f\n" PREFIX "%s_count{", (double)counted->total_ns / 1e9, name);
    print_labels(out, labels);
    fprintf(out, "} %llu\n", calls);
}

static void print_calls(const struct stat_set *set, FILE *out)
{
    const struct directnfs_procedure_stats *procedures = set->sum->counters.procedures;
    head(out, "call_duration_seconds", "histogram", "Time from sending a call to its answer.");
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        if (procedures[p].latency.calls)
            histogram(out, "call_duration_seconds", &(struct labels){.procedure = p},
                      &procedures[p].latency);
    head(out, "call_errors_total", "counter", "Calls answered with an error, or unusably.");
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++) {
        if (!procedures[p].latency.calls)
            continue;
        fputs(PREFIX "call_errors_total{", out);
        procedure_label(out, p);
        fprintf(out, "} %llu\n", (unsigned long long)procedures[p].errors);
    }
}

static unsigned long long count_of(const struct stats_field *field, const void *record)
{
    return *(const uint64_t *)stats_at(field, record);
}

static void print_totals(const struct stat_set *set, FILE *out)
{
    for (size_t i = 0; i < stats_counters.count; i++) {
        const struct stats_field *field = &stats_counters.list[i];
        head(out, field->metric, "counter", field->help);
        fprintf(out, PREFIX "%s %llu\n", field->metric, count_of(field, &set->sum->counters));
    }
}

static void print_path_field(const struct stat_set *set, FILE *out, const struct stats_field *field)
{
    bool counter = field->kind == STATS_COUNT;
    head(out, field->metric, counter ? "counter" : "histogram", field->help);
    for (unsigned i = 0; i < set->sum->path_count; i++) {
        const struct labels labels = {.path = &set->sum->paths[i]};
        if (!counter) {
            histogram(out, field->metric, &labels, stats_at(field, labels.path));
            continue;
        }
        fprintf(out, PREFIX "%s{", field->metric);
        print_labels(out, &labels);
        fprintf(out, "} %llu\n", count_of(field, labels.path));
    }
}

/* How many running processes see a path in this state. */
static unsigned seen(const struct stat_set *set, const struct directnfs_path_stats *path,
                     uint32_t state)
{
    unsigned count = 0;
    for (size_t i = 0; i < set->count; i++)
        for (unsigned k = 0; k < set->processes[i]->path_count; k++)
            count += set->processes[i]->paths[k].state == state &&
                     stats_same_path(&set->processes[i]->paths[k], path);
    return count;
}

static void print_paths(const struct stat_set *set, FILE *out)
{
    head(out, "path_processes", "gauge", "Running processes that see a path in this state.");
    for (unsigned i = 0; i < set->sum->path_count; i++) {
        const struct directnfs_path_stats *path = &set->sum->paths[i];
        for (uint32_t state = 0; state <= DIRECTNFS_CHANNEL_OFFLINE; state++) {
            fputs(PREFIX "path_processes{", out);
            print_labels(out, &(struct labels){.path = path});
            fprintf(out, ",state=\"%s\"} %u\n", stats_state_name(state), seen(set, path, state));
        }
    }
    const struct stats_fields *fields = &stats_tables[STATS_PATHS].fields;
    for (int histograms = 0; histograms < 2; histograms++)
        for (size_t i = 0; i < fields->count; i++)
            if (fields->list[i].metric && (fields->list[i].kind == STATS_LATENCY) == histograms)
                print_path_field(set, out, &fields->list[i]);
}

static void print_now(const struct stat_set *set, FILE *out)
{
    unsigned long long outstanding = 0, open[2] = {0};
    unsigned connections = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct directnfs_stats *stats = set->processes[i];
        for (unsigned k = 0; k < stats->channel_count; k++) {
            if (stats->channels[k].slot != DIRECTNFS_SLOT_USED)
                continue;
            connections++;
            outstanding += stats->channels[k].outstanding;
        }
        for (unsigned k = 0; k < stats->file_count; k++)
            if (stats->files[k].slot == DIRECTNFS_SLOT_USED)
                open[stats->files[k].state == DIRECTNFS_FILE_KERNEL]++;
    }
    head(out, "processes", "gauge", "Processes that use directnfs now.");
    fprintf(out, PREFIX "processes %zu\n", set->count);
    head(out, "ended_processes_total", "counter", "Processes that used directnfs and have ended.");
    fprintf(out, PREFIX "ended_processes_total %llu\n", (unsigned long long)set->sum->processes);
    head(out, "connections", "gauge", "Connections to servers.");
    fprintf(out, PREFIX "connections %u\n", connections);
    head(out, "outstanding_calls", "gauge", "Calls in flight.");
    fprintf(out, PREFIX "outstanding_calls %llu\n", outstanding);
    head(out, "open_files", "gauge", "Files of mounts that are open, by who serves them.");
    fprintf(out, PREFIX "open_files{by=\"directnfs\"} %llu\n", open[0]);
    fprintf(out, PREFIX "open_files{by=\"kernel\"} %llu\n", open[1]);
    head(out, "uncommitted_bytes", "gauge", "Bytes written and kept until they are committed.");
    fprintf(out, PREFIX "uncommitted_bytes %llu\n", (unsigned long long)set->uncommitted);
}

static void print_mounts(const struct stat_set *set, FILE *out)
{
    head(out, "mount_info", "gauge", "Mounts in use; the value is always 1.");
    for (size_t i = 0; i < set->server_count; i++) {
        const struct directnfs_server_stats *server = set->servers[i];
        label(out, PREFIX "mount_info{", "server", server->name, sizeof(server->name));
        label(out, ",", "directory", server->directory, sizeof(server->directory));
        label(out, ",", "mount", server->mount, sizeof(server->mount));
        fputs("} 1\n", out);
    }
}

void stat_prometheus_print(const struct stat_set *set, FILE *out)
{
    print_now(set, out);
    print_mounts(set, out);
    print_calls(set, out);
    print_totals(set, out);
    print_paths(set, out);
}
