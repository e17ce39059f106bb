/*
 * The run directory, where the processes of one user on one host meet.
 */
#ifndef RUN_DIRECTORY_H
#define RUN_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_PATH_MAX = 512, RUN_WHY = 128 };

#define RUN_ANYBODY ((uid_t)-1)

/*
 * Once, when the process begins: from now on the run directory is the one of this moment's
 * environment, root directory and effective user, whatever becomes of them. Without it (in the
 * command) it is found anew each time.
 */
void run_start(void);

/* Whose it is: the effective user, or the one of run_start(). */
uid_t run_owner(void);

/* The process is another user for good: the run directory is that user's from now on. */
void run_become(uid_t user);

/*
 * Writes the path of the run directory ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>), for
 * messages: what it leads to may change at any moment, so all work is done relative to a descriptor
 * of run_open(). -ENAMETOOLONG.
 */
int run_path(char path[RUN_PATH_MAX]);

/* The same for messages: returns `path`, never NULL. */
const char *run_name(char path[RUN_PATH_MAX]);

/*
 * Opens the run directory and proves on the descriptor that it belongs to its owner and that nobody
 * else can enter; a symbolic link is not followed. A descriptor for run_close(); -EPERM,
 * -ENOTDIR, or another -errno. Nothing is logged. Until it is closed the thread opens files as the
 * owner, though the process may be another user for a while.
 */
int run_open(void);

/* Nothing for -errno. */
void run_close(int run);

/* Makes the run directory with mode 0700 if it is missing, and opens it. When it returns -errno a
 * line on the log has said what to do. */
int run_make(void);
/* The same; nothing is logged. */
int run_make_quietly(void);

/*
 * Marks the run directory as used, in the directory that it is in, where that is not lost when the
 * run directory is removed. A descriptor: it is used as long as that, or a copy in a child, is
 * open. -errno: that cannot be marked.
 */
int run_use(void);
/* Does another process use the run directory, or one that had its name and is no more? A process
 * that holds the same mark for another user may be taken for one. */
bool run_is_used(void);

/* The same proof for the directory of `owner` at a path relative to the descriptor `parent`. `why`
 * completes the sentence "it ..." when it returns -errno. */
int run_open_at(int parent, const char *path, uid_t owner, char why[RUN_WHY]);

/* For the command, which has one thread: the run directory is the one that is open as `run`, and
 * proven, until run_visit(-1). The caller is its owner. */
void run_visit(int run);

/*
 * Opens a file in the run directory `run`, with mode 0600 if `flags` make it. Only a regular file
 * of this user: -EBADMSG, -EPERM. Never waits: -EAGAIN if somebody has a lease on it.
 */
int run_open_file(int run, const char *name, int flags);

/* The same in the directory that run_open() gives. */
int run_open_named(const char *name, int flags);

/* Calls `visit` with each name in the run directory, until it returns another result than 0, which
 * is returned; or -errno. */
typedef int run_visitor(void *argument, const char *name);
int run_list(int run, run_visitor *visit, void *argument);

#endif
