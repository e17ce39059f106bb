/*
 * Statistics as a reader sees them: checked copies, so that neither a writer nor a damaged file can
 * hurt. For the command; may allocate.
 */
#ifndef HOST_STATS_READ_H
#define HOST_STATS_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "directnfs/stats.h"

/* A file that could not be used, and why. */
enum { HOST_STATS_PROBLEMS = 20 };
struct host_stats_problem {
    char path[512];
    char reason[160];
};

/* A file with data that was written and is kept until it is committed; the data of all processes.
 */
struct host_stats_uncommitted {
    uint64_t device, inode;
    uint64_t bytes;
};

/*
 * The statistics of one moment. In these copies every count is within its table, every string
 * terminated and printable, every enum known. No process is counted twice or left out: what a
 * process that ends counted is either among `processes` or in `ended`.
 */
struct host_stats_snapshot {
    uint64_t taken_ns; /* CLOCK_REALTIME */
    double clock;      /* CLOCK_MONOTONIC, in seconds */
    double seconds;    /* that the counters are of; 0: since each process started */
    unsigned count;
    struct directnfs_stats **processes; /* that run, by pid */
    unsigned ended_count;
    struct directnfs_stats **ended; /* of each user: the sum of those that ended, see stats.h */
    uint64_t uncommitted;           /* bytes in all files */
    unsigned uncommitted_count;
    struct host_stats_uncommitted *uncommitted_files;
    unsigned problem_count, problems_left_out; /* the first HOST_STATS_PROBLEMS are kept */
    struct host_stats_problem *problems;
};

/* What a run directory of somebody else may cost who reads it, whatever is in it. */
struct host_stats_bounds {
    uint64_t cpu_ns; /* for adding up what ended, and again for reading */
    int lock_ms;     /* to wait for the lock there */
    size_t bytes;    /* of memory, for statistics */
};

/*
 * Adds what is in the run directory; of several users, one after the other. The snapshot is
 * zero-initialised before the first. What dead processes left is added up on the way, so this
 * writes there. A process waits for a reader only when it ends, and not for ever. No run directory
 * adds nothing. Who is left out for `bounds` (NULL: nobody) is a problem. 0 or -errno;
 * host_stats_snapshot_free() in any case.
 */
int host_stats_snapshot_read(struct host_stats_snapshot *snapshot,
                             const struct host_stats_bounds *bounds);
void host_stats_snapshot_free(struct host_stats_snapshot *snapshot);

/* 0 or -ENOMEM; host_stats_snapshot_free() in any case. Problems are not copied. */
int host_stats_snapshot_copy(struct host_stats_snapshot *to,
                             const struct host_stats_snapshot *from);

/*
 * Leaves in `now` what was counted since `before`, and in `seconds` how long that is. Gauges
 * (states, sizes, calls outstanding) stay as they are. What processes that ended in between counted
 * is among `ended`.
 */
void host_stats_snapshot_subtract(struct host_stats_snapshot *now,
                                  const struct host_stats_snapshot *before);

/*
 * The sum over all processes of a snapshot, ended ones included: counters and paths, and in
 * `processes` how many ended. The other tables are empty. Calloc'd; NULL without memory.
 */
struct directnfs_stats *host_stats_snapshot_sum(const struct host_stats_snapshot *snapshot);

/* Adds to a sum; max_ns is compared. For snapshots and for what processes leave at their end. */
void host_stats_add_latency(struct directnfs_latency *sum, const struct directnfs_latency *one);
void host_stats_add_counters(struct directnfs_counters *sum, const struct directnfs_counters *one);
/* Adds up the same paths; the state is the latest. Without room counts paths_not_shown. */
void host_stats_add_paths(struct directnfs_stats *sum, const struct directnfs_stats *stats);
/* Leaves in `now` what was counted since `before`. */
void host_stats_subtract(struct directnfs_stats *now, const struct directnfs_stats *before);

/* Adds what is uncommitted, out of the registry in the run directory `run`, without a lock. 0, also
 * when there is none; -EBADMSG when it cannot be used. */
int host_stats_read_uncommitted(int run, struct host_stats_snapshot *snapshot);

/* Makes the used parts of a copy of somebody else's memory harmless, as promised above; its counts
 * are within their tables. */
void host_stats_clean(struct directnfs_stats *stats);

/* Latencies in microseconds. Percentiles are interpolated in a bucket, so within a factor of two.
 */
struct host_latency {
    double mean, p50, p90, p99, max;
};
void host_stats_latency(const struct directnfs_latency *counted, struct host_latency *latency);

/* "NFS_NULL" ... "NFS_COMMIT", "NFS_MOUNT"; NULL beyond. */
const char *host_stats_procedure_name(unsigned procedure);

#endif
