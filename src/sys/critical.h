/*
 * Critical sections: no signal handler of the application runs in them.
 *
 * A thread inside the library may hold locks and be amidst a conversation with a server. A signal
 * handler of the application that ran there could call the library and deadlock, or leave with
 * siglongjmp(). So handlers run only when the call is over, as for a system call on a local file.
 * This costs no system call. src/preload/signal.c gives the kernel a trampoline for every handler
 * of the application. Inside a critical section, the trampoline blocks signals in the interrupted
 * context, queues the signal again, and returns. Leaving the section unblocks them.
 */
#ifndef SYS_CRITICAL_H
#define SYS_CRITICAL_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sys/sys.h"

struct sys_critical {
    int depth;                      /* sections entered by this thread */
    volatile sig_atomic_t deferred; /* a signal was deferred: the mask must be restored. Only the
                                       trampoline sets it, and only leaving clears it */
    bool patient;                   /* the thread waits on though a signal was deferred */
    volatile unsigned long mask; /* to restore: the signals that were blocked each time that one was
                                    deferred; all ones: none was deferred */
    jmp_buf *guard;              /* set while memory of the application is read: see below */
    bool vforked; /* a child of vfork(), or its parent that waits for it: handlers run at once, and
                     the child's settings for signals are its own */
    bool open;    /* SIGSEGV and SIGBUS were not blocked when the kernel was asked last */
    unsigned unasked;    /* how many times it need not be asked again */
    const char *handler; /* the frame that called a handler of the application; siglongjmp() may
                            have left it since */
    bool waited; /* the handler ended a wait in the kernel, and so did those that it interrupted */
};

extern __thread struct sys_critical sys_critical;

/*
 * Memory of the application may be missing. Then a handler for SIGSEGV and SIGBUS, the
 * application's or else the library's, jumps to the guard. While the library touches such memory, a
 * handler of the application must neither run nor leave by siglongjmp().
 */
extern _Atomic bool sys_critical_faults; /* the application has, or had, one of them */
extern _Atomic bool sys_critical_caught; /* there is a handler for each */
/* Is there a handler? Without one a fault ends the program, and a guard is of no use. */
static inline bool sys_critical_catches(void)
{
    return atomic_load_explicit(&sys_critical_caught, memory_order_relaxed) ||
           atomic_load_explicit(&sys_critical_faults, memory_order_relaxed);
}
/* Does a guard work in this thread? If not, a fault would end the program. */
bool sys_critical_can_guard(void);
/* Calls access(argument), which touches such memory, under the guard. 0 or -EFAULT. */
int sys_critical_guarded(void (*access)(const void *argument), const void *argument);

/* Lets in the deferred signals. Until then the trampoline defers, though the section is over. */
void sys_critical_restore(void);

static inline void sys_critical_enter(void)
{
    sys_critical.depth++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void sys_critical_leave(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    sys_critical.depth--;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(sys_critical.deferred && sys_critical.depth == 0, 0))
        sys_critical_restore();
}

/* Was a signal deferred, so that a wait must end for its handler to run? */
static inline bool sys_critical_interrupts(void)
{
    return sys_critical.deferred && !sys_critical.patient;
}

/* Sets whether this thread waits on though a signal was deferred. Returns what was set before,
 * which the caller sets again after the wait. */
static inline bool sys_critical_set_patient(bool patient)
{
    bool before = sys_critical.patient;
    sys_critical.patient = patient;
    return before;
}

/* Is this thread in a handler? It may have interrupted malloc() or pthread_create(): call
 * neither. */
static inline bool sys_critical_in_handler(void)
{
    enum { DEEPEST = 1 << 20 };
    const char *frame = sys_critical.handler, *here = __builtin_frame_address(0);
    return frame && here < frame && frame - here < DEEPEST;
}

/* In the child of a fork() that a handler made: it may go on for ever, as servers' children do. If
 * the handler ended a wait in the kernel, the thread was amidst nothing. */
static inline void sys_critical_fork_child(void)
{
    if (sys_critical.waited)
        sys_critical.handler = NULL;
}

/* Is this thread inside the library? Calls that arrive then are the library's own. */
static inline int sys_critical_inside(void)
{
    return sys_critical.depth != 0;
}

#endif
