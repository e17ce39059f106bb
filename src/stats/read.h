/*
 * Statistics as a reader sees them: checked copies, so that neither a writer nor a damaged file
 * does harm. For the command; these functions may allocate.
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

/* A file with data that was written and is kept until it is committed; for all processes
 * together. */
struct stats_uncommitted {
    uint64_t device, inode;
    uint64_t bytes;
    uint64_t unsent; /* those of them that are not sent yet */
};

/* The agent of a run directory, as the registry there tells it. */
enum stats_agent_state {
    STATS_AGENT_NONE, /* there is none now, and no process needs one */
    STATS_AGENT_ALIVE,
    STATS_AGENT_LACKING, /* there is none, and a process needs one: see `lack` */
};
struct stats_agent {
    uint32_t uid; /* the owner of its run directory */
    enum stats_agent_state state;
    uint32_t pid;      /* of the agent, or of the last one */
    uint64_t since_ns; /* CLOCK_REALTIME, when it was ready */
    uint32_t watched;  /* processes that it watches */
    uint32_t servers;  /* that it is in contact with */
    uint64_t unsent;   /* unsent bytes that dead processes left to it, in all files */
    uint64_t strays;   /* unsent bytes that they left to no agent: to be proven, or set aside */
    char lack[120];    /* why a process cannot leave writes behind, in words; empty: none says so */
};

/* Data that was set aside in a run directory: see run/strays.h. */
struct stats_stray {
    uint32_t uid;
    char file[80]; /* its name in the run directory */
    bool whole;    /* else the file is unfinished or damaged, and what follows is not known */
    char server[DIRECTNFS_NAME_BYTES], mount[DIRECTNFS_NAME_BYTES];
    char path[2 * DIRECTNFS_NAME_BYTES]; /* its end, if it is longer */
    uint64_t device, inode, bytes, since_ns;
};

/*
 * The statistics of one moment. In these copies every count is within its table, every string is
 * terminated and printable, and every enum is known. No process is counted twice or left out: the
 * counts of a process that ends are either among `processes` or in `ended`.
 */
struct stats_snapshot {
    uint64_t taken_ns; /* CLOCK_REALTIME */
    double clock;      /* CLOCK_MONOTONIC, in seconds */
    double seconds;    /* the time that the counters cover; 0: since each process started */
    unsigned count;
    struct directnfs_stats **processes; /* those that run, by pid */
    unsigned ended_count;
    struct directnfs_stats **ended; /* for each user, the sum of ended processes: see stats.h */
    uint64_t uncommitted;           /* bytes in all files */
    unsigned uncommitted_count;
    struct stats_uncommitted *uncommitted_files;
    uint64_t unsent; /* part of `uncommitted` that is not sent */
    uint64_t losses; /* times that data was lost, since each registry was made */
    unsigned agent_count;
    struct stats_agent *agents; /* one for each run directory with a registry */
    unsigned stray_count;
    struct stats_stray *strays; /* of all run directories; in each by file, older ones first */
    unsigned problem_count, problems_left_out; /* the first STATS_PROBLEMS are kept */
    struct stats_problem problems[STATS_PROBLEMS];
};

/* What reading another user's run directory may cost, whatever is in it. */
struct stats_bounds {
    uint64_t cpu_ns; /* for adding up the processes that ended, and again for reading */
    int lock_ms;     /* to wait for the lock there */
    size_t bytes;    /* of memory, for statistics */
};

/*
 * Adds the statistics of the run directory. For several users it is called once for each, one after
 * the other. The snapshot is zero-initialised before the first call. This writes to the directory,
 * as it adds up what dead processes left. A process waits for a reader only when it ends, and for a
 * limited time. Without a run directory it adds nothing. What `bounds` (NULL: no limit) leaves out
 * is told as a problem. 0 or -errno; call stats_snapshot_free() in any case.
 */
int stats_snapshot_read(struct stats_snapshot *snapshot, const struct stats_bounds *bounds);
void stats_snapshot_free(struct stats_snapshot *snapshot);

/* 0 or -ENOMEM; call stats_snapshot_free() in any case. Problems are not copied. */
int stats_snapshot_copy(struct stats_snapshot *to, const struct stats_snapshot *from);

/*
 * Leaves in `now` what was counted since `before`, and in `seconds` how long that is. Gauges
 * (states, sizes, calls outstanding) stay as they are. For a process that ended in between, the
 * difference is in `ended`.
 */
void stats_snapshot_subtract(struct stats_snapshot *now, const struct stats_snapshot *before);

/*
 * The sum over all processes of a snapshot, with the ended ones: counters, mounts, paths, and in
 * `processes` how many ended. The other tables are empty. The memory is calloc'd; NULL: there is
 * none.
 */
