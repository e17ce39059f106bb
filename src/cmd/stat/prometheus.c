/*
 * directnfs stat --prometheus: metrics in the text exposition format, 0.0.4. Counters are sums over
 * all processes that run or ended, so they never decrease.
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

/* A metric without labels. */
static void single(FILE *out, const char *name, const char *type, const char *help,
                   unsigned long long value)
{
    head(out, name, type, help);
    fprintf(out, PREFIX "%s %llu\n", name, value);
}

/* ---- labels ---- */

/* Writes `separator`, then `name="value"`, escaped. */
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

/* The labels of a mount and a user; free them by free(3). */
static char *mount_labels(const struct cmd_mount *mount)
{
    char *text, number[CMD_USER_NUMBER];
    size_t size;
    FILE *out = cmd_need(open_memstream(&text, &size));
    label(out, "", "user", cmd_user_name(mount->user, number), SIZE_MAX);
    label(out, ",", "server", mount->sum.name, sizeof(mount->sum.name));
    label(out, ",", "directory", mount->sum.directory, sizeof(mount->sum.directory));
    label(out, ",", "mount", mount->sum.mount, sizeof(mount->sum.mount));
    fclose(out);
    return cmd_need(text);
}

/* The labels of a path; free them by free(3). */
static char *path_labels(const struct directnfs_path_stats *path)
{
    char *text;
    size_t size;
    FILE *out = cmd_need(open_memstream(&text, &size));
    label(out, "", "server", path->name, sizeof(path->name));
    label(out, ",", "path", path->path, sizeof(path->path));
    label(out, ",", "local", path->local, sizeof(path->local));
    fclose(out);
    return cmd_need(text);
}

enum { LABEL = 48 };

/* "read" for "NFS_READ" */
static const char *procedure_label(char text[LABEL], unsigned procedure)
{
    snprintf(text, LABEL, "procedure=\"%s\"", stats_procedure_name(procedure) + strlen("NFS_"));
    for (char *p = text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return text;
}

/* ---- metrics ---- */

static void sample(FILE *out, const char *name, const char *labels, unsigned long long value)
{
    fprintf(out, PREFIX "%s{%s} %llu\n", name, labels, value);
}

/* The last bucket has no upper bound but infinity. The count is that of the buckets, as they were
 * not read in one instant. */
static void histogram(FILE *out, const char *name, const char *labels,
                      const struct directnfs_latency *counted)
{
    unsigned long long calls = 0;
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
        calls += counted->histogram[i];
        if (i < DIRECTNFS_HISTOGRAM_BUCKETS - 1)
            fprintf(out, PREFIX "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels,
                    (double)stat_bucket_to(i) / 1e6, calls);
    }
    fprintf(out, PREFIX "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels, calls);
    fprintf(out, PREFIX "%s_sum{%s} %.9f\n", name, labels, (double)counted->total_ns / 1e9);
    fprintf(out, PREFIX "%s_count{%s} %llu\n", name, labels, calls);
}

static void print_calls(const struct stat_set *set, FILE *out)
{
    const struct directnfs_procedure_stats *procedures = set->sum->counters.procedures;
    char text[LABEL];
    head(out, "call_duration_seconds", "histogram", "Time from sending a call to its answer.");
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        if (procedures[p].latency.calls)
            histogram(out, "call_duration_seconds", procedure_label(text, p),
                      &procedures[p].latency);
    head(out, "call_errors_total", "counter", "Calls answered with an error, or unusably.");
    for (unsigned p = 0; p < DIRECTNFS_PROCEDURES; p++)
        if (procedures[p].latency.calls)
            sample(out, "call_errors_total", procedure_label(text, p), procedures[p].errors);
}

static void print_totals(const struct stat_set *set, FILE *out)
{
    for (size_t i = 0; i < stats_counters.count; i++) {
        const struct stats_field *field = &stats_counters.list[i];
        single(out, field->metric, "counter", field->help,
               *(const uint64_t *)stats_at(field, &set->sum->counters));
    }
}

/* The number of running processes that see a path in this state. */
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
    const struct directnfs_stats *sum = set->sum;
    const struct stats_fields *fields = &stats_tables[STATS_PATHS].fields;
    char *labels[DIRECTNFS_PATHS];
    head(out, "path_processes", "gauge", "Running processes that see a path in this state.");
    for (unsigned i = 0; i < sum->path_count; i++) {
        labels[i] = path_labels(&sum->paths[i]);
        for (uint32_t state = 0; state < DIRECTNFS_CHANNEL_STATES; state++)
            fprintf(out, PREFIX "path_processes{%s,state=\"%s\"} %u\n", labels[i],
                    stats_state_name(state), seen(set, &sum->paths[i], state));
    }
    /* First ages and counters, then the histograms. */
    for (size_t f = 0; f < 2 * fields->count; f++) {
        const struct stats_field *field = &fields->list[f % fields->count];
        bool counter = field->kind == STATS_COUNT, age = field->kind == STATS_AGE;
        bool until = field->kind == STATS_UNTIL;
        if (!field->metric || (counter || age || until) != (f < fields->count))
            continue;
        head(out, field->metric,
             age || until ? "gauge"
             : counter    ? "counter"
                          : "histogram",
             field->help);
        for (unsigned i = 0; i < sum->path_count; i++) {
            const void *at = stats_at(field, &sum->paths[i]);
            if (age)
                fprintf(out, PREFIX "%s{%s} %.3f\n", field->metric, labels[i],
                        (double)stats_age(set->snapshot, *(const uint64_t *)at) / 1e9);
            else if (counter)
                sample(out, field->metric, labels[i], *(const uint64_t *)at);
            else if (until)
                sample(out, field->metric, labels[i], *(const uint64_t *)at / 1000000000);
            else
                histogram(out, field->metric, labels[i], at);
        }
    }
    for (unsigned i = 0; i < sum->path_count; i++)
        free(labels[i]);
}

