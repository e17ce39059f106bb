/*
 * Sums and differences of statistics.
 */
#include <stddef.h>
#include <string.h>

#include "host/stats_read.h"
#include "host/stats_segment.h"

void host_stats_add_latency(struct directnfs_latency *sum, const struct directnfs_latency *one)
{
    uint64_t max = host_stats_get(&one->max_ns);
    sum->calls += host_stats_get(&one->calls);
    sum->total_ns += host_stats_get(&one->total_ns);
    sum->max_ns = max > sum->max_ns ? max : sum->max_ns;
    for (int i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
        sum->histogram[i] += host_stats_get(&one->histogram[i]);
}

void host_stats_add_counters(struct directnfs_counters *sum, const struct directnfs_counters *one)
{
    for (int i = 0; i < DIRECTNFS_PROCEDURES; i++) {
        sum->procedures[i].errors += host_stats_get(&one->procedures[i].errors);
        host_stats_add_latency(&sum->procedures[i].latency, &one->procedures[i].latency);
    }
    for (size_t i = sizeof(sum->procedures); i < sizeof(*sum); i += sizeof(uint64_t))
        *(uint64_t *)((uint8_t *)sum + i) +=
            host_stats_get((const uint64_t *)((const uint8_t *)one + i));
}

static bool same_path(const struct directnfs_path_stats *a, const struct directnfs_path_stats *b)
{
    return strncmp(a->name, b->name, sizeof(a->name)) == 0 &&
           strncmp(a->path, b->path, sizeof(a->path)) == 0 &&
           strncmp(a->local, b->local, sizeof(a->local)) == 0;
}

static struct directnfs_path_stats *find_path(struct directnfs_stats *stats,
                                              const struct directnfs_path_stats *wanted)
{
    for (unsigned i = 0; i < stats->path_count; i++) {
        if (same_path(&stats->paths[i], wanted))
            return &stats->paths[i];
    }
    return NULL;
}

void host_stats_add_paths(struct directnfs_stats *sum, const struct directnfs_stats *stats)
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
            to->downs += host_stats_get(&from->downs);
            to->reissued += host_stats_get(&from->reissued);
            host_stats_add_latency(&to->latency, &from->latency);
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

static void subtract_counters(struct directnfs_counters *now,
                              const struct directnfs_counters *before)
{
    for (int i = 0; i < DIRECTNFS_PROCEDURES; i++) {
        subtract(&now->procedures[i].errors, before->procedures[i].errors);
        subtract_latency(&now->procedures[i].latency, &before->procedures[i].latency);
    }
    for (size_t i = sizeof(now->procedures); i < sizeof(*now); i += sizeof(uint64_t))
        subtract((uint64_t *)((uint8_t *)now + i),
                 *(const uint64_t *)((const uint8_t *)before + i));
}

static void subtract_channel(struct directnfs_channel_stats *now,
                             const struct directnfs_channel_stats *before)
{
    subtract(&now->sends, before->sends);
    subtract(&now->recvs, before->recvs);
    subtract(&now->pings, before->pings);
    subtract(&now->reconnects, before->reconnects);
    subtract(&now->sent_bytes, before->sent_bytes);
    subtract(&now->received_bytes, before->received_bytes);
    subtract(&now->reissued, before->reissued);
}

/* Of the same file in the same slot; another one counted from zero. */
static void subtract_file(struct directnfs_file_stats *now,
                          const struct directnfs_file_stats *before)
{
    if (now->name_hash != before->name_hash || now->server != before->server)
        return;
    subtract(&now->reads, before->reads);
    subtract(&now->writes, before->writes);
    subtract(&now->read_bytes, before->read_bytes);
    subtract(&now->write_bytes, before->write_bytes);
}

void host_stats_subtract(struct directnfs_stats *now, const struct directnfs_stats *before)
{
    subtract(&now->processes, before->processes);
    subtract_counters(&now->counters, &before->counters);
    for (unsigned i = 0; i < before->path_count; i++) {
        struct directnfs_path_stats *path = find_path(now, &before->paths[i]);
        if (!path)
            continue;
        subtract(&path->downs, before->paths[i].downs);
        subtract(&path->reissued, before->paths[i].reissued);
        subtract_latency(&path->latency, &before->paths[i].latency);
    }
    for (unsigned i = 0; i < now->channel_count; i++) {
        for (unsigned k = 0; k < before->channel_count; k++) {
            if (now->channels[i].id == before->channels[k].id)
                subtract_channel(&now->channels[i], &before->channels[k]);
        }
    }
    for (unsigned i = 0; i < now->file_count && i < before->file_count; i++)
        subtract_file(&now->files[i], &before->files[i]);
}
