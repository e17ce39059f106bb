/*
 * The run directories whose processes a command is about: $DIRECTNFS_RUN, else that of this user,
 * else, for root, those of all users of this host.
 */
#ifndef CMD_RUNDIR_H
#define CMD_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/directory.h"

enum { CMD_RUNDIR_PROBLEM = 256 };

/*
 * Calls `visit` for each of them that exists and is proven to be its owner's alone, with the
 * functions of src/run and src/ledger working there, on the directory that was proven. What is
 * written there shall belong to the owner, who shall not be able to lead root astray: as root,
 * `visit` runs as the owner. `command` is for complaints. 0; or -errno and a sentence in `problem`,
 * which is left alone otherwise: something was passed over.
 */
int cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM]);

/* In `visit`: is the directory somebody else's? What is in it may be there to do harm. */
bool cmd_rundir_is_foreign(void);

/*
 * From now on the directory of this user, a name or a number, and no other. CMD_FINE, or
 * CMD_NOT_FINE after a complaint.
 */
int cmd_rundir_choose(const char *command, const char *user);

/* If it is one directory, makes it where it is missing; for the chosen user, as that user. False
 * after a complaint, or a line on the log. */
bool cmd_rundir_make(const char *command);

/* Why the directory that is visited could not be read. Returns `text`. */
const char *cmd_rundir_problem(int error, char text[CMD_RUNDIR_PROBLEM]);

/* Adds what the files in the run directory that is visited take of memory, in bytes, and says how
 * much is left of its file system. */
struct cmd_rundir_memory {
    uint64_t used, left;
};
void cmd_rundir_measure(struct cmd_rundir_memory *memory);

/* Its path, or a pattern for those of all users. */
void cmd_rundir_name(char path[RUN_PATH_MAX]);

#endif
