/*
 * Which process this is, and whether another still runs.
 */
#ifndef RUN_IDENTITY_H
#define RUN_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/* A process for ever: pids are used again, a pid with its time of start (clock ticks since boot,
 * /proc/PID/stat) is not. */
struct run_identity {
    uint32_t pid;
    uint64_t starttime;
    uint64_t image; /* of the program that it runs, another after each exec; 0: not known */
};

/* 0, or -errno when /proc cannot be read: -ESRCH if it is that of another namespace. */
int run_identity_self(struct run_identity *identity);

/*
 * False only if the process surely is no more (a zombie is no more: its memory is gone), or runs
 * another program since exec. The process must be of the same namespaces.
 */
bool run_identity_alive(const struct run_identity *identity);

/* Is it stopped, by SIGSTOP and its kin or by a debugger? Of the same namespaces. */
bool run_identity_stopped(const struct run_identity *identity);
/* The same of one thread of any process, but not by a debugger. */
bool run_thread_stopped(uint32_t thread);

/* The same in all of a process and its children from one exec to the next, and in no other. Two
 * copies of the library may be in one: in a program that has it, and is preloaded with it. */
uint64_t run_program(void);

/* Tell this host's boot, and this process's namespaces of times and of process numbers, from
 * others. 0: not known, for want of a descriptor (the boot), or of /proc. What is not known is
 * neither the same as another nor different. The boot, once known, stays known. */
uint64_t run_boot_id(void);
uint64_t run_time_namespace(void);
uint64_t run_pid_namespace(void);
/* Of both: a process in another one may look dead and live, as its number or its time of start is
 * another there. */
uint64_t run_namespaces(void);

#endif
