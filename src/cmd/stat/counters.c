/* directnfs stat: the view stats, and the counters by their names. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/stat/view.h"

/* ---- for people ---- */

static uint64_t counter(const struct directnfs_stats *from, size_t index)
{
    return *(const uint64_t *)stats_at(&stats_counters.list[index], &from->counters);
}

/* Leaves out procedures that were never called. */
static void print_counters(const struct stat_set *set, const struct directnfs_stats *from,
                           size_t width, const char *sort, FILE *out)
{
    const struct stat_view *view = stat_view_find("stats");
    double seconds = set->snapshot->seconds;
    struct cmd_table table = stat_table(view, seconds, true);
    table.for_people = true;
    struct stat_row row = {.set = set, .stats = from};
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++) {
        row.record = &from->counters.procedures[p];
        if (from->counters.procedures[p].latency.calls > 0)
            stat_row_put(&table, view, &row);
    }
    stat_table_sort(&table, sort);
    cmd_table_print(&table, width, out);
    cmd_table_free(&table);

    int shown = 0;
    for (size_t i = 0; i < stats_counters.count; i++) {
        uint64_t value = counter(from, i);
        /* Always the first two; others only if they are not 0. */
        if (value == 0 && i >= 2)
            continue;
        if (shown)
            fputs(shown % 3 ? "  " : "\n", out);
        shown++;
        if (seconds > 0)
            fprintf(out, "%s %.1f", stats_counters.list[i].name, (double)value / seconds);
        else
            fprintf(out, "%s %llu", stats_counters.list[i].name, (unsigned long long)value);
    }
    fputc('\n', out);
}

/* "Sum of 2 processes and 5 that have ended" */
static void print_sum_title(const struct stat_set *set, FILE *out)
{
    unsigned long long ended = set->sum->processes;
    const char *plural = set->count == 1 ? "" : "es";
    if (set->last)
        fprintf(out, "Sum of what ended: %llu process%s of %zu user%s\n", ended,
                ended == 1 ? "" : "es", set->count, set->count == 1 ? "" : "s");
    else if (ended)
        fprintf(out, "Sum of %zu process%s and %llu that %s ended\n", set->count, plural, ended,
                ended == 1 ? "has" : "have");
    else
        fprintf(out, "Sum of %zu process%s\n", set->count, plural);
}

void stat_counters_print(const struct stat_set *set, size_t width, const char *sort, FILE *out)
{
    for (size_t i = 0; i < set->count && !set->only_sum; i++) {
        const struct directnfs_stats *stats = set->processes[i];
        char *program = cmd_printable(stats->program, sizeof(stats->program));
        if (i > 0)
            fputc('\n', out);
        if (set->last)
            fprintf(out, "Ended processes of user %u: %llu, the last was PID %u (%s)\n", stats->uid,
                    (unsigned long long)stats->processes, stats->pid, program);
        else
            fprintf(out, "PID %u (%s)\n", stats->pid, program);
        free(program);
        print_counters(set, stats, width, sort, out);
    }
    bool several = set->last ? set->count > 1 : set->count + set->sum->processes > 1;
    if (set->only_sum || several) {
        if (!set->only_sum && set->count)
            fputc('\n', out);
        print_sum_title(set, out);
        print_counters(set, set->sum, width, sort, out);
    }
    if (set->snapshot->uncommitted)
        fprintf(out, "UNCOMMITTED_BYTES %llu  UNSENT_BYTES %llu\n",
                (unsigned long long)set->snapshot->uncommitted,
                (unsigned long long)set->snapshot->unsent);
}

/* ---- JSON ---- */

static void print_latency(struct cmd_json *json, const struct directnfs_procedure_stats *procedure,
                          const char *name)
{
    cmd_json_open(json, name, '{');
    cmd_json_number(json, "errors", procedure->errors);
    stat_json_times(json, &procedure->latency);
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
    bool sum = stats == set->sum;
    cmd_json_open(json, NULL, '{');
    cmd_json_number(json, "pnum", stats->pid);
    cmd_json_text(json, "program", stats->program, sizeof(stats->program));
    cmd_json_number(json, "uid", stats->uid);
    if (sum)
        cmd_json_number(json, "running", set->last ? 0 : set->count);
    if (sum || set->last)
        cmd_json_number(json, "processes", stats->processes);
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        cmd_json_number(json, stats_procedure_name(p), from->procedures[p].latency.calls);
    for (size_t i = 0; i < stats_counters.count; i++)
        cmd_json_number(json, stats_counters.list[i].name, counter(stats, i));
    if (sum) {
        cmd_json_number(json, "uncommitted_bytes", set->snapshot->uncommitted);
        cmd_json_number(json, "unsent_bytes", set->snapshot->unsent);
        cmd_json_number(json, "losses", set->snapshot->losses);
    }
    cmd_json_open(json, "latency", '{');
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        if (from->procedures[p].latency.calls > 0)
            print_latency(json, &from->procedures[p], stats_procedure_name(p));
    cmd_json_close(json, '}');
    cmd_json_close(json, '}');
}

void stat_counters_print_json(const struct stat_set *set, struct cmd_json *json, const char *key)
{
    cmd_json_open(json, key, '[');
    for (size_t i = 0; i < set->count && !set->only_sum; i++)
        print_process(set, set->processes[i], json);
    if (set->only_sum)
        print_process(set, set->sum, json);
    cmd_json_close(json, ']');
}
