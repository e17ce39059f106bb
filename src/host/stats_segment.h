/*
 * What the files of src/host share about statistics segments. Functions return 0 or -errno.
 */
#ifndef HOST_STATS_SEGMENT_H
#define HOST_STATS_SEGMENT_H

#include <stdbool.h>

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

/* The path of a process's segment. */
int host_stats_path(char path[HOST_RUN_PATH_MAX], const struct host_identity *process);
/* Reads pid and start time from a file name; false for another name. */
bool host_stats_parse_name(const char *name, struct host_identity *process);

/* Memory for a whole segment, from the kernel: usable at exit and after fork. NULL: none. */
struct directnfs_stats *host_stats_allocate(void);
void host_stats_release(struct directnfs_stats *stats);

/*
 * Reads a segment's file as it is, bounded, never hanging. -EBADMSG if it is not a segment of this
 * layout; -EAGAIN if its process is still making it.
 */
int host_stats_read_raw(const char *path, struct directnfs_stats *stats);
/* Writes the used parts to an open, empty file; the header last. */
int host_stats_write_raw(int fd, const struct directnfs_stats *stats);

/*
 * Adds the segment of a process that ended to `stats.ended` and removes its file. `stats` NULL: it
 * is read from the file. -ETIMEDOUT when the lock could not be had; it is then done by a later
 * host_stats_reap().
 */
int host_stats_fold(const struct host_identity *process, const struct directnfs_stats *stats);

#endif
