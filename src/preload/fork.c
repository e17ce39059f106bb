/* Processes: fork, exec, exit, and libraries that are loaded later. */
#include <spawn.h>

#include "durable/sync.h"
#include "preload/preload.h"
#include "sys/foreign.h"
#include "sys/thread.h"

/* The engine learns of it through pthread_atfork(). vfork() is in vfork.c. */
PRELOAD_EXPORT pid_t fork(void)
{
    if (!preload_active())
        return PRELOAD_REAL(fork)();
    sys_foreign_fork_begin();
    pid_t child = PRELOAD_REAL(fork)();
    sys_foreign_fork_end(); /* does not change errno */
    return child;
}

/* _Fork() runs no handlers of pthread_atfork(), but ours must run. */
PRELOAD_EXPORT pid_t _Fork(void)
{
    if (!preload_active())
        return PRELOAD_REAL(_Fork)();
    bool alone = sys_thread_alone();
    sys_foreign_fork_begin();
    preload_fork_prepare();
    pid_t child = PRELOAD_REAL(_Fork)();
    int saved = errno;
    if (child == 0 && !alone)
        sys_thread_forbid();
    (child == 0 ? preload_fork_child : preload_fork_parent)();
    sys_foreign_fork_end();
    errno = saved;
    return child;
}

/*
 * The mutexes of the registry are robust. Each mutex has the number of the thread that holds it.
 * When a thread dies, the kernel marks the mutexes in its list. libc sets up number and list in a
 * child of fork(), but not in a child of the kernel's clone(). That child would put its parent's
 * number into mutexes. If it were killed, all processes of the host would wait for them for ever.
 */
struct robust {
    void *list; /* NULL: not known */
    size_t size;
};

/* Where glibc has the number: before the list, with one pointer between them. */
static pid_t *number_beside(const struct robust *robust)
{
    return (pid_t *)((char *)robust->list - 2 * sizeof(void *));
}

static struct robust robust_now(void)
{
    struct robust robust = {NULL, 0};
    if (sys_call3(SYS_get_robust_list, 0, &robust.list, &robust.size) != 0 || !robust.list ||
        *number_beside(&robust) != sys_gettid())
        robust.list = NULL;
    return robust;
}

/* In the child's copy of the parent's memory. */
static void robust_child(const struct robust *robust)
{
    if (!robust->list)
        return;
    *number_beside(robust) = sys_gettid();
    sys_call2(SYS_set_robust_list, robust->list, robust->size);
}

long preload_raw_fork(long number, long a, long b, long c, long d, long e)
{
    bool active = preload_active(), alone = !active || sys_thread_alone();
    struct robust robust = {NULL, 0};
    if (active) {
        robust = robust_now();
        sys_foreign_fork_begin();
        preload_fork_prepare();
    }
    long child = sys_call6(number, a, b, c, d, e, 0);
    if (active && child == 0)
        robust_child(&robust);
    if (child == 0 && !alone)
        sys_thread_forbid();
    if (active) {
        (child == 0 ? preload_fork_child : preload_fork_parent)();
        sys_foreign_fork_end();
    }
    return child;
}

struct clone_start {
    int (*function)(void *);
    void *argument;
    struct robust robust;
    bool alone;
};

/* In the child's copy of the parent's memory. */
static int clone_child(void *argument)
{
    struct clone_start start = *(struct clone_start *)argument;
    robust_child(&start.robust);
    if (!start.alone)
        sys_thread_forbid();
    preload_fork_child();
    return start.function(start.argument);
}

/* Without CLONE_VM this is a fork. With it the child is a thread, and needs nothing. Only if it has
 * descriptors of its own, and its parent waits for it, is it a vfork(). */
PRELOAD_EXPORT int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    va_list arguments;
    va_start(arguments, argument);
    pid_t *parent_tid = va_arg(arguments, pid_t *);
    void *tls = va_arg(arguments, void *);
    pid_t *child_tid = va_arg(arguments, pid_t *);
    va_end(arguments);
    if ((flags & CLONE_VM) && (flags & CLONE_VFORK) && !(flags & CLONE_FILES) && preload_active())
        flags &= ~(CLONE_VM | CLONE_VFORK);
    if ((flags & CLONE_VM) || function == NULL || !preload_active())
        return PRELOAD_REAL(clone)(function, stack, flags, argument, parent_tid, tls, child_tid);

    struct clone_start start = {function, argument, robust_now(), sys_thread_alone()};
    sys_foreign_fork_begin();
    preload_fork_prepare();
    int child = PRELOAD_REAL(clone)(clone_child, stack, flags, &start, parent_tid, tls, child_tid);
    int saved = errno;
    preload_fork_parent();
    sys_foreign_fork_end();
    errno = saved;
    return child;
}

/* ---- exec --------------------------------------------------------------------------------------
 *
 * The new program finds the descriptors that stay open, and adopts them again. What this process
 * wrote is committed first: at its exit the new program would not do it. */

/* Collects the arguments of execl(3) and its sisters. Then `rest` is behind the NULL. libc's header
 * promises that the first argument is not NULL; the empty assembler statement hides that from the
 * compiler. */
