/*
 * What each mount costs each user: the sum over processes, those that ended included.
 */
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
 * Adds the mounts of some processes, which run, or are sums of what ended. Whatever they hold, a
 * user has DIRECTNFS_MOUNTS of them at most: what is more is counted as one mount "others". False
 * without memory.
 */
bool cmd_mounts_add(struct cmd_mounts *mounts, const struct directnfs_stats *const *processes,
                    size_t count, bool running);
void cmd_mounts_free(struct cmd_mounts *mounts);

/* Means of one operation; 0 where there was no call. Times in microseconds. */
struct cmd_operation {
    double kilobytes; /* of a call: KiB */
    double rtt_us, queue_us, exe_us;
};
struct cmd_operation cmd_operation(const struct directnfs_operation_stats *counted);

#endif
