/*
 * What all processes show of themselves at one moment, and which paths are offline: read from the
 * run directories of cmd/rundir.h. These are copies: they stay when a process ends.
 */
#ifndef CMD_SNAPSHOT_H
#define CMD_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cmd/rundir.h"
#include "run/offline.h"
#include "stats/read.h"

/* A path that is offline for the processes of a user. */
struct cmd_offline {
    uid_t user;
    struct run_offline path;
};

/* Owned by the caller; freed by cmd_snapshot_free(). */
struct cmd_snapshot {
    struct stats_snapshot stats;
    struct cmd_offline *offline;
    size_t offline_count;
    bool unread;                      /* a directory could not be read, so processes are missing */
    char problem[CMD_RUNDIR_PROBLEM]; /* a sentence about what could not be read first; or empty */
};

/* Reads a snapshot. Without memory it lacks something, and `problem` says so. `copies`: how many
 * copies the caller will have at a time, including those that it makes itself. */
void cmd_snapshot_read(const char *command, struct cmd_snapshot *snapshot, unsigned copies);
void cmd_snapshot_free(struct cmd_snapshot *snapshot);

/* Reads only what processes count. Complains of directories that cannot be read. */
void cmd_stats_read(const char *command, struct stats_snapshot *stats, unsigned copies);

#endif