#define COLLECT(argv, first, rest)                                                         \
    const char *argv##_first = (first);                                                    \
    __asm__("" : "+r"(argv##_first));                                                      \
    size_t argv##_count = 1;                                                               \
    va_list rest;                                                                          \
    va_start(rest, first);                                                                 \
    for (const char *next = argv##_first; next != NULL; next = va_arg(rest, const char *)) \
        argv##_count++;                                                                    \
    va_end(rest);                                                                          \
    char *argv[argv##_count];                                                              \
    argv[0] = (char *)argv##_first;                                                        \
    va_start(rest, first);                                                                 \
    for (size_t i = 1; i < argv##_count; i++)                                              \
    argv[i] = va_arg(rest, char *)

PRELOAD_EXPORT int execl(const char *path, const char *argument, ...)
{
    COLLECT(argv, argument, rest);
    va_end(rest);
    preload_commit();
    return PRELOAD_REAL(execv)(path, argv);
}

PRELOAD_EXPORT int execle(const char *path, const char *argument, ...)
{
    COLLECT(argv, argument, rest);
    char *const *envp = va_arg(rest, char *const *);
    va_end(rest);
    preload_commit();
    return PRELOAD_REAL(execve)(path, argv, envp);
}

PRELOAD_EXPORT int execlp(const char *file, const char *argument, ...)
{
    COLLECT(argv, argument, rest);
    va_end(rest);
    preload_commit();
    return PRELOAD_REAL(execvp)(file, argv);
}

PRELOAD_EXPORT int execv(const char *path, char *const argv[])
{
    preload_commit();
    return PRELOAD_REAL(execv)(path, argv);
}

PRELOAD_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    preload_commit();
    return PRELOAD_REAL(execve)(path, argv, envp);
}

PRELOAD_EXPORT int execvp(const char *file, char *const argv[])
{
    preload_commit();
    return PRELOAD_REAL(execvp)(file, argv);
}

PRELOAD_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    preload_commit();
    return PRELOAD_REAL(execvpe)(file, argv, envp);
}

PRELOAD_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    preload_commit();
    return PRELOAD_REAL(fexecve)(fd, argv, envp);
}

PRELOAD_EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const envp[],
                            int flags)
{
    preload_commit();
    return PRELOAD_REAL(execveat)(dirfd, path, argv, envp, flags);
}

/*
 * Inside libc, the child carries out its file actions as system calls. They work on its own copy of
 * the descriptors, where ours are FD_CLOEXEC. The parent goes on, and commits in its own time. But
 * shared descriptors must be as the kernel expects them. Written data must be at the server, as the
 * child may have no library.
 */
void preload_share(void)
{
    if (preload_active())
        preload_stay_call(durable_write_out_all);
}

PRELOAD_EXPORT int posix_spawn(pid_t *pid, const char *path,
                               const posix_spawn_file_actions_t *actions,
                               const posix_spawnattr_t *attributes, char *const argv[],
                               char *const envp[])
{
    preload_share();
    return PRELOAD_REAL(posix_spawn)(pid, path, actions, attributes, argv, envp);
}

PRELOAD_EXPORT int posix_spawnp(pid_t *pid, const char *file,
                                const posix_spawn_file_actions_t *actions,
                                const posix_spawnattr_t *attributes, char *const argv[],
                                char *const envp[])
{
    preload_share();
    return PRELOAD_REAL(posix_spawnp)(pid, file, actions, attributes, argv, envp);
}

/* libc spawns inside these. */
PRELOAD_EXPORT int system(const char *command)
{
    preload_share();
    return PRELOAD_REAL(system)(command);
}

PRELOAD_EXPORT FILE *popen(const char *command, const char *mode)
{
    preload_share();
    return PRELOAD_REAL(popen)(command, mode);
}

/* ---- exit --------------------------------------------------------------------------------------
 *
 * exit(3) runs our destructor; these do not.
 */

PRELOAD_EXPORT void _exit(int status)
{
    preload_finish();
    for (;;)
        sys_call1(SYS_exit_group, status);
}

PRELOAD_EXPORT void quick_exit(int status)
{
    preload_finish();
    PRELOAD_REAL(quick_exit)(status);
    __builtin_unreachable();
}

/* The process ends with the program's last thread, though threads of the library still run. */
PRELOAD_EXPORT void pthread_exit(void *result)
{
    if (sys_gettid() == sys_getpid() && preload_active())
        sys_thread_first_ends();
    PRELOAD_REAL(pthread_exit)(result);
    __builtin_unreachable();
}

/* ---- libraries ---------------------------------------------------------------------------------
 *
 * RTLD_DEEPBIND would let a library find libc's functions before ours. The real function finds the
 * caller's DT_RUNPATH, $ORIGIN and namespace by its return address. */

PRELOAD_EXPORT LEAVE_BY_JUMP void *dlopen(const char *file, int mode)
{
    mode &= ~RTLD_DEEPBIND;
    if (!(mode & RTLD_NOLOAD))
        preload_raw_loading();
    JUMP PRELOAD_REAL(dlopen)(file, mode);
}

PRELOAD_EXPORT LEAVE_BY_JUMP void *dlmopen(Lmid_t space, const char *file, int mode)
{
    mode &= ~RTLD_DEEPBIND;
    preload_raw_loading();
    JUMP PRELOAD_REAL(dlmopen)(space, file, mode);
}
