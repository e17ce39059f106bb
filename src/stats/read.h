/*
 * Statistics as a reader sees them: checked copies, so that neither a writer nor a damaged file can
 * hurt. For the command; may allocate.
 */
#ifndef STATS_READ_H
#define STATS_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/catalogue.h"

/* A file that could not be used, and why. */
enum { STATS_PROBLEMS = 20 };
struct stats_problem {
    char path[512];
    char reason[256];
};

/* A file with data that was written and is kept until it is committed; the data of all processes.
 */
struct stats_uncommitted {
    uint64_t device, inode;
    uint64_t bytes;
    uint64_t unsent; /* of these: not sent yet */
};

/* The agent of a run directory, as the registry there tells it. */
enum stats_agent_state {
    STATS_AGENT_NONE, /* there is none now: nobody needs one */
    STATS_AGENT_ALIVE,
    STATS_AGENT_LACKING, /* there is none, and somebody needs one: see `lack` */
};
struct stats_agent {
    uint32_t uid; /* whose run directory it is */
    enum stats_agent_state state;
    uint32_t pid;      /* ALIVE, and the others too: */
    uint64_t since_ns; /* CLOCK_REALTIME, when it was ready */
    uint32_t watched;  /* processes that it watches */
    uint64_t unsent;   /* bytes unsent of files of which dead processes left some to it */
    uint64_t strays;   /* the same, but left to nobody: to be proven, or set aside */
    char lack[120];    /* why a process cannot leave writes behind, in words; empty: none says so */
};

/* What was set aside in a run directory: see run/strays.h. */
struct stats_stray {
    uint32_t uid;
    char file[80]; /* its name in the run directory */
    bool whole;    /* else it was not finished, or is damaged, and what follows is not known */
    char server[DIRECTNFS_NAME_BYTES], mount[DIRECTNFS_NAME_BYTES];
    char path[2 * DIRECTNFS_NAME_BYTES]; /* its end, where it is longer */
    uint64_t device, inode, bytes, since_ns;
};

/*
 * The statistics of one moment. In these copies every count is within its table, every string
 * terminated and printable, every enum known. No process is counted twice or left out: what a
 * process that ends counted is either among `processes` or in `ended`.
 */
struct stats_snapshot {
    uint64_t taken_ns; /* CLOCK_REALTIME */
    double clock;      /* CLOCK_MONOTONIC, in seconds */
    double seconds;    /* that the counters are of; 0: since each process started */
    unsigned count;
    struct directnfs_stats **processes; /* that run, by pid */
    unsigned ended_count;
    struct directnfs_stats **ended; /* of each user: the sum of those that ended, see stats.h */
    uint64_t uncommitted;           /* bytes in all files */
    unsigned uncommitted_count;
    struct stats_uncommitted *uncommitted_files;
    uint64_t unsent; /* of the uncommitted bytes */
    uint64_t losses; /* times that data was lost, since the registries were made */
    unsigned agent_count;
    struct stats_agent *agents; /* of each run directory with a registry */
    unsigned stray_count;
    struct stats_stray *strays; /* of each run directory, by file, older ones first */
    unsigned problem_count, problems_left_out; /* the first STATS_PROBLEMS are kept */
    struct stats_problem problems[STATS_PROBLEMS];
};

/* What a run directory of somebody else may cost who reads it, whatever is in it. */
struct stats_bounds {
    uint64_t cpu_ns; /* for adding up what ended, and again for reading */
    int lock_ms;     /* to wait for the lock there */
    size_t bytes;    /* of memory, for statistics */
};

/*
 * Adds what is in the run directory; of several users, one after the other. The snapshot is
 * zero-initialised before the first. What dead processes left is added up on the way, so this
 * writes there. A process waits for a reader only when it ends, and not for ever. No run directory
 * adds nothing. Who is left out for `bounds` (NULL: nobody) is a problem. 0 or -errno;
 * stats_snapshot_free() in any case.
 */
int stats_snapshot_read(struct stats_snapshot *snapshot, const struct stats_bounds *bounds);
void stats_snapshot_free(struct stats_snapshot *snapshot);

/* 0 or -ENOMEM; stats_snapshot_free() in any case. Problems are not copied. */
int stats_snapshot_copy(struct stats_snapshot *to, const struct stats_snapshot *from);

/*
 * Leaves in `now` what was counted since `before`, and in `seconds` how long that is. Gauges
 * (states, sizes, calls outstanding) stay as they are. What processes that ended in between counted
 * is among `ended`.
 */
