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
 * Call it once, when the process begins. From then on the run directory is fixed by this moment's
 * environment, root directory and effective user, whatever becomes of them. Without this call (in
 * the command) the run directory is found anew each time.
 */
void run_start(void);

/* The owner of the run directory: the user of run_start(), or without it the effective user. */
uid_t run_owner(void);

/* The process is another user for good: from now on that user owns the run directory. */
void run_become(uid_t user);

/*
 * Writes the path of the run directory ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>). It is only
 * for messages, since the directory at that path may change at any moment: do all work relative to
 * a descriptor of run_open(). 0 or -ENAMETOOLONG.
 */
int run_path(char path[RUN_PATH_MAX]);

/* run_path() for messages: returns `path`, never NULL. */
const char *run_name(char path[RUN_PATH_MAX]);

/*
 * Opens the run directory. It proves on the descriptor that the directory belongs to its owner and
 * that nobody else can enter. It follows no symbolic link, and logs nothing. Until the descriptor
 * is closed, the thread opens files as the owner. The process may be another user for that time.
 * Returns a descriptor for run_close(), -EPERM, -ENOTDIR, or another -errno.
 */
int run_open(void);

/* Closes a result of run_open(); does nothing for -errno. */
void run_close(int run);

/* Makes the run directory with mode 0700 if it is missing, and opens it as run_open(). If it
 * returns -errno, a line on the log has said what to do. */
int run_make(void);
/* As run_make(), but logs nothing. */
int run_make_quietly(void);

/*
 * Marks the run directory as used. The mark is on the directory above it, and so survives when the
 * run directory is removed. It holds as long as the returned descriptor, or a copy in a child, is
 * open. -errno: it could not be marked.
 */
int run_use(void);
/* Does another process use the run directory, or a removed one that had its name? The mark of
 * another user's run directory may be taken for it. */
bool run_is_used(void);

/* Opens and proves, as run_open(), the directory of `owner` at a path relative to the descriptor
 * `parent`. If it returns -errno, `why` completes the sentence "it ...". */
int run_open_at(int parent, const char *path, uid_t owner, char why[RUN_WHY]);

/* For the command, which has one thread: `run` is the run directory until run_visit(-1). It is open
 * and proven, and the caller is its owner. */
void run_visit(int run);

/*
 * Opens a file in the run directory `run`; if `flags` make it, its mode is 0600. It never waits.
 * -EBADMSG: it is no regular file.
 * -EPERM: it is not this user's.
 * -EAGAIN: a process has a lease on it.
 */
int run_open_file(int run, const char *name, int flags);

/* As run_open_file(), in the directory that run_open() gives. */
int run_open_named(const char *name, int flags);

/* Calls `visit` with each name in the run directory, until it returns another result than 0.
 * Returns that result, or -errno. */
typedef int run_visitor(void *argument, const char *name);
int run_list(int run, run_visitor *visit, void *argument);

#endif
