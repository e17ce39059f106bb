/*
 * A process with threads that is stopped where it enters a function, taken on from there
 * instruction by instruction, and killed. Its other threads go on. For x86-64.
 */
#ifndef TRACED_H
#define TRACED_H

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "file_scene.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TRACES = false };
#else
enum { TRACES = true };
#endif

/* One that is traced; its threads are found by its process group. */
struct traced {
    pid_t pid;
    int memory;
    uintptr_t trap; /* the function where it stops; 0: none */
    uint8_t byte;   /* what is there else */
    bool over;
};

/* In the child. */
void traced_begin(void);

/* Of a child that has called traced_begin(). */
struct traced traced_of(pid_t child);
void traced_go(pid_t thread, int signal);
void traced_set_trap(struct traced *traced, const void *function);

/* Waits for the thread that enters the function that has the trap for so many times. 0: none does,
 * for long. */
pid_t traced_wait(struct traced *traced, unsigned times);

/* Does so many instructions of a thread, but not beyond the function that it enters. True: it is
 * beyond. */
bool traced_step(struct traced *traced, pid_t thread, unsigned instructions);
void traced_kill(struct traced *traced);

#endif
