/*
 * A process with threads that is stopped where it enters a function, taken on from there
 * instruction by instruction, and killed. Its other threads go on. For x86-64. Include once per
 * test program.
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

enum { TRAP = 0xcc, TRACED_S = 5 };

/* One that is traced; its threads are found by its process group. */
struct traced {
    pid_t pid;
    int memory;
    uintptr_t trap; /* the function where it stops; 0: none */
    uint8_t byte;   /* what is there else */
    bool over;
};

/* In the child. */
static inline void traced_begin(void)
{
    CHECK_EQUAL(setpgid(0, 0), 0);
    CHECK_EQUAL(ptrace(PTRACE_TRACEME, 0, 0, 0), 0);
    raise(SIGSTOP);
}

/* Of a child that has called traced_begin(). */
static inline struct traced traced_of(pid_t child)
{
    struct traced traced = {.pid = child};
    char name[32];
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFSTOPPED(status));
    CHECK_EQUAL(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL), 0);
    snprintf(name, sizeof(name), "/proc/%d/mem", child);
    traced.memory = open(name, O_RDWR | O_CLOEXEC);
    CHECK(traced.memory >= 0);
    return traced;
}

static inline void traced_go(pid_t thread, int signal)
{
    ptrace(PTRACE_CONT, thread, 0, signal);
}

static inline void traced_poke(const struct traced *traced, uint8_t byte)
{
    CHECK_EQUAL(pwrite(traced->memory, &byte, 1, (off_t)traced->trap), 1);
}

static inline void traced_set_trap(struct traced *traced, const void *function)
{
    traced->trap = (uintptr_t)function;
    CHECK_EQUAL(pread(traced->memory, &traced->byte, 1, (off_t)traced->trap), 1);
    traced_poke(traced, TRAP);
}

static inline void traced_clear_trap(struct traced *traced)
{
    if (traced->trap && !traced->over)
        traced_poke(traced, traced->byte);
    traced->trap = 0;
}

/* Is this stop of a thread that of the trap? It stands before the function then, where there is no
 * trap any more. */
static inline bool traced_is_at_trap(struct traced *traced, pid_t thread, int status)
{
    struct user_regs_struct registers;
    if (WSTOPSIG(status) != SIGTRAP || status >> 16 || !traced->trap)
        return false;
    CHECK_EQUAL(ptrace(PTRACE_GETREGS, thread, 0, &registers), 0);
    if (registers.rip != traced->trap + 1)
        return false;
    registers.rip--;
    CHECK_EQUAL(ptrace(PTRACE_SETREGS, thread, 0, &registers), 0);
    return true;
}

/* Lets all threads go on until something happens, or for a moment. The thread that stands at the
 * trap; 0. */
static inline pid_t traced_look(struct traced *traced)
{
    int status;
    pid_t thread = waitpid(-traced->pid, &status, __WALL | WNOHANG);
    if (thread <= 0) {
        usleep(200);
        return 0;
    }
    if (!WIFSTOPPED(status))
        traced->over = traced->over || thread == traced->pid;
    else if (traced_is_at_trap(traced, thread, status))
        return thread;
    else
        traced_go(thread, WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP
                              ? 0
                              : WSTOPSIG(status));
    return 0;
}

/* Steps over the instruction where the trap was, and sets it anew. */
static inline void traced_pass(struct traced *traced, pid_t thread)
{
    int status;
    traced_poke(traced, traced->byte);
    CHECK_EQUAL(ptrace(PTRACE_SINGLESTEP, thread, 0, 0), 0);
    CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
    traced_poke(traced, TRAP);
    traced_go(thread, 0);
}

/* Waits for the thread that enters the function that has the trap for so many times. 0: none does,
 * for long. */
static inline pid_t traced_wait(struct traced *traced, unsigned times)
{
    pid_t thread;
    uint64_t until_ns = sys_now_ns() + TRACED_S * UINT64_C(1000000000);
    while (!traced->over && sys_now_ns() < until_ns) {
        thread = traced_look(traced);
        if (thread && --times == 0) {
            traced_clear_trap(traced);
            return thread;
        }
        if (thread)
            traced_pass(traced, thread);
    }
    return 0;
}

/* Does so many instructions of a thread, but not beyond the function that it enters. True: it is
 * beyond. */
static inline bool traced_step(struct traced *traced, pid_t thread, unsigned instructions)
{
    struct user_regs_struct registers;
    int status;
    CHECK_EQUAL(ptrace(PTRACE_GETREGS, thread, 0, &registers), 0);
    unsigned long long stack = registers.rsp;
    for (unsigned i = 0; i < instructions; i++) {
        ptrace(PTRACE_SINGLESTEP, thread, 0, 0);
        if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) {
            traced->over = traced->over || thread == traced->pid;
            return false; /* somebody else has killed it */
        }
        CHECK_EQUAL(ptrace(PTRACE_GETREGS, thread, 0, &registers), 0);
        if (registers.rsp > stack)
            return true;
    }
    return false;
}

static inline void traced_kill(struct traced *traced)
{
    int status;
    kill(traced->pid, SIGKILL);
    while (!traced->over) {
        pid_t thread = waitpid(-traced->pid, &status, __WALL);
        CHECK(thread > 0);
        traced->over = thread == traced->pid && !WIFSTOPPED(status);
    }
    while (waitpid(-traced->pid, &status, __WALL | WNOHANG) > 0)
        ;
    close(traced->memory);
}

#endif
