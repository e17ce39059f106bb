/*
 * syscall(2): some programs and libraries make wrapped calls through it. Such a call goes to the
 * wrapper. All others (futex, gettid, ...) go to the kernel at once. So do the calls of a library
 * that the wrapper itself called: tcmalloc's mmap() makes its system call here.
 */
#include <linux/sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

#include "preload/aio/context.h"
#include "preload/preload.h"
#include "preload/uring/uring.h"

static long returned(long result)
{
    if ((unsigned long)result > -4096UL)
        return preload_fail((int)-result);
    return result;
}

/*
 * A child on the same stack with shared memory is a vfork(); it becomes a plain fork. Otherwise it
 * would change our table of descriptors, and return from this function. (See vfork.c.)
 */
static unsigned long fork_flags(unsigned long flags)
{
    return flags & ~(unsigned long)(CLONE_VM | CLONE_VFORK);
}

static bool is_fork(unsigned long flags, unsigned long stack)
{
    return stack == 0 && !(flags & CLONE_THREAD);
}

static long call_clone(long flags, long stack, long c, long d, long e)
{
    if (is_fork((unsigned long)flags, (unsigned long)stack))
        return returned(
            preload_raw_fork(SYS_clone, (long)fork_flags((unsigned long)flags), stack, c, d, e));
    return returned(sys_call5(SYS_clone, flags, stack, c, d, e));
}

static long call_clone3(const struct clone_args *arguments, size_t size)
{
    if (size < CLONE_ARGS_SIZE_VER0 || size > sizeof(struct clone_args) ||
        !is_fork(arguments->flags, arguments->stack))
        return returned(sys_call2(SYS_clone3, arguments, size));
    struct clone_args copy = {0};
    memcpy(&copy, arguments, size);
    copy.flags = fork_flags(copy.flags);
    return returned(preload_raw_fork(SYS_clone3, (long)&copy, (long)size, 0, 0, 0));
}

/* The kernel's struct sigaction, which differs from libc's. */
struct kernel_sigaction {
    preload_handler handler;
    unsigned long flags;
    void (*restorer)(void); /* on x86-64 and arm64 */
    unsigned long mask;
};

static long call_rt_sigaction(int number, const struct kernel_sigaction *action,
                              struct kernel_sigaction *old, size_t size)
{
    struct sigaction new, previous;
    /* libc keeps two real-time signals for itself, and its sigaction() refuses them. */
    if (size != sizeof(unsigned long) || (number >= 32 && number < SIGRTMIN))
        return returned(sys_call4(SYS_rt_sigaction, number, action, old, size));
    if (action != NULL) {
        memset(&new, 0, sizeof(new));
        new.sa_handler = action->handler;
        new.sa_flags = (int)action->flags;
        memcpy(&new.sa_mask, &action->mask, sizeof(action->mask));
    }
    if (sigaction(number, action ? &new : NULL, old ? &previous : NULL) < 0)
        return -1;
    if (old != NULL) {
        memset(old, 0, sizeof(*old));
        old->handler = previous.sa_handler;
        old->flags = (unsigned)previous.sa_flags;
        memcpy(&old->mask, &previous.sa_mask, sizeof(old->mask));
    }
    return 0;
}

/* A wrapper has its arguments and result in the same registers as syscall(). */
static inline long pass(void *wrapper, long a, long b, long c, long d, long e, long f)
{
    return ((long (*)(long, long, long, long, long, long))wrapper)(a, b, c, d, e, f);
}

#define SYMBOL_OF(name, ...) __VA_OPT__(SYMBOL_OF_NUMBER(name, __VA_ARGS__))
#define SYMBOL_OF_NUMBER(name, number, type) \
    case number:                             \
        return PRELOAD_##name;

/* The wrapper that syscall() would call. PRELOAD_SYMBOLS: none that calls a real function. */
static enum preload_symbol symbol_of(long number)
{
    switch (number) {
        PRELOAD_ALL(SYMBOL_OF, PRELOAD_NOTHING)
    case SYS_preadv2:
        return PRELOAD_preadv2;
    case SYS_pwritev2:
        return PRELOAD_pwritev2;
    case SYS_fchmodat:
        return PRELOAD_fchmodat;
    case SYS_sync:
        return PRELOAD_sync;
    case SYS_fadvise64:
        return PRELOAD_posix_fadvise;
    case SYS_rt_sigaction:
        return PRELOAD_sigaction;
#ifdef SYS_open
    case SYS_open:
        return PRELOAD_open;
#endif
    default:
        return PRELOAD_SYMBOLS;
    }
}

