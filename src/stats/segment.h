/*
 * What the files of src/stats share about statistics segments. Functions return 0 or -errno.
 */
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

/* No call of the process waits: it ended, or is the child of fork(). */
void stats_waits_for_nothing(struct directnfs_stats *stats);

/* It has no session: likewise. */
void stats_sessions_end(struct directnfs_stats *stats);

/* This process counts now. */
void stats_touch(void);
/* Counts a call that took so long. True: alone, and not with others of this thread. */
bool stats_alone(struct directnfs_latency *latency, uint64_t ns);

/* How many bytes the slots of a table take that were ever used. */
static inline size_t stats_used(const struct directnfs_stats *stats,
                                const struct stats_table *table)
{
    return stats_get(stats_count(stats, table)) * table->slot;
}

/* Copies the header and the used parts of the tables, while other threads may be counting. */
void stats_copy_used(struct directnfs_stats *to, const struct directnfs_stats *from);

/* The name of a process's segment in the run directory. */
enum { STATS_NAME = 48 };
void stats_segment_name(char name[STATS_NAME], const struct run_identity *process);
/* Reads pid and start time from such a name; false for another one. */
bool stats_parse_name(const char *name, struct run_identity *process);

/* Memory for a whole segment, from the kernel: usable at exit and after fork. NULL: none. */
struct directnfs_stats *stats_allocate(void);
void stats_release(struct directnfs_stats *stats);

/*
 * Reads the used parts of a segment's file in the run directory `run` as they are, bounded, never
 * hanging; the rest of `stats` keeps what it holds. -EBADMSG if it is not a segment, -EPROTO if
 * it is one of another layout, of which the head up to `pid_namespace` was read, -EPERM if it
 * belongs to another user; -EAGAIN if its process is still making it. `room` (may be NULL) is how
 * many bytes of memory it may take, and is lowered by them: -E2BIG.
 */
int stats_read_raw(int run, const char *name, struct directnfs_stats *stats, size_t *room);
/* pread() of so many bytes: -EBADMSG if there are less. */
int stats_read_at(int fd, void *buffer, size_t size, size_t offset);
/* Writes the used parts to an open, empty file; the header last. */
int stats_write_raw(int fd, const struct directnfs_stats *stats);

/*
 * One at a time in the run directory adds up, or reads what must add up exactly. A descriptor for
 * stats_unlock(), or -errno; a holder that was stopped is not waited for longer than `limit_ms`
 * (-ETIMEDOUT).
 */
enum { STATS_LOCK_MS = 2000 };
int stats_lock(int run, int limit_ms);
void stats_unlock(int fd);

/* Under the lock: is this the process that was added to `ended` last? Its file is left over. */
bool stats_added(const struct directnfs_stats *ended, const struct directnfs_stats *stats);

/*
 * Adds the segment of a process that ended to the sum of what ended and removes its file. `stats`
 * NULL: it is read from the file. -ETIMEDOUT when the lock could not be had in `limit_ms`; it is
 * then done by a later stats_reap().
 */
int stats_fold(int run, const struct run_identity *process, const struct directnfs_stats *stats,
               int limit_ms);

/*
 * Calls `visit` with each name in the run directory, until it returns another result than 0, which
 * is returned. -ETIME: the CPU time of `bounds` (NULL: no limit) is used up.
 */
typedef int stats_walker(void *argument, const char *name);
int stats_walk(int run, const struct stats_bounds *bounds, stats_walker *visit, void *argument);
/* The same with each segment of a process, as its name says. */
typedef int stats_visitor(void *argument, const char *name, const struct run_identity *process);
int stats_visit(int run, const struct stats_bounds *bounds, stats_visitor *visit, void *argument);

/*
 * Adds and removes the segments of processes that died without stats_finish(): all of them, or
 * those that can be done in the time of `bounds`.
 */
void stats_reap(int run, const struct stats_bounds *bounds);

/* stats_reap(), which looks at every process, unless another process did it a second ago: the
 * time of stats.lock says so. */
void stats_reap_at_start(int run);

#endif