struct directnfs_stats *stats_snapshot_sum(const struct stats_snapshot *snapshot);

/* Adds `one` to a sum; of max_ns the larger one is kept. For snapshots and for processes that
 * end. */
void stats_add_latency(struct directnfs_latency *sum, const struct directnfs_latency *one);
void stats_add_counters(struct directnfs_counters *sum, const struct directnfs_counters *one);
/* The errors of all procedures. */
uint64_t stats_errors(const struct directnfs_counters *counters);
void stats_add_mount(struct directnfs_mount_stats *sum, const struct directnfs_mount_stats *one);
/* Adds each mount to the one with its names. Without room it counts mounts_not_shown. */
void stats_add_mounts(struct directnfs_stats *sum, const struct directnfs_stats *stats);
/* Adds what is counted of a file. */
void stats_add_file(struct directnfs_file_stats *sum, const struct directnfs_file_stats *one);
/* What one process sees of a path. */
struct stats_sight {
    uint32_t state;    /* enum directnfs_channel_state */
    uint64_t since_ns; /* CLOCK_REALTIME */
    const char *reason;
};
/*
 * Is `other` to be shown in the place of `shown`, when several processes see a path? The worst
 * state is shown; the best is that of a process that had no need of the path. A state lasts since
 * the first process saw it. But a path that was away is up since the last of the processes that saw
 * it away found it again. Processes that began later do not count for that.
 */
bool stats_sight_is_better(const struct stats_sight *shown, const struct stats_sight *other);
/* Adds each path to the one with its names; the latest state wins. Without room it counts
 * paths_not_shown. */
void stats_add_paths(struct directnfs_stats *sum, const struct directnfs_stats *stats);
/* Leaves in `now` what was counted since `before`. */
void stats_subtract(struct directnfs_stats *now, const struct directnfs_stats *before);

/*
 * Could a process that starts now use the registry of the run directory?
 * 0: yes.
 * -EBUSY: processes of another version or container use it.
 * -EUCLEAN: it holds data of another version.
 * -EPERM: it belongs to another user.
 * Another -errno: it cannot be read.
 */
int stats_registry_usable(int run);

/* A registry that this version cannot use: the one in its place, or one that was set aside.
 * Processes use it, or it may hold data that no server has. */
struct stats_left {
    char name[256];
    char text[192]; /* completes the sentence "it ..." */
    bool in_place, used, empty;
};
/* Calls `visit` for each of them in the run directory, until it returns another result than 0.
 * Returns that result. -ETIME: the CPU time of `bounds` (NULL: no limit) is used up. */
typedef int stats_left_visitor(void *argument, const struct stats_left *left);
int stats_left_visit(int run, const struct stats_bounds *bounds, stats_left_visitor *visit,
                     void *argument);
/* Removes it with what it holds. 0; -EBUSY: a process uses it; or another -errno. */
int stats_left_remove(int run, const struct stats_left *left);

/* Adds what is uncommitted, and the agent, from the registry in the run directory `run`, without a
 * lock. 0, also when there is none; -EBADMSG: it cannot be used; or another -errno. */
int stats_read_uncommitted(int run, struct stats_snapshot *snapshot);

/* Adds the data that was set aside in the run directory `run`. 0 or -errno. -ETIME, -E2BIG: it is
 * only a part, because of `bounds` (NULL: no limit). */
int stats_read_strays(int run, const struct stats_bounds *bounds, struct stats_snapshot *snapshot);

/* Makes the used parts of a copy of another user's memory harmless, as struct stats_snapshot
 * promises. Its counts are within their tables already. */
void stats_clean(struct directnfs_stats *stats);

/* How long something lasts at the moment of the snapshot, in nanoseconds. It began at `since_ns`
 * (CLOCK_MONOTONIC; 0: it does not last). */
uint64_t stats_age(const struct stats_snapshot *snapshot, uint64_t since_ns);
/* Seconds until this time of CLOCK_REALTIME, in nanoseconds. 0: there is none, or it is over. */
uint64_t stats_seconds_until(uint64_t end_ns);
/* The earlier one of two times as for stats_age(). */
static inline uint64_t stats_older(uint64_t a_ns, uint64_t b_ns)
{
    return b_ns == 0 || (a_ns != 0 && a_ns < b_ns) ? a_ns : b_ns;
}

/* Latencies in microseconds. Percentiles are interpolated within a bucket, so they are right within
 * a factor of two. */
struct stats_latency {
    double mean, p50, p90, p99, max;
};
void stats_latency(const struct directnfs_latency *counted, struct stats_latency *latency);

#endif