/* True if the wrapper called the caller: then the caller means the kernel. */
static bool is_passed(long number, const void *caller)
{
    enum preload_symbol symbol = symbol_of(number);
    return symbol != PRELOAD_SYMBOLS && preload_is_behind(caller, symbol);
}

#define CALL(name, ...) __VA_OPT__(CALL_WRAPPER(name, __VA_ARGS__))
#define CALL_WRAPPER(name, number, type) \
    case number:                         \
        return (long)(type)pass((void *)name, a, b, c, d, e, f);

PRELOAD_EXPORT long syscall(long number, ...)
{
    /* A system call has six arguments at most, all of the size of a register. */
    va_list arguments;
    va_start(arguments, number);
    long a = va_arg(arguments, long);
    long b = va_arg(arguments, long);
    long c = va_arg(arguments, long);
    long d = va_arg(arguments, long);
    long e = va_arg(arguments, long);
    long f = va_arg(arguments, long);
    va_end(arguments);

    if (is_passed(number, __builtin_return_address(0)))
        return returned(sys_call6(number, a, b, c, d, e, f));

    switch (number) {
        PRELOAD_ALL(CALL, PRELOAD_NOTHING)

    /* e: the high half of the offset on 32 bits. */
    case SYS_preadv2:
        return preadv2((int)a, (const struct iovec *)b, (int)c, d, (int)f);
    case SYS_pwritev2:
        return pwritev2((int)a, (const struct iovec *)b, (int)c, d, (int)f);
    case SYS_fchmodat: /* without flags */
        return fchmodat((int)a, (const char *)b, (mode_t)c, 0);
    case SYS_sync:
        sync();
        return 0;
    case SYS_fadvise64:
        return returned(-posix_fadvise((int)a, b, c, (int)d));

    case SYS_io_setup:
        return returned(aio_io_setup((unsigned)a, (aio_context_t *)b));
    case SYS_io_destroy:
        return returned(aio_io_destroy((aio_context_t)a));
    case SYS_io_submit:
        return returned(aio_io_submit((aio_context_t)a, b, (struct iocb **)c));
    case SYS_io_getevents:
        return returned(aio_io_getevents((aio_context_t)a, b, c, (struct io_event *)d,
                                         (struct timespec *)e, NULL));
    case SYS_io_pgetevents:
        return returned(aio_io_getevents((aio_context_t)a, b, c, (struct io_event *)d,
                                         (struct timespec *)e, (const struct aio_sigset *)f));

    case SYS_io_uring_setup:
        return returned(uring_setup((unsigned)a, (void *)b));
    case SYS_io_uring_enter:
        return returned(
            uring_enter((int)a, (unsigned)b, (unsigned)c, (unsigned)d, (const void *)e, (size_t)f));
    case SYS_io_uring_register:
        return returned(uring_register((int)a, (unsigned)b, (const void *)c, (unsigned)d));

    case SYS_rt_sigaction:
        return call_rt_sigaction((int)a, (const struct kernel_sigaction *)b,
                                 (struct kernel_sigaction *)c, (size_t)d);
    case SYS_clone:
        return call_clone(a, b, c, d, e);
    case SYS_clone3:
        return call_clone3((const struct clone_args *)a, (size_t)b);
    case SYS_setuid:
    case SYS_setreuid:
    case SYS_setresuid:
        return returned(preload_raw_user(number, a, b, c));
    case SYS_execve:
    case SYS_execveat:
        preload_commit();
        break;
    case SYS_exit_group:
        preload_finish();
        break;

#ifdef SYS_open
    case SYS_open:
        return open((const char *)a, (int)b, (mode_t)c);
    case SYS_fork:
    case SYS_vfork:
        return returned(preload_raw_fork(SYS_fork, 0, 0, 0, 0, 0));
#endif
    default:
        break;
    }
    return returned(sys_call6(number, a, b, c, d, e, f));
}
