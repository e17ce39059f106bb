#include "ledger/store/stopped.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ledger/store/map.h"
#include "ledger/store/upper.h"
#include "run/identity.h"
#include "run/log_limit.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum {
    GUIDE_MS = 500, /* how long a thread is guided, and how long it pauses, at most */
    AGAIN_S = 60,   /* after this a thread that could not be guided is tried again */
    SAY_EVERY_S = 60,
    TIME_IS_OVER = 200, /* no errno, and no other status: it does not get on */
    NO_MATTER = 201
};
#define SECOND_NS UINT64_C(1000000000)

/* ---- the owners of locks ---- */

enum { LOCKS = 1 + LEDGER_CACHE_LOCKS + LEDGER_STRIPES + 1 };

/* First the locks that a thread takes while it has others. */
static const pthread_mutex_t *lock_at(unsigned i)
{
    const struct ledger_shared *shared = ledger_map.shared;
    if (i == 0)
        return &shared->arena_lock;
    if (i <= LEDGER_CACHE_LOCKS)
        return &shared->cache_locks[i - 1];
    if (i < LOCKS - 1)
        return &shared->stripes[i - 1 - LEDGER_CACHE_LOCKS].lock;
    return &shared->process_lock;
}

static uint32_t owner_of(const pthread_mutex_t *lock)
{
    return (uint32_t)__atomic_load_n(&lock->__data.__lock, __ATOMIC_ACQUIRE) & FUTEX_TID_MASK;
}

static bool has_locks(uint32_t thread)
{
    for (unsigned i = 0; i < LOCKS; i++) {
        if (owner_of(lock_at(i)) == thread)
            return true;
    }
    return false;
}

/* ---- the thread that is guided ---- */

void ledger_stopped_pause(void)
{
    const struct timespec limit = {0, GUIDE_MS * 1000000L};
    _Atomic uint32_t *guided = &ledger_map.shared->guided;
    uint32_t self = (uint32_t)sys_gettid();
    if (atomic_load(guided) != self || has_locks(self))
        return;
    sys_futex(guided, FUTEX_WAIT, self, &limit);
    /* The agent may have died before it let go. */
    atomic_compare_exchange_strong(guided, &self, 0);
}

/* ---- threads that wait ---- */

void ledger_stopped_tell(void)
{
    _Atomic uint32_t *waited = &ledger_map.shared->waited;
    if (atomic_exchange(waited, 1) == 0)
        sys_futex(waited, FUTEX_WAKE, 1, NULL);
}

/* The agent's lock says, after the pidfd was opened, that the agent lives. So the pidfd is the
 * agent's. */