static void add_session(struct directnfs_session_stats *sums, unsigned *count,
                        const struct directnfs_session_stats *one)
{
    unsigned i = 0;
    if (one->slot != DIRECTNFS_SLOT_USED)
        return;
    while (i < *count && strncmp(sums[i].name, one->name, sizeof(one->name)) != 0)
        i++;
    if (i == DIRECTNFS_SESSIONS)
        return;
    if (i == *count)
        sums[(*count)++] = *one;
    else {
        sums[i].slots += one->slots;
        sums[i].used += one->used;
        sums[i].lost += one->lost;
    }
}

/* Prints sessions of running processes, summed for each server. */
static void print_sessions(const struct stat_set *set, FILE *out)
{
    const struct stats_table *table = &stats_tables[STATS_SESSIONS];
    struct directnfs_session_stats sums[DIRECTNFS_SESSIONS];
    unsigned count = 0;
    for (size_t i = 0; i < set->count; i++)
        for (uint32_t k = 0; k < *stats_count(set->processes[i], table); k++)
            add_session(sums, &count, &set->processes[i]->sessions[k]);
    for (size_t f = 0; f < table->fields.count; f++) {
        const struct stats_field *field = &table->fields.list[f];
        if (!field->metric)
            continue;
        head(out, field->metric, "gauge", field->help);
        for (unsigned i = 0; i < count; i++) {
            fprintf(out, PREFIX "%s", field->metric);
            label(out, "{", "server", sums[i].name, sizeof(sums[i].name));
            fprintf(out, "} %u\n", *(const uint32_t *)stats_at(field, &sums[i]));
        }
    }
}

/* Open connections of one server that are protected alike. */
struct connections {
    const char *server;
    uint32_t security;
    unsigned count;
};

static void add_connection(struct connections **list, size_t *count, const char *server,
                           uint32_t security)
{
    for (size_t i = 0; i < *count; i++) {
        struct connections *one = &(*list)[i];
        if (one->security == security && strcmp(one->server, server) == 0) {
            one->count++;
            return;
        }
    }
    *list = cmd_need(reallocarray(*list, *count + 1, sizeof(**list)));
    (*list)[(*count)++] = (struct connections){server, security, 1};
}

/* Prints how open connections of running processes are protected. */
static void print_security(const struct stat_set *set, FILE *out)
{
    struct connections *list = NULL;
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct directnfs_stats *stats = set->processes[i];
        for (unsigned k = 0; k < stats->channel_count; k++) {
            const struct directnfs_channel_stats *channel = &stats->channels[k];
            const struct directnfs_server_stats *server = stat_server_of(stats, channel->server);
            if (channel->slot == DIRECTNFS_SLOT_USED && channel->state == DIRECTNFS_CHANNEL_UP &&
                server && channel->security)
                add_connection(&list, &count, server->name, channel->security);
        }
    }
    head(out, "server_connections", "gauge",
         "Open connections, by server and how their calls are protected.");
    for (size_t i = 0; i < count; i++) {
        char text[STATS_SECURITY_BYTES];
        label(out, PREFIX "server_connections{", "server", list[i].server, DIRECTNFS_NAME_BYTES);
        label(out, ",", "security", stats_security_text(list[i].security, text), sizeof(text));
        fprintf(out, "} %u\n", list[i].count);
    }
    free(list);
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
    single(out, "processes", "gauge", "Processes that use directnfs now.", set->count);
    single(out, "ended_processes_total", "counter", "Processes that used directnfs and have ended.",
           set->sum->processes);
    single(out, "connections", "gauge", "Connections to servers.", connections);
    single(out, "outstanding_calls", "gauge", "Calls in flight.", outstanding);
    head(out, "open_files", "gauge", "Files of mounts that are open, by who serves them.");
    sample(out, "open_files", "by=\"directnfs\"", open[0]);
    sample(out, "open_files", "by=\"kernel\"", open[1]);
    single(out, "uncommitted_bytes", "gauge", "Bytes written and kept until they are committed.",
           set->snapshot->uncommitted);
    single(out, "unsent_bytes", "gauge", "Of these, bytes that are not sent yet.",
           set->snapshot->unsent);
    single(out, "losses_total", "counter", "Times that data of a file was lost; its fsync said so.",
           set->snapshot->losses);
}

