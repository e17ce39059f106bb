/*
 * The run directory, where the processes of one user on one host meet, and their identities.
 */
#ifndef HOST_RUN_H
#define HOST_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOST_RUN_PATH_MAX = 512 };

/*
 * Writes the path of `name` in the run directory ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid> of
 * the effective user) to `path`; an empty name gives the directory itself. -ENAMETOOLONG.
 */
int host_run_path(char path[HOST_RUN_PATH_MAX], const char *name);

/*
 * Makes the run directory with mode 0700 if it is missing, and checks that it is a directory of
 * this user that nobody else can enter, no symbolic link. 0, or -errno after a line on the log that
 * says what to do.
 */
int host_run_prepare(void);

/* A process for ever: pids are used again, a pid with its time of start (clock ticks since boot,
 * /proc/PID/stat) is not. */
struct host_identity {
    uint32_t pid;
    uint64_t starttime;
};

/* 0, or -errno when /proc cannot be read. */
int host_identity_self(struct host_identity *identity);

/*
 * False only if the process surely is no more (a zombie is no more: its memory is gone). The
 * process must be of the same pid namespace.
 */
bool host_identity_alive(const struct host_identity *identity);

/* Tell this host's boot, and this process's pid namespace, from others. 0 where not known. */
uint64_t host_boot_id(void);
uint64_t host_pid_namespace(void);

#endif