static void end_agent(uint32_t pid)
{
    int fd = (int)sys_call2(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return;
    if (ledger_upper.agent_pid() == pid && run_thread_stopped(pid) &&
        sys_call4(SYS_pidfd_send_signal, fd, SIGKILL, 0, 0) == 0)
        log_warning("the agent, process %u, is stopped, and others wait for what it has: it is "
                    "ended; the next write that is left behind starts another one",
                    pid);
    sys_close(fd);
}

void ledger_stopped_end_agent_with_lock(const pthread_mutex_t *lock)
{
    uint32_t pid = ledger_upper.agent_pid(), thread = owner_of(lock);
    struct stat status;
    char name[48];
    snprintf(name, sizeof(name), "%u/task/%u", pid, thread);
    if (pid && thread && run_thread_stopped(pid) && sys_proc_stat(name, &status) == 0)
        end_agent(pid);
}

void ledger_stopped_end_agent_with_slot(uint32_t slot)
{
    uint32_t pid = ledger_upper.agent_pid();
    if (pid && ledger_map.shared->processes[slot].pid == pid && run_thread_stopped(pid))
        end_agent(pid);
}

/* ---- the agent ---- */

void ledger_stopped_await(void)
{
    _Atomic uint32_t *waited = &ledger_map.shared->waited;
    while (atomic_exchange(waited, 0) == 0)
        sys_futex(waited, FUTEX_WAIT, 0, NULL);
}

/* Runs in a child of the agent. If the child dies at any moment, the kernel lets go of the thread,
 * which is stopped again. So ptrace(2) is asked for nothing that would outlive the child (no single
 * step, no mask of signals). To let go is to exit. */
static __attribute__((noreturn)) void guide_and_exit(uint32_t thread)
{
    const struct rlimit none = {0, 0};
    uint64_t until_ns = sys_now_ns() + GUIDE_MS * UINT64_C(1000000);
    sys_call4(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL); /* a filter may kill it now */
    int result = (int)-sys_call4(SYS_ptrace, PTRACE_SEIZE, thread, 0, 0);
    while (result == 0 && has_locks(thread)) {
        int status = 0;
        if (sys_call4(SYS_wait4, thread, &status, __WALL | WNOHANG, NULL) == (long)thread) {
            /* It stopped at a signal, which it gets then, or with its process. */
            int signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
            if (WIFSTOPPED(status))
                sys_call4(SYS_ptrace, PTRACE_CONT, thread, 0, signal);
            else
                result = ESRCH; /* it is dead, and the kernel has marked its locks */
        } else if (sys_now_ns() > until_ns) {
            result = TIME_IS_OVER;
        } else {
            const struct timespec moment = {0, 50000};
            sys_call2(SYS_nanosleep, &moment, NULL);
        }
    }
    for (;;)
        sys_call1(SYS_exit_group, result);
}

static bool may_not_trace; /* a filter of system calls kills a process that traces */

/* 0: the thread has no lock any more. Else an errno, or TIME_IS_OVER. */
static int guide(uint32_t thread)
{
    _Atomic uint32_t *guided = &ledger_map.shared->guided;
    int status = 0;
    atomic_store(guided, thread);
    int child = (int)sys_call5(SYS_clone, 0, 0, 0, 0, 0);
    if (child == 0)
        guide_and_exit(thread);
    while (child > 0 && sys_call4(SYS_wait4, child, &status, __WALL, NULL) == -EINTR)
        ;
    atomic_store(guided, 0);
    sys_futex(guided, FUTEX_WAKE, INT32_MAX, NULL);
    if (child < 0)
        return -child;
    may_not_trace |= WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

/* 1: the thread's process has mapped this registry. 0: it has not, so another thread now has the
 * number of the lock's owner, here or in this namespace. -errno. */
static int uses_registry(uint32_t thread)
{
    char name[32], text[4096];
    size_t have = 0;
    ssize_t more;
    bool uses = false;
    snprintf(name, sizeof(name), "%u/maps", thread);
    int fd = sys_proc_open(name, O_RDONLY);
    if (fd < 0)
        return fd;
    while (!uses && (more = sys_read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
        char *line = text, *end;
        text[have + (size_t)more] = '\0';
        for (; (end = strchr(line, '\n')); line = end + 1) {
            unsigned long long inode = 0;
            *end = '\0';
            uses = uses || (sscanf(line, "%*x-%*x %*3cs %*x %*x:%*x %llu", &inode) == 1 &&
                            inode == ledger_map.inode);
        }
        have = strlen(line);
        if (have > sizeof(text) / 2)
            have = 0; /* the registry's name is not that long */
        memmove(text, line, have);
    }
    sys_close(fd);
    return uses;
}

static void say(uint32_t thread, int result)
{
    if (result == 0 && run_may_say("guided out of a lock", SAY_EVERY_S))
        log_notice("thread %u was stopped with a lock of the registry, and others waited; the "
                   "agent has guided it out of it, by ptrace(2)",
                   thread);
    else if (result != 0 && run_may_say("stopped with a lock", SAY_EVERY_S))
        log_warning("thread %u is stopped with a lock of the registry, and others wait until it "
                    "goes on; the agent cannot guide it out of it: %s",
                    thread,
                    result == TIME_IS_OVER ? "it does not get on" : strerrordesc_np(result));
}

/* 0: the thread was guided out. NO_MATTER: it is not stopped, or it is dead. Else it cannot be
 * guided. */
static int release_owner(const pthread_mutex_t *lock, uint32_t thread)
{
    if (!run_thread_stopped(thread))
        return NO_MATTER;
    int uses = uses_registry(thread);
    if (uses == 0 || owner_of(lock) != thread)
        return NO_MATTER;
    int result = uses < 0 ? -uses : guide(thread);
    return result == ESRCH || result == ENOENT ? NO_MATTER : result;
}

unsigned ledger_stopped_release(void)
{
    static uint32_t refused;  /* the last thread that could not be guided ... */
    static uint64_t again_ns; /* ... and is not tried before this */
    unsigned count = 0;
    for (unsigned i = 0; i < LOCKS && !may_not_trace; i++) {
        uint32_t thread = owner_of(lock_at(i));
        if (!thread || (thread == refused && sys_now_ns() < again_ns))
            continue;
        int result = release_owner(lock_at(i), thread);
        if (result == NO_MATTER)
            continue;
        say(thread, result);
        count += result == 0;
        if (result != 0) {
            refused = thread;
            again_ns = sys_now_ns() + (result == TIME_IS_OVER ? 1 : AGAIN_S) * SECOND_NS;
        }
    }
    return count;
}
