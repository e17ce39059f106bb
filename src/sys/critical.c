#include "sys/critical.h"

__thread struct sys_critical sys_critical;
_Atomic bool sys_critical_faults, sys_critical_caught;

/* The mask of signals is a system call away; hardly any program changes that of these two. */
enum { ASK_EVERY = 64 };

bool sys_critical_can_guard(void)
{
    if (!atomic_load_explicit(&sys_critical_caught, memory_order_relaxed))
        return false;
    if (sys_critical.unasked-- == 0) {
        unsigned long mask = ~0UL;
        sys_sigprocmask(SIG_BLOCK, NULL, &mask);
        sys_critical.open = !(mask & (1UL << (SIGSEGV - 1) | 1UL << (SIGBUS - 1)));
        sys_critical.unasked = ASK_EVERY - 1;
    }
    return sys_critical.open;
}

int sys_critical_guarded(void (*access)(const void *argument), const void *argument)
{
    jmp_buf guard;
    if (_setjmp(guard) != 0) {
        sys_critical.guard = NULL;
        return -EFAULT;
    }
    sys_critical.guard = &guard;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    access(argument);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    sys_critical.guard = NULL;
    return 0;
}
