/*
 * What was set aside in a run directory (run/strays.h), for `directnfs flush`: it says what there
 * is, writes it to its file, or removes it. The run directory is the one that is visited
 * (cmd/rundir.h), or this process's own.
 */
#ifndef CMD_STRAYS_H
#define CMD_STRAYS_H

#include <stdbool.h>
#include <sys/types.h>

#include "stats/read.h"

/* What a name on the command line stands for: a file or a mount; or a stray by the name of its
 * file, alone or with its directory. */
struct cmd_stray_target {
    const char *name;
    bool aside; /* a stray */
    bool file;  /* no mount */
    dev_t device;
    ino_t inode;
};

/* Reads what there is into the zero-initialised snapshot, which the caller frees. False after a
 * complaint. */
bool cmd_strays_read(struct stats_snapshot *snapshot);

/* Is it of the target? */
bool cmd_stray_is_of(const struct stats_stray *stray, const struct cmd_stray_target *target);

/* Says of all strays, or of those of the target if it is not NULL, what they are, and what can be
 * done. How many there are. */
unsigned cmd_strays_say(const struct cmd_stray_target *target);

/*
 * Finds what a name stands for here, for --force and --discard: 0, -ENOENT: nothing of it was set
 * aside; or another -errno of stat(2).
 */
int cmd_strays_find(const char *name, struct cmd_stray_target *target);

/* Removes all of a target. False after a complaint. */
bool cmd_strays_discard(const struct cmd_stray_target *target);

/*
 * Writes all of a target to its file, the older first, and removes each when fsync(2) has said that
 * the server has it. In a process that has the library. False after a complaint; what was not
 * written is there still.
 */
bool cmd_strays_force(const struct cmd_stray_target *target);

#endif
