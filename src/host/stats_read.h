/*
 * Statistics as a reader sees them: checked copies, so that neither a writer nor a damaged file can
 * hurt. For the command; may allocate.
 */
#ifndef HOST_STATS_READ_H
#define HOST_STATS_READ_H

#include <stdbool.h>

#include "directnfs/stats.h"

/* A file that could not be used, and why. */
struct host_stats_problem {
    char path[512];
    char reason[128];
};

struct host_stats_list {
    unsigned count;
    struct directnfs_stats **processes; /* that are alive, by pid */
    unsigned problem_count;
    struct host_stats_problem *problems;
};

/*
 * Copies the segments of all processes that are alive, after adding up those that died. In the
 * copies every count is within its table, every string terminated and printable, every enum known.
 * No run directory is an empty list. 0 or -errno; host_stats_list_free() in any case.
 */
int host_stats_list_read(struct host_stats_list *list);
void host_stats_list_free(struct host_stats_list *list);

/*
 * Copies what ended processes left: their sum, their number, and the tables of the last one that
 * had files. 0; -ENOENT: none ended yet; -EBADMSG: the file is unusable.
 */
int host_stats_read_ended(struct directnfs_stats *stats);

/* Latencies in microseconds. Percentiles are interpolated in a bucket, so within a factor of two.
 */
struct host_latency {
    double mean, p50, p90, p99, max;
};
void host_stats_latency(const struct directnfs_latency *counted, struct host_latency *latency);

/* "NFS_NULL" ... "NFS_COMMIT", "NFS_MOUNT"; NULL beyond. */
const char *host_stats_procedure_name(unsigned procedure);

#endif
