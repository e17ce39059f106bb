/*
 * The run directory, where the processes of one user on one host meet, and their identities.
 */
#ifndef HOST_RUN_H
#define HOST_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HOST_RUN_PATH_MAX = 512, HOST_RUN_WHY = 128 };

#define HOST_RUN_ANYBODY ((uid_t)-1)

/*
 * Once, when the process begins: from now on the run directory is the one of this moment's
 * environment, root directory and effective user, whatever becomes of them. Without it (in the
 * command) it is found anew each time.
 */
void host_run_start(void);

/* Whose it is: the effective user, or the one of host_run_start(). */
uid_t host_run_owner(void);

/* The process is another user for good: the run directory is that user's from now on. */
void host_run_become(uid_t user);

/*
 * Writes the path of the run directory ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>), for
 * messages: what it leads to may change at any moment, so all work is done relative to a descriptor
 * of host_run_open(). -ENAMETOOLONG.
 */
int host_run_path(char path[HOST_RUN_PATH_MAX]);

/* The same for messages: returns `path`, never NULL. */
const char *host_run_name(char path[HOST_RUN_PATH_MAX]);

/*
 * Opens the run directory and proves on the descriptor that it belongs to its owner and that nobody
 * else can enter; a symbolic link is not followed. A descriptor for host_run_close(); -EPERM,
 * -ENOTDIR, or another -errno. Nothing is logged. Until it is closed the thread opens files as the
 * owner, though the process may be another user for a while.
 */
int host_run_open(void);

/* Nothing for -errno. */
void host_run_close(int run);

/* Makes the run directory with mode 0700 if it is missing, and opens it. When it returns -errno a
 * line on the log has said what to do. */
int host_run_make(void);

/* The same proof for the directory of `owner` at a path relative to the descriptor `parent`. `why`
 * completes the sentence "it ..." when it returns -errno. */
int host_run_open_at(int parent, const char *path, uid_t owner, char why[HOST_RUN_WHY]);

/* For the command, which has one thread: the run directory is the one that is open as `run`, and
 * proven, until host_run_visit(-1). The caller is its owner. */
void host_run_visit(int run);

/*
 * Opens a file in the run directory `run`, with mode 0600 if `flags` make it. Only a regular file
 * of this user: -EBADMSG, -EPERM. Never waits: -EAGAIN if somebody has a lease on it.
 */
int host_run_open_file(int run, const char *name, int flags);

/* The same in the directory that host_run_open() gives. */
int host_run_open_named(const char *name, int flags);

/* A process for ever: pids are used again, a pid with its time of start (clock ticks since boot,
 * /proc/PID/stat) is not. */
struct host_identity {
    uint32_t pid;
    uint64_t starttime;
    uint64_t image; /* of the program that it runs, another after each exec; 0: not known */
};

/* 0, or -errno when /proc cannot be read. */
int host_identity_self(struct host_identity *identity);

/*
 * False only if the process surely is no more (a zombie is no more: its memory is gone), or runs
 * another program since exec. The process must be of the same pid namespace.
 */
bool host_identity_alive(const struct host_identity *identity);

/* Tell this host's boot, and this process's pid namespace, from others. 0 where not known. */
uint64_t host_boot_id(void);
uint64_t host_pid_namespace(void);

#endif
