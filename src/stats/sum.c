/*
 * Sums and differences of statistics.
 */
#include <stddef.h>
#include <string.h>

#include "stats/read.h"
#include "stats/segment.h"

void stats_add_latency(struct directnfs_latency *sum, const struct directnfs_latency *one)
{
    uint64_t max = stats_get(&one->max_ns);
    sum->calls += stats_get(&one->calls);
    sum->total_ns += stats_get(&one->total_ns);
    sum->max_ns = max > sum->max_ns ? max : sum->max_ns;
    for (int i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
        sum->histogram[i] += stats_get(&one->histogram[i]);
}

void stats_add_record(const struct stats_fields *fields, void *sum, const void *one)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct stats_field *field = &fields->list[i];
        if (field->kind == STATS_COUNT)
            *(uint64_t *)stats_at(field, sum) += stats_get((uint64_t *)stats_at(field, one));
        else if (field->kind == STATS_LATENCY)
            stats_add_latency(stats_at(field, sum), stats_at(field, one));
    }
}

/* Counters that only a newer version knows take the place of spare words. */
#define FOR_WORDS(i)                                                                    \
    for (size_t i = offsetof(struct directnfs_counters, read_bytes) / sizeof(uint64_t); \
         i < sizeof(struct directnfs_counters) / sizeof(uint64_t); i++)

void stats_add_counters(struct directnfs_counters *sum, const struct directnfs_counters *one)
{
    for (int i = 0; i < DIRECTNFS_PROCEDURES; i++)
        stats_add_record(&stats_procedure_fields, &sum->procedures[i], &one->procedures[i]);
    FOR_WORDS(i)
    ((uint64_t *)sum)[i] += stats_get(&((const uint64_t *)one)[i]);
}

uint64_t stats_errors(const struct directnfs_counters *counters)
{
    uint64_t errors = 0;
    for (int i = 0; i < DIRECTNFS_PROCEDURES; i++)
        errors += counters->procedures[i].errors;
    return errors;
}

bool stats_same_server(const struct directnfs_server_stats *a,
                       const struct directnfs_server_stats *b)
{
    return strncmp(a->name, b->name, sizeof(a->name)) == 0 &&
           strncmp(a->directory, b->directory, sizeof(a->directory)) == 0 &&
           strncmp(a->mount, b->mount, sizeof(a->mount)) == 0;
}

bool stats_same_path(const struct directnfs_path_stats *a, const struct directnfs_path_stats *b)
{
    return strncmp(a->name, b->name, sizeof(a->name)) == 0 &&
           strncmp(a->path, b->path, sizeof(a->path)) == 0 &&
           strncmp(a->local, b->local, sizeof(a->local)) == 0;
}

static struct directnfs_path_stats *find_path(struct directnfs_stats *stats,
                                              const struct directnfs_path_stats *wanted)
{
    for (unsigned i = 0; i < stats->path_count; i++) {
        if (stats_same_path(&stats->paths[i], wanted))
            return &stats->paths[i];
    }
    return NULL;
}

void stats_add_paths(struct directnfs_stats *sum, const struct directnfs_stats *stats)
{
    for (unsigned i = 0; i < stats->path_count && i < DIRECTNFS_PATHS; i++) {
        const struct directnfs_path_stats *from = &stats->paths[i];
        struct directnfs_path_stats *to = find_path(sum, from);
        if (to) {
            if (from->since_ns >= to->since_ns) {
                to->state = from->state;
                to->since_ns = from->since_ns;
                memcpy(to->reason, from->reason, sizeof(to->reason));
            }
            stats_add_record(&stats_tables[STATS_PATHS].fields, to, from);
        } else if (sum->path_count < DIRECTNFS_PATHS) {
            to = &sum->paths[sum->path_count++];
            *to = *from;
            to->server = DIRECTNFS_SERVERS;
        } else {
            sum->counters.paths_not_shown++;
        }
    }
}

/* ---- differences ---- */

/* Of a counter that began again there is no difference to tell: it counts from zero. */
static void subtract(uint64_t *now, uint64_t before)
{
    *now -= *now < before ? 0 : before;
}

/* A maximum that did not grow is not of this interval: the highest bucket in use bounds it. */
static void subtract_latency(struct directnfs_latency *now, const struct directnfs_latency *before)
{
    unsigned highest = 0;
    subtract(&now->calls, before->calls);
    subtract(&now->total_ns, before->total_ns);
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
        subtract(&now->histogram[i], before->histogram[i]);
        if (now->histogram[i])
            highest = i;
    }
    uint64_t bound = now->calls ? UINT64_C(1000) << highest : 0;
    if (now->max_ns <= before->max_ns && now->max_ns > bound)
        now->max_ns = bound;
}

static void subtract_record(const struct stats_fields *fields, void *now, const void *before)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct stats_field *field = &fields->list[i];
        if (field->kind == STATS_COUNT)
            subtract(stats_at(field, now), *(uint64_t *)stats_at(field, before));
        else if (field->kind == STATS_LATENCY)
            subtract_latency(stats_at(field, now), stats_at(field, before));
    }
}

/* Of the same file in the same slot; another one counted from zero. */
static bool same_file(const struct directnfs_file_stats *a, const struct directnfs_file_stats *b)
{
    return a->name_hash == b->name_hash && a->server == b->server;
}

void stats_subtract(struct directnfs_stats *now, const struct directnfs_stats *before)
{
    subtract(&now->processes, before->processes);
    FOR_WORDS(i)
    subtract(&((uint64_t *)&now->counters)[i], ((const uint64_t *)&before->counters)[i]);
    for (int i = 0; i < DIRECTNFS_PROCEDURES; i++)
        subtract_record(&stats_procedure_fields, &now->counters.procedures[i],
                        &before->counters.procedures[i]);
    for (unsigned i = 0; i < before->path_count; i++) {
        struct directnfs_path_stats *path = find_path(now, &before->paths[i]);
        if (path)
            subtract_record(&stats_tables[STATS_PATHS].fields, path, &before->paths[i]);
    }
    for (unsigned i = 0; i < now->channel_count; i++) {
        for (unsigned k = 0; k < before->channel_count; k++) {
            if (now->channels[i].id == before->channels[k].id)
                subtract_record(&stats_tables[STATS_CHANNELS].fields, &now->channels[i],
                                &before->channels[k]);
        }
    }
    for (unsigned i = 0; i < now->file_count && i < before->file_count; i++) {
        if (same_file(&now->files[i], &before->files[i]))
            subtract_record(&stats_tables[STATS_FILES].fields, &now->files[i], &before->files[i]);
    }
}
