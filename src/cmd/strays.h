/*
 * What was set aside in a run directory (run/strays.h), for `directnfs flush`: lists it, writes it
 * to its file, or removes it. The run directory is the visited one (cmd/rundir.h), or this
 * process's own.
 */
#ifndef CMD_STRAYS_H
#define CMD_STRAYS_H

#include <stdbool.h>
#include <sys/types.h>

#include "stats/read.h"

/* The meaning of a name on the command line: a file, a mount, or a stray. A stray has the name of
 * its file, with or without the directory. */
struct cmd_stray_target {
    const char *name;
    bool aside; /* a stray */
    bool file;  /* not a mount */
    dev_t device;
    ino_t inode;
};

/* Reads all strays into the zero-initialised snapshot, and the caller frees it. False after a
 * complaint. */
bool cmd_strays_read(struct stats_snapshot *snapshot);

/* True if the stray belongs to the target. */
bool cmd_stray_is_of(const struct stats_stray *stray, const struct cmd_stray_target *target);

/* Says what the strays are and what can be done: those of the target, or all if it is NULL. Returns
 * how many there are. */
unsigned cmd_strays_say(const struct cmd_stray_target *target);

/*
 * Finds the meaning of a name in this run directory, for --force and --discard.
 * 0: found.
 * -ENOENT: nothing of that name was set aside.
 * -EISDIR, -EINVAL: the name is a directory, or another thing that is not a regular file.
 * -EIO: the strays could not be read, after a complaint.
 * another -errno: from stat(2).
 */
int cmd_strays_find(const char *name, struct cmd_stray_target *target);

/* Removes all strays of a target. False after a complaint. */
bool cmd_strays_discard(const struct cmd_stray_target *target);

/*
 * Writes all strays of a target to its file, the oldest first. Each is removed when fsync(2) has
 * said that the server has it. For a process that has the library. False after a complaint: what
 * was not written is still there.
 */
bool cmd_strays_force(const struct cmd_stray_target *target);

#endif