/* Prints what processes did not live to send. */
static void print_left(const struct stat_set *set, FILE *out)
{
    const struct stats_snapshot *snapshot = set->snapshot;
    unsigned long long alive = 0, lacking = 0, unsent = 0, nobodys = 0, strays = 0, bytes = 0;
    for (unsigned i = 0; i < snapshot->agent_count; i++) {
        alive += snapshot->agents[i].state == STATS_AGENT_ALIVE;
        lacking += snapshot->agents[i].lack[0] != '\0';
        unsent += snapshot->agents[i].unsent;
        nobodys += snapshot->agents[i].strays;
    }
    for (unsigned i = 0; i < snapshot->stray_count; i++) {
        const struct stats_stray *stray = &snapshot->strays[i];
        if (set->server && strcmp(stray->server, set->server) != 0)
            continue;
        strays++;
        bytes += stray->bytes;
    }
    single(out, "agents", "gauge", "Agents that live; each user has one at most.", alive);
    single(out, "agents_lacking", "gauge",
           "Users whose processes need an agent that cannot be had.", lacking);
    single(out, "agent_unsent_bytes", "gauge", "Bytes that dead processes left to agents.", unsent);
    single(out, "nobodys_unsent_bytes", "gauge",
           "Bytes that dead processes left to nobody, to be proven before they are sent.", nobodys);
    single(out, "strays", "gauge", "Files of what was set aside and waits for a decision.", strays);
    single(out, "stray_bytes", "gauge", "Bytes in them.", bytes);
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

/* A counter of each operation. A time is in nanoseconds. */
static const struct mount_metric {
    const char *name, *help;
    size_t offset;
    bool time;
} mount_metrics[] = {
#define MOUNT_METRIC(metric, member, is_time, sentence)                                           \
    {                                                                                             \
        "mount_" metric "_total", (sentence), offsetof(struct directnfs_operation_stats, member), \
            is_time                                                                               \
    }
    MOUNT_METRIC("calls", calls, false, "Calls answered, by user, mount and operation."),
    MOUNT_METRIC("errors", errors, false, "Calls answered with an error, or unusably."),
    MOUNT_METRIC("resent", resent, false, "Calls sent again."),
    MOUNT_METRIC("bytes", bytes, false, "Bytes that reads received and writes sent."),
    MOUNT_METRIC("rtt_seconds", rtt_ns, true, "Time from sending calls to their answers."),
    MOUNT_METRIC("queue_seconds", queue_ns, true, "Time that calls waited to be sent."),
};

static void mount_sample(FILE *out, const struct mount_metric *metric, const char *labels,
                         const struct directnfs_mount_stats *sum)
{
    static const char *const words[DIRECTNFS_OPERATIONS] = {"read", "write", "other"};
    for (unsigned i = 0; i < DIRECTNFS_OPERATIONS; i++) {
        uint64_t value = *(const uint64_t *)((uintptr_t)&sum->operations[i] + metric->offset);
        fprintf(out, PREFIX "%s{%s,operation=\"%s\"} ", metric->name, labels, words[i]);
        if (metric->time)
            fprintf(out, "%.9f\n", (double)value / 1e9);
        else
            fprintf(out, "%llu\n", (unsigned long long)value);
    }
}

static void print_mount_costs(const struct stat_set *set, FILE *out)
{
    size_t count = set->mounts.count;
    char **labels = cmd_need(calloc(count + 1, sizeof(*labels)));
    head(out, "mount_processes", "gauge", "Running processes that use a mount.");
    for (size_t m = 0; m < count; m++) {
        labels[m] = mount_labels(&set->mounts.list[m]);
        sample(out, "mount_processes", labels[m], set->mounts.list[m].processes);
    }
    for (size_t i = 0; i < sizeof(mount_metrics) / sizeof(mount_metrics[0]); i++) {
        head(out, mount_metrics[i].name, "counter", mount_metrics[i].help);
        for (size_t m = 0; m < count; m++)
            mount_sample(out, &mount_metrics[i], labels[m], &set->mounts.list[m].sum);
    }
    for (size_t m = 0; m < count; m++)
        free(labels[m]);
    free(labels);
}

void stat_prometheus_print(const struct stat_set *set, FILE *out)
{
    print_now(set, out);
    print_security(set, out);
    print_left(set, out);
    print_mounts(set, out);
    print_mount_costs(set, out);
    print_sessions(set, out);
    print_calls(set, out);
    print_totals(set, out);
    print_paths(set, out);
}

void stat_prometheus_gauge(FILE *out, const char *name, const char *help, double value)
{
    head(out, name, "gauge", help);
    fprintf(out, PREFIX "%s %g\n", name, value);
}