void stats_snapshot_subtract(struct stats_snapshot *now, const struct stats_snapshot *before);

/*
 * The sum over all processes of a snapshot, ended ones included: counters, mounts and paths, and in
 * `processes` how many ended. The other tables are empty. Calloc'd; NULL without memory.
 */
struct directnfs_stats *stats_snapshot_sum(const struct stats_snapshot *snapshot);

/* Adds to a sum; max_ns is compared. For snapshots and for what processes leave at their end. */
void stats_add_latency(struct directnfs_latency *sum, const struct directnfs_latency *one);
void stats_add_counters(struct directnfs_counters *sum, const struct directnfs_counters *one);
/* Of all procedures. */
uint64_t stats_errors(const struct directnfs_counters *counters);
void stats_add_mount(struct directnfs_mount_stats *sum, const struct directnfs_mount_stats *one);
/* Adds up the same mounts. Without room counts mounts_not_shown. */
void stats_add_mounts(struct directnfs_stats *sum, const struct directnfs_stats *stats);
/* Adds what is counted of a file. */
void stats_add_file(struct directnfs_file_stats *sum, const struct directnfs_file_stats *one);
/* What a process sees of a path. */
struct stats_sight {
    uint32_t state;    /* enum directnfs_channel_state */
    uint64_t since_ns; /* CLOCK_REALTIME */
    const char *reason;
};
/*
 * Of several processes the worst that one sees is shown; best is what a process sees that had no
 * need of the path. It lasts since the first of them sees it; but a path that was away and is up
 * again is up since the last of those that saw it away found it again, whatever processes that
 * began later know. Is `other` to be shown in the place of `shown`?
 */
bool stats_sight_is_better(const struct stats_sight *shown, const struct stats_sight *other);
/* Adds up the same paths; the state is the latest. Without room counts paths_not_shown. */
void stats_add_paths(struct directnfs_stats *sum, const struct directnfs_stats *stats);
/* Leaves in `now` what was counted since `before`. */
void stats_subtract(struct directnfs_stats *now, const struct directnfs_stats *before);

/* Could a process that starts now use the registry of the run directory? 0, -EBUSY (others use one
 * of another version or container), -EUCLEAN (it holds data of another version), -EPERM (of another
 * user) or another -errno. */
int stats_registry_usable(int run);

/*
 * A registry that this version cannot use, and that processes use, or that may hold data which no
 * server has: the one in its place, or one that was set aside.
 */
struct stats_left {
    char name[256];
    char text[192]; /* completes the sentence "it ..." */
    bool in_place, used, empty;
};
/* Calls `visit` with each in the run directory, until it returns another result than 0, which is
 * returned. -ETIME: the CPU time of `bounds` (NULL: no limit) is used up. */
typedef int stats_left_visitor(void *argument, const struct stats_left *left);
int stats_left_visit(int run, const struct stats_bounds *bounds, stats_left_visitor *visit,
                     void *argument);
/* Removes it with what it holds. 0, -EBUSY: a process uses it, or another -errno. */
int stats_left_remove(int run, const struct stats_left *left);

/* Adds what is uncommitted, and the agent, out of the registry in the run directory `run`, without
 * a lock. 0, also when there is none; -EBADMSG when it cannot be used. */
int stats_read_uncommitted(int run, struct stats_snapshot *snapshot);

/* Adds what was set aside in the run directory `run`. 0 or -errno; within `bounds` (NULL: no limit)
 * it may be a part: -ETIME, -E2BIG. */
int stats_read_strays(int run, const struct stats_bounds *bounds, struct stats_snapshot *snapshot);

/* Makes the used parts of a copy of somebody else's memory harmless, as promised above; its counts
 * are within their tables. */
void stats_clean(struct directnfs_stats *stats);

/* How long something lasts since then (CLOCK_MONOTONIC; 0: it does not), at the moment of the
 * snapshot, in nanoseconds. */
uint64_t stats_age(const struct stats_snapshot *snapshot, uint64_t since_ns);
/* The earlier one of two such times. */
static inline uint64_t stats_older(uint64_t a_ns, uint64_t b_ns)
{
    return b_ns == 0 || (a_ns != 0 && a_ns < b_ns) ? a_ns : b_ns;
}

/* Latencies in microseconds. Percentiles are interpolated in a bucket, so within a factor of two.
 */
struct stats_latency {
    double mean, p50, p90, p99, max;
};
void stats_latency(const struct directnfs_latency *counted, struct stats_latency *latency);

#endif
