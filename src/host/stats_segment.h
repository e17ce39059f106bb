/*
 * What the files of src/host share about statistics segments. Functions return 0 or -errno.
 */
#ifndef HOST_STATS_SEGMENT_H
#define HOST_STATS_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "host/run.h"
#include "host/stats.h"

/* Pages that hold a segment, in memory and in its file. */
#ifdef __x86_64__
enum { HOST_STATS_PAGE = 4096 };
#else
enum { HOST_STATS_PAGE = 65536 };
#endif
enum {
    HOST_STATS_BYTES = ((int)sizeof(struct directnfs_stats) + HOST_STATS_PAGE - 1) /
                       HOST_STATS_PAGE * HOST_STATS_PAGE
};

/* The tables that follow the counters; the slots that were ever used come first in each. */
struct host_stats_table {
    size_t offset, count_offset; /* in struct directnfs_stats */
    size_t slot;                 /* bytes of one */
    uint32_t slots;
};
enum { HOST_STATS_TABLES = 4 };
extern const struct host_stats_table host_stats_tables[HOST_STATS_TABLES];

/* How many slots of a table were ever used, and how many bytes from its start they take. */
static inline uint32_t *host_stats_count(const struct directnfs_stats *stats,
                                         const struct host_stats_table *table)
{
    return (uint32_t *)((uintptr_t)stats + table->count_offset);
}

static inline size_t host_stats_used(const struct directnfs_stats *stats,
                                     const struct host_stats_table *table)
{
    return host_stats_get(host_stats_count(stats, table)) * table->slot;
}

/* Copies the header and the used parts of the tables, while other threads may be counting. */
void host_stats_copy_used(struct directnfs_stats *to, const struct directnfs_stats *from);

/* The name of a process's segment in the run directory. */
enum { HOST_STATS_NAME = 48 };
void host_stats_segment_name(char name[HOST_STATS_NAME], const struct host_identity *process);
/* Reads pid and start time from such a name; false for another one. */
bool host_stats_parse_name(const char *name, struct host_identity *process);

/* Memory for a whole segment, from the kernel: usable at exit and after fork. NULL: none. */
struct directnfs_stats *host_stats_allocate(void);
void host_stats_release(struct directnfs_stats *stats);

/*
 * Reads the used parts of a segment's file in the run directory `run` as they are, bounded, never
 * hanging; the rest of `stats` keeps what it holds. -EBADMSG if it is not a segment of this layout,
 * -EPERM if it belongs to another user; -EAGAIN if its process is still making it. `room` (may be
 * NULL) is how many bytes of memory it may take, and is lowered by them: -E2BIG.
 */
int host_stats_read_raw(int run, const char *name, struct directnfs_stats *stats, size_t *room);
/* Writes the used parts to an open, empty file; the header last. */
int host_stats_write_raw(int fd, const struct directnfs_stats *stats);

/*
 * One at a time in the run directory adds up, or reads what must add up exactly. A descriptor for
 * host_stats_unlock(), or -errno; a holder that was stopped is not waited for longer than
 * `limit_ms`
 * (-ETIMEDOUT).
 */
enum { HOST_STATS_LOCK_MS = 2000 };
int host_stats_lock(int run, int limit_ms);
void host_stats_unlock(int fd);

/* Under the lock: is this the process that was added to `ended` last? Then its file is left over.
 */
bool host_stats_added(const struct directnfs_stats *ended, const struct directnfs_stats *stats);

/*
 * Adds the segment of a process that ended to `stats.ended` and removes its file. `stats` NULL: it
 * is read from the file. -ETIMEDOUT when the lock could not be had in `limit_ms`; it is then done
 * by a later host_stats_reap().
 */
int host_stats_fold(int run, const struct host_identity *process,
                    const struct directnfs_stats *stats, int limit_ms);

/* When this process will have used the CPU time of `bounds` (NULL: never), and whether it has. */
struct host_stats_bounds;
uint64_t host_stats_deadline(const struct host_stats_bounds *bounds);
bool host_stats_late(uint64_t deadline);

/*
 * Adds and removes the segments of processes that died without host_stats_finish(): all of them, or
 * those that can be done in the time of `bounds`.
 */
void host_stats_reap(int run, const struct host_stats_bounds *bounds);

/* host_stats_reap(), which looks at every process, unless another process did it a second ago: the
 * time of stats.lock says so. */
void host_stats_reap_at_start(int run);

#endif
