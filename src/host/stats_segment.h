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

/* The path of a process's segment. */
int host_stats_segment_path(char path[HOST_RUN_PATH_MAX], const struct host_identity *process);
/* Reads pid and start time from a file name; false for another name. */
bool host_stats_parse_name(const char *name, struct host_identity *process);

/* Memory for a whole segment, from the kernel: usable at exit and after fork. NULL: none. */
struct directnfs_stats *host_stats_allocate(void);
void host_stats_release(struct directnfs_stats *stats);

/*
 * Reads the used parts of a segment's file as they are, bounded, never hanging; the rest of `stats`
 * keeps what it holds. -EBADMSG if it is not a segment of this layout, -EPERM if it belongs to
 * another user; -EAGAIN if its process is still making it.
 */
int host_stats_read_raw(const char *path, struct directnfs_stats *stats);
/* Writes the used parts to an open, empty file; the header last. */
int host_stats_write_raw(int fd, const struct directnfs_stats *stats);

/*
 * One at a time in the run directory adds up, or reads what must add up exactly. A descriptor for
 * host_stats_unlock(), or -errno; a holder that was stopped is not waited for longer than a few
 * seconds (-ETIMEDOUT).
 */
int host_stats_lock(void);
void host_stats_unlock(int fd);

/* Under the lock: is this the process that was added to `ended` last? Then its file is left over.
 */
bool host_stats_added(const struct directnfs_stats *ended, const struct directnfs_stats *stats);

/*
 * Adds the segment of a process that ended to `stats.ended` and removes its file. `stats` NULL: it
 * is read from the file. -ETIMEDOUT when the lock could not be had; it is then done by a later
 * host_stats_reap().
 */
int host_stats_fold(const struct host_identity *process, const struct directnfs_stats *stats);

/* host_stats_reap(), which looks at every process, unless another process did it a second ago: the
 * time of stats.lock says so. */
void host_stats_reap_at_start(void);

#endif
