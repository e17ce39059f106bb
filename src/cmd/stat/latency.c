/* directnfs stat: the view latency: how long calls took, by procedure and by network path. */
#include <stdlib.h>
#include <string.h>

#include "cmd/stat/view.h"

enum { BAR = 40 };

#define BUCKET_COLUMNS(COLUMN)                                                     \
    COLUMN("FROM_US", CMD_NUMBER, cmd_table_number(&table, stat_bucket_to(i) / 2)) \
    COLUMN("TO_US", CMD_NUMBER, cmd_table_number(&table, stat_bucket_to(i)))       \
    COLUMN("CALLS", CMD_NUMBER, cmd_table_count(&table, counted->histogram[i]))    \
    COLUMN("PERCENT", CMD_NUMBER, cmd_table_real(&table, 100 * share))             \
    COLUMN("UP_TO", CMD_NUMBER, cmd_table_real(&table, 100 * seen))                \
    COLUMN("SHARE", CMD_TEXT, cmd_table_text(&table, bar, BAR))

static void print_buckets(const struct stat_set *set, const struct directnfs_latency *counted,
                          size_t width, FILE *out)
{
    static const struct cmd_column columns[] = {BUCKET_COLUMNS(CMD_AS_COLUMN)};
    struct cmd_table table = {.columns = columns,
                              .column_count = sizeof(columns) / sizeof(columns[0]),
                              .none = "No call was answered.",
                              .for_people = true,
                              .seconds = set->snapshot->seconds};
    unsigned first = 0, end = DIRECTNFS_HISTOGRAM_BUCKETS;
    double total = 0, seen = 0;
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
        total += (double)counted->histogram[i];
    while (first < end && counted->histogram[first] == 0)
        first++;
    while (end > first && counted->histogram[end - 1] == 0)
        end--;
    for (unsigned i = first; i < end; i++) {
        char bar[BAR + 1];
        double share = (double)counted->histogram[i] / total;
        int length = (int)(share * BAR + 0.5);
        memset(bar, '#', (size_t)length);
        bar[length] = '\0';
        seen += share;
        BUCKET_COLUMNS(CMD_AS_CELL)
    }
    cmd_table_print(&table, width, out);
    cmd_table_free(&table);
}

static void print_one(const struct stat_set *set, const struct directnfs_latency *counted,
                      const char *name, size_t width, FILE *out)
{
    struct stats_latency latency;
    stats_latency(counted, &latency);
    const double times[] = {latency.mean, latency.p50, latency.p90, latency.p99, latency.max};
    static const char *const words[] = {"mean", "p50", "p90", "p99", "max"};
    fprintf(out, "%s: %llu calls\n", name, (unsigned long long)counted->calls);
    for (int i = 0; i < 5; i++) {
        char digits[32], marked[CMD_MARKED];
        snprintf(digits, sizeof(digits), "%.1f", times[i]);
        fprintf(out, "%s%s %s us", i ? ", " : "", words[i], cmd_mark_thousands(marked, digits));
    }
    fputc('\n', out);
    print_buckets(set, counted, width, out);
}

void stat_latency_print(const struct stat_set *set, size_t width, const char *sort, FILE *out)
{
    const char *separator = "";
    (void)sort;
    if (!set->last)
        stat_null_print(set, width, out);
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++) {
        const struct directnfs_latency *counted = &set->sum->counters.procedures[p].latency;
        if (counted->calls == 0)
            continue;
        fputs(separator, out);
        separator = "\n";
        print_one(set, counted, stats_procedure_name(p), width, out);
    }
    for (unsigned i = 0; i < set->sum->path_count; i++) {
        const struct directnfs_path_stats *path = &set->sum->paths[i];
        if (path->slot == DIRECTNFS_SLOT_FREE || path->latency.calls == 0)
            continue;
        char text[4 * DIRECTNFS_ADDRESS_BYTES];
        snprintf(text, sizeof(text), "%.*s path %.*s%s%.*s", DIRECTNFS_ADDRESS_BYTES, path->name,
                 DIRECTNFS_ADDRESS_BYTES, path->path, path->local[0] ? " from " : "",
                 DIRECTNFS_ADDRESS_BYTES, path->local);
        char *name = cmd_printable(text, sizeof(text));
        fputs(separator, out);
        separator = "\n";
        print_one(set, &path->latency, name, width, out);
        free(name);
    }
    if (*separator == '\0')
        fputs("No call was made.\n", out);
}

void stat_json_times(struct cmd_json *json, const struct directnfs_latency *counted)
{
    struct stats_latency latency;
    stats_latency(counted, &latency);
    cmd_json_real(json, "mean_us", latency.mean);
    cmd_json_real(json, "p50_us", latency.p50);
    cmd_json_real(json, "p90_us", latency.p90);
    cmd_json_real(json, "p99_us", latency.p99);
    cmd_json_real(json, "max_us", latency.max);
}

static void print_json_one(struct cmd_json *json, const struct directnfs_latency *counted)
{
    cmd_json_number(json, "calls", counted->calls);
    stat_json_times(json, counted);
    cmd_json_open(json, "histogram", '[');
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
        if (counted->histogram[i] == 0)
            continue;
        cmd_json_open(json, NULL, '{');
        cmd_json_number(json, "from_us", stat_bucket_to(i) / 2);
        cmd_json_number(json, "to_us", stat_bucket_to(i));
        cmd_json_number(json, "calls", counted->histogram[i]);
        cmd_json_close(json, '}');
    }
    cmd_json_close(json, ']');
}

void stat_latency_print_json(const struct stat_set *set, struct cmd_json *json, const char *key)
{
    cmd_json_open(json, key, '[');
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++) {
        const struct directnfs_latency *counted = &set->sum->counters.procedures[p].latency;
        if (counted->calls == 0)
            continue;
        cmd_json_open(json, NULL, '{');
        cmd_json_text(json, "procedure", stats_procedure_name(p), SIZE_MAX);
        print_json_one(json, counted);
        cmd_json_close(json, '}');
    }
    for (unsigned i = 0; i < set->sum->path_count; i++) {
        const struct directnfs_path_stats *path = &set->sum->paths[i];
        if (path->slot == DIRECTNFS_SLOT_FREE || path->latency.calls == 0)
            continue;
        cmd_json_open(json, NULL, '{');
        cmd_json_text(json, "svrname", path->name, sizeof(path->name));
        cmd_json_text(json, "path", path->path, sizeof(path->path));
        cmd_json_text(json, "local", path->local, sizeof(path->local));
        print_json_one(json, &path->latency);
        cmd_json_close(json, '}');
    }
    cmd_json_close(json, ']');
}
