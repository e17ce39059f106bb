/* What the files of src/stats share about statistics segments. Functions return 0 or -errno. */
#ifndef STATS_SEGMENT_H
#define STATS_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "run/directory.h"
#include "run/identity.h"
#include "stats/catalogue.h"
#include "stats/count.h"
#include "stats/read.h"

/* Pages that hold a segment, in memory and in its file. */
#ifdef __x86_64__
enum { STATS_PAGE = 4096 };
#else
enum { STATS_PAGE = 65536 };
#endif
enum {
    STATS_BYTES = ((int)sizeof(struct directnfs_stats) + STATS_PAGE - 1) / STATS_PAGE * STATS_PAGE
};

/* The process has no call that waits: it ended, or it is the child of fork(). */
void stats_waits_for_nothing(struct directnfs_stats *stats);

/* The process has no session: it ended, or it is the child of fork(). */
void stats_sessions_end(struct directnfs_stats *stats);

/* Notes when this process counted last. */
void stats_touch(void);
/* Counts a call that took `ns`. True: it is entered. False: it is kept until this thread enters
 * several together. */
bool stats_alone(struct directnfs_latency *latency, uint64_t ns);

/* How many bytes the used slots of a table have: those that were ever used. */
static inline size_t stats_used(const struct directnfs_stats *stats,
                                const struct stats_table *table)
{
    return stats_get(stats_count(stats, table)) * table->slot;
}

/* Copies the header and the used parts of the tables. Other threads may count meanwhile. */
void stats_copy_used(struct directnfs_stats *to, const struct directnfs_stats *from);

/* The name of a process's segment in the run directory. */
enum { STATS_NAME = 48 };
void stats_segment_name(char name[STATS_NAME], const struct run_identity *process);
/* Reads pid and start time from such a name. False: it is another kind of name. */
bool stats_parse_name(const char *name, struct run_identity *process);

/* Memory for a whole segment, straight from the kernel: usable at exit and after fork. NULL: there
 * is none. */
struct directnfs_stats *stats_allocate(void);
void stats_release(struct directnfs_stats *stats);

/*
 * Reads the used parts of a segment's file in the run directory `run`, as they are. The rest of
 * `stats` keeps its content. It is bounded and never hangs. `room` (may be NULL) is how many bytes
 * of memory it may take; it is lowered by what it took.
 * -EBADMSG: it is no segment.
 * -EPROTO: it has another layout; the head up to `pid_namespace` was read.
 * -EPERM: it belongs to another user.
 * -EAGAIN: its process is still making it.
 * -E2BIG: `room` is too small.
 */
int stats_read_raw(int run, const char *name, struct directnfs_stats *stats, size_t *room);
/* pread() of exactly `size` bytes; -EBADMSG: there are fewer. */
int stats_read_at(int fd, void *buffer, size_t size, size_t offset);
/* Writes the used parts to an open, empty file. The header comes last. */
int stats_write_raw(int fd, const struct directnfs_stats *stats);

/*
 * Locks the run directory for adding up, or for reading what must add up exactly. Returns a
 * descriptor for stats_unlock(), or -errno. -ETIMEDOUT: after `limit_ms` another process still had
 * the lock; it may be stopped.
 */
enum { STATS_LOCK_MS = 2000 };
int stats_lock(int run, int limit_ms);
void stats_unlock(int fd);

/* Under the lock: was this process the last one that was added to `ended`? Then its file is left
 * over. */
bool stats_added(const struct directnfs_stats *ended, const struct directnfs_stats *stats);

/*
 * Adds the segment of a process that ended to the sum of those that ended, and removes its file. If
 * `stats` is NULL, it is read from the file. -ETIMEDOUT: the lock was not free within `limit_ms`; a
 * later stats_reap() does it.
 */
int stats_fold(int run, const struct run_identity *process, const struct directnfs_stats *stats,
               int limit_ms);

/* Calls `visit` with each name in the run directory, until it returns another result than 0.
 * Returns that result. -ETIME: the CPU time of `bounds` (NULL: no limit) is used up. */
typedef int stats_walker(void *argument, const char *name);
int stats_walk(int run, const struct stats_bounds *bounds, stats_walker *visit, void *argument);
/* As stats_walk(), for each segment of a process; `process` is what its name says. */
typedef int stats_visitor(void *argument, const char *name, const struct run_identity *process);
int stats_visit(int run, const struct stats_bounds *bounds, stats_visitor *visit, void *argument);

/* Adds and removes the segments of processes that died without stats_finish(): all of them, or as
 * many as `bounds` allows. */
void stats_reap(int run, const struct stats_bounds *bounds);

/* stats_reap() looks at every process. This does it only if no process did so within the last
 * second, which the time of stats.lock tells. */
void stats_reap_at_start(int run);

#endif
