/*
 * Which process this is, and whether another one still runs.
 */
#ifndef RUN_IDENTITY_H
#define RUN_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/* Names a process for ever. Pids are used again; a pid with its start time (clock ticks since boot,
 * /proc/PID/stat) is not. */
struct run_identity {
    uint32_t pid;
    uint64_t starttime;
    uint64_t image; /* of the program that it runs; each exec gives another; 0: not known */
};

/* This process. 0, or -errno if /proc cannot be read; -ESRCH: it is another namespace's /proc. */
int run_identity_self(struct run_identity *identity);

/* Another process, whatever program it runs. 0 or -errno; -ENOENT: there is none. */
int run_identity_of(uint32_t pid, struct run_identity *identity);

/* False only if the process surely ended, or has run another program since exec. A zombie counts as
 * ended, as its memory is gone. The process must be of the same namespaces. */
bool run_identity_alive(const struct run_identity *identity);

/* Is it stopped, by SIGSTOP and its kin or by a debugger? The process must be of the same
 * namespaces. */
bool run_identity_stopped(const struct run_identity *identity);
/* Is this thread, of any process, stopped by a signal? A debugger does not count. */
bool run_thread_stopped(uint32_t thread);

/*
 * A number that a process and its children share from one exec to the next, and no other process
 * has. A process may have two copies of the library: in a program that has it and is preloaded with
 * it.
 */
uint64_t run_program(void);

/*
 * Numbers that tell this host's boot, and this process's namespaces of times and of pids, from
 * others. 0: not known, without a descriptor (the boot) or without /proc. What is not known is
 * neither equal to another nor different. The boot, once known, stays known.
 */
uint64_t run_boot_id(void);
uint64_t run_time_namespace(void);
uint64_t run_pid_namespace(void);
/* A number for both namespaces. Seen from another one, a living process may look dead, as its pid
 * or its start time differs there. */
uint64_t run_namespaces(void);

#endif
