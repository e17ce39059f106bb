/* What each mount costs each user: the sum over processes, including those that ended. */
#ifndef CMD_MOUNTS_H
#define CMD_MOUNTS_H

#include "stats/read.h"

struct cmd_mount {
    uint32_t user;
    unsigned processes; /* that run and use it */
    struct directnfs_mount_stats sum;
};

/* Zero-initialised; freed by cmd_mounts_free(). */
struct cmd_mounts {
    struct cmd_mount *list;
    size_t count;
};

/*
 * Adds the mounts of some processes that run, or of sums of those that ended. A user gets at most
 * DIRECTNFS_MOUNTS mounts, whatever the processes hold: more are counted as one mount "others".
 * False: no memory.
 */
bool cmd_mounts_add(struct cmd_mounts *mounts, const struct directnfs_stats *const *processes,
                    size_t count, bool running);
void cmd_mounts_free(struct cmd_mounts *mounts);

/* Means for one operation; 0 if there was no call. Times in microseconds. */
struct cmd_operation {
    double kilobytes; /* KiB of one call */
    double rtt_us, queue_us, exe_us;
};
struct cmd_operation cmd_operation(const struct directnfs_operation_stats *counted);

#endif
