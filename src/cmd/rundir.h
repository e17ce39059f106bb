/*
 * The run directories of the processes that a command is about. The first of these that applies:
 * $DIRECTNFS_RUN; the one of this user; for root, those of all users of this host.
 */
#ifndef CMD_RUNDIR_H
#define CMD_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/directory.h"

enum { CMD_RUNDIR_PROBLEM = 256 };

/*
 * Calls `visit` for each run directory that exists and is proven to be its owner's alone. Meanwhile
 * the functions of src/run and src/ledger work on the directory that was proven. What `visit`
 * writes must belong to the owner, and the owner must not be able to lead root astray. So root runs
 * `visit` as the owner. `command` is for complaints.
 * 0: done; `problem` is unchanged.
 * -errno: something was passed over; `problem` has a sentence.
 */
int cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM]);

/* In `visit`: true if the directory is another user's. Its content may be there to do harm. */
bool cmd_rundir_is_foreign(void);

/*
 * Chooses the directory of this user (a name or a number) and no other. CMD_FINE, or CMD_NOT_FINE
 * after a complaint.
 */
int cmd_rundir_choose(const char *command, const char *user);

/* If there is one directory, makes it if it is missing; as the chosen user, if there is one. False
 * after a complaint, or a line in the log. */
bool cmd_rundir_make(const char *command);

/* The reason why the visited directory could not be read. Returns `text`. */
const char *cmd_rundir_problem(int error, char text[CMD_RUNDIR_PROBLEM]);

/* Adds the memory that files in the visited run directory take, in bytes. Sets what is left of its
 * file system. */
struct cmd_rundir_memory {
    uint64_t used, left;
};
void cmd_rundir_measure(struct cmd_rundir_memory *memory);

/* The path of the one directory, or a pattern for those of all users. */
void cmd_rundir_name(char path[RUN_PATH_MAX]);

#endif
