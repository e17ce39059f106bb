#include "sys/critical.h"

__thread struct sys_critical sys_critical = {.mask = ~0UL};
_Atomic bool sys_critical_faults, sys_critical_caught;

/* Asking for the mask costs a system call, and hardly any program changes it for these two
 * signals. */
enum { ASK_EVERY = 64 };

/* All signals are blocked here, even those that the trampoline lets in. One that came amidst would
 * be deferred, or its handler called, with a mask that is not the thread's own. */
void sys_critical_restore(void)
{
    const unsigned long all = ~0UL;
    sys_sigprocmask(SIG_BLOCK, &all, NULL);
    unsigned long mask = sys_critical.mask;
    sys_critical.mask = ~0UL;
    sys_critical.deferred = 0;
    sys_sigprocmask(SIG_SETMASK, &mask, NULL);
}

static const unsigned long faults = 1UL << (SIGSEGV - 1) | 1UL << (SIGBUS - 1);

/* Are both signals let in? */
__attribute__((noinline)) static bool is_open(void)
{
    if (sys_critical.unasked-- == 0) {
        unsigned long mask = ~0UL;
        sys_sigprocmask(SIG_BLOCK, NULL, &mask);
        sys_critical.open = !(mask & faults);
        sys_critical.unasked = ASK_EVERY - 1;
    }
    return sys_critical.open;
}

bool sys_critical_can_guard(void)
{
    return atomic_load_explicit(&sys_critical_caught, memory_order_relaxed) && is_open();
}

/* The masks of a thread that blocks one of the two signals. */
struct closed {
    unsigned long now, own; /* `now`: until both were let in; `own`: with no signal deferred */
};

/* Lets both in; the kernel would end the program otherwise. */
static struct closed open_for_faults(void)
{
    struct closed closed;
    bool deferred = sys_critical.deferred;
    closed.own = sys_critical.mask;
    sys_sigprocmask(SIG_UNBLOCK, &faults, &closed.now);
    if (!deferred)
        closed.own = closed.now;
    return closed;
}

/* A signal that was deferred meanwhile saw the mask of that time: put in the thread's own. */
static void close_for_faults(const struct closed *closed)
{
    sys_sigprocmask(SIG_SETMASK, &closed->now, NULL);
    if (sys_critical.deferred)
        sys_critical.mask = closed->own;
}

int sys_critical_guarded(void (*access)(const void *argument), const void *argument)
{
    jmp_buf guard;
    struct closed closed;
    bool open = is_open();
    if (!open)
        closed = open_for_faults();
    if (_setjmp(guard) != 0) {
        sys_critical.guard = NULL;
        if (!open)
            close_for_faults(&closed);
        return -EFAULT;
    }
    sys_critical.guard = &guard;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    access(argument);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    sys_critical.guard = NULL;
    if (!open)
        close_for_faults(&closed);
    return 0;
}
