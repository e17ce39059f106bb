/* See traced.h. */
#include "traced.h"

enum { TRAP = 0xcc, TRACED_S = 5 };

void traced_begin(void)
{
    CHECK_EQUAL(setpgid(0, 0), 0);
    CHECK_EQUAL(ptrace(PTRACE_TRACEME, 0, 0, 0), 0);
    raise(SIGSTOP);
}

struct traced traced_of(pid_t child)
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

void traced_go(pid_t thread, int signal)
{
    ptrace(PTRACE_CONT, thread, 0, signal);
}

static void traced_poke(const struct traced *traced, uint8_t byte)
{
    CHECK_EQUAL(pwrite(traced->memory, &byte, 1, (off_t)traced->trap), 1);
}

void traced_set_trap(struct traced *traced, const void *function)
{
    traced->trap = (uintptr_t)function;
    CHECK_EQUAL(pread(traced->memory, &traced->byte, 1, (off_t)traced->trap), 1);
    traced_poke(traced, TRAP);
}

static void traced_clear_trap(struct traced *traced)
{
    if (traced->trap && !traced->over)
        traced_poke(traced, traced->byte);
    traced->trap = 0;
}

/* Is this stop of a thread that of the trap? It stands before the function then, where there is no
 * trap any more. */
static bool traced_is_at_trap(struct traced *traced, pid_t thread, int status)
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
static pid_t traced_look(struct traced *traced)
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
static void traced_pass(struct traced *traced, pid_t thread)
{
    int status;
    traced_poke(traced, traced->byte);
    CHECK_EQUAL(ptrace(PTRACE_SINGLESTEP, thread, 0, 0), 0);
    CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
    traced_poke(traced, TRAP);
    traced_go(thread, 0);
}

pid_t traced_wait(struct traced *traced, unsigned times)
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

bool traced_step(struct traced *traced, pid_t thread, unsigned instructions)
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

void traced_kill(struct traced *traced)
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
