/*
 * Sums and differences of statistics.
 */
#include <stddef.h>
#include <string.h>

#include "stats/read.h"
#include "stats/segment.h"

/* Adds, or subtracts. A counter that is smaller than before began again from zero: it stays as it
 * is. */
static void combine(bool minus, uint64_t *to, uint64_t from)
{
    if (!minus)
        *to += from;
    else if (*to >= from)
        *to -= from;
}

static void combine_latency(bool minus, struct directnfs_latency *to,
                            const struct directnfs_latency *from)
{
    unsigned highest = 0;
    combine(minus, &to->calls, from->calls);
    combine(minus, &to->total_ns, from->total_ns);
    for (unsigned i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
        combine(minus, &to->histogram[i], from->histogram[i]);
        if (to->histogram[i])
            highest = i;
    }
    /* A maximum that did not grow is not from this interval: the highest bucket in use bounds
     * it. */
    uint64_t bound = to->calls ? UINT64_C(1000) << highest : 0;
    if (!minus)
        to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
    else if (to->max_ns <= from->max_ns && to->max_ns > bound)
        to->max_ns = bound;
}

static void combine_record(bool minus, const struct stats_fields *fields, void *to,
                           const void *from)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct stats_field *field = &fields->list[i];
        if (field->kind == STATS_COUNT || field->kind == STATS_WAITED)
            combine(minus, stats_at(field, to), *(const uint64_t *)stats_at(field, from));
        else if (field->kind == STATS_LATENCY)
            combine_latency(minus, stats_at(field, to), stats_at(field, from));
    }
}

static void combine_counters(bool minus, struct directnfs_counters *to,
                             const struct directnfs_counters *from)
{
    for (int i = 0; i < DIRECTNFS_PROCEDURES; i++)
        combine_record(minus, &stats_procedure_fields, &to->procedures[i], &from->procedures[i]);
    for (size_t i = offsetof(struct directnfs_counters, read_bytes) / sizeof(uint64_t);
         i < sizeof(*to) / sizeof(uint64_t); i++)
        combine(minus, &((uint64_t *)to)[i], ((const uint64_t *)from)[i]);
}

/* ---- sums ---- */

void stats_add_latency(struct directnfs_latency *sum, const struct directnfs_latency *one)
{
    combine_latency(false, sum, one);
}

void stats_add_counters(struct directnfs_counters *sum, const struct directnfs_counters *one)
{
    combine_counters(false, sum, one);
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

bool stats_same_mount(const struct directnfs_mount_stats *a, const struct directnfs_mount_stats *b)
{
    return strncmp(a->mount, b->mount, sizeof(a->mount)) == 0 &&
           strncmp(a->name, b->name, sizeof(a->name)) == 0 &&
           strncmp(a->directory, b->directory, sizeof(a->directory)) == 0;
}

static struct directnfs_mount_stats *find_mount(struct directnfs_stats *stats,
                                                const struct directnfs_mount_stats *wanted)
{
    for (unsigned i = 0; i < stats->mount_count && i < DIRECTNFS_MOUNTS; i++) {
        if (stats->mounts[i].slot == DIRECTNFS_SLOT_USED &&
            stats_same_mount(&stats->mounts[i], wanted))
            return &stats->mounts[i];
    }
    return NULL;
}

void stats_add_mount(struct directnfs_mount_stats *sum, const struct directnfs_mount_stats *one)
{
    combine_record(false, &stats_tables[STATS_MOUNTS].fields, sum, one);
}

void stats_add_file(struct directnfs_file_stats *sum, const struct directnfs_file_stats *one)
{
    combine_record(false, &stats_tables[STATS_FILES].fields, sum, one);
}

void stats_add_mounts(struct directnfs_stats *sum, const struct directnfs_stats *stats)
{
    for (unsigned i = 0; i < stats->mount_count && i < DIRECTNFS_MOUNTS; i++) {
        const struct directnfs_mount_stats *from = &stats->mounts[i];
        struct directnfs_mount_stats *to = find_mount(sum, from);
        if (from->slot != DIRECTNFS_SLOT_USED)
            continue;
        if (to)
            stats_add_mount(to, from);
        else if (sum->mount_count < DIRECTNFS_MOUNTS)
            sum->mounts[sum->mount_count++] = *from;
        else
            sum->counters.mounts_not_shown++;
    }
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

/* The rank of a state: the highest one that a process sees is shown. */
static unsigned badness(uint32_t state)
{
    static const unsigned order[DIRECTNFS_CHANNEL_STATES] = {[DIRECTNFS_CHANNEL_PROBING] = 0,
                                                             [DIRECTNFS_CHANNEL_UP] = 1,
                                                             [DIRECTNFS_CHANNEL_OFFLINE] = 2,
                                                             [DIRECTNFS_CHANNEL_SILENT] = 3,
                                                             [DIRECTNFS_CHANNEL_DOWN] = 4};
    return state < DIRECTNFS_CHANNEL_STATES ? order[state] : 0;
}

bool stats_sight_is_better(const struct stats_sight *shown, const struct stats_sight *other)
{
    unsigned a = badness(shown->state), b = badness(other->state);
    bool why = shown->reason[0] != '\0', other_why = other->reason[0] != '\0';
    if (a != b)
        return b > a;
    /* A process with the path up and without a reason never saw it away, and knows no better. */
    if (why != other_why && shown->state != DIRECTNFS_CHANNEL_SILENT)
        return other_why;
    return why && shown->state == DIRECTNFS_CHANNEL_UP ? other->since_ns > shown->since_ns
                                                       : other->since_ns < shown->since_ns;
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
            to->oldest_ns = stats_older(to->oldest_ns, from->oldest_ns);
            to->ticket_ends_ns = stats_older(to->ticket_ends_ns, from->ticket_ends_ns);
            combine_record(false, &stats_tables[STATS_PATHS].fields, to, from);
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

void stats_subtract(struct directnfs_stats *now, const struct directnfs_stats *before)
{
    combine(true, &now->processes, before->processes);
    combine_counters(true, &now->counters, &before->counters);
    for (unsigned i = 0; i < before->mount_count && i < DIRECTNFS_MOUNTS; i++) {
        struct directnfs_mount_stats *mount = find_mount(now, &before->mounts[i]);
        if (mount)
            combine_record(true, &stats_tables[STATS_MOUNTS].fields, mount, &before->mounts[i]);
    }
    for (unsigned i = 0; i < before->path_count; i++) {
        struct directnfs_path_stats *path = find_path(now, &before->paths[i]);
        if (path)
            combine_record(true, &stats_tables[STATS_PATHS].fields, path, &before->paths[i]);
    }
    for (unsigned i = 0; i < now->channel_count; i++) {
        for (unsigned k = 0; k < before->channel_count; k++) {
            if (now->channels[i].id == before->channels[k].id)
                combine_record(true, &stats_tables[STATS_CHANNELS].fields, &now->channels[i],
                               &before->channels[k]);
        }
    }
    for (unsigned i = 0; i < now->file_count && i < before->file_count; i++) {
        struct directnfs_file_stats *file = &now->files[i];
        const struct directnfs_file_stats *old = &before->files[i];
        /* Another file in this slot counted from zero. */
        if (file->name_hash == old->name_hash && file->server == old->server)
            combine_record(true, &stats_tables[STATS_FILES].fields, file, old);
    }
}
