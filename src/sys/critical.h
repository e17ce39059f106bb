/*
 * Critical sections with respect to signals.
 *
 * While a thread works inside the library it may hold locks and own half a conversation with a
 * server. A signal handler of the application that ran there could call back into the library and
 * deadlock, or leave with siglongjmp(). As for a system call on a local file, handlers therefore
 * run only when the call is over. It costs no system call: src/preload/signal.c hands every handler
 * of the application to the kernel as a trampoline, which inside a critical section blocks signals
 * in the interrupted context, queues the signal again, and returns; leaving the section unblocks.
 */
#ifndef SYS_CRITICAL_H
#define SYS_CRITICAL_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sys/sys.h"

struct sys_critical {
    int depth;                      /* sections entered by this thread */
    volatile sig_atomic_t deferred; /* a signal was: the mask must be restored. Set by the
                                       trampoline, and cleared by leaving, by nobody else */
    bool patient;                   /* the thread waits on though a signal was deferred */
    volatile unsigned long mask;    /* to restore: what all contexts block in which a signal was
                                       deferred since; all ones if none was */
    jmp_buf *guard;                 /* while memory of the application is read: see below */
    bool vforked;        /* this is a child of vfork(), or its parent that waits: handlers
                            run at once, and what is set for signals is the child's own */
    bool open;           /* SIGSEGV and SIGBUS were not blocked when it was asked last */
    unsigned unasked;    /* times that it need not be asked again */
    const char *handler; /* the frame that called a handler of the application; it may
                            have been left by siglongjmp() */
};

extern __thread struct sys_critical sys_critical;

/*
 * Memory of the application may not be there: a handler for SIGSEGV and SIGBUS, the application's
 * or else the library's, jumps to the guard then. One of the application shall not run, and not
 * leave by siglongjmp(), when the library touches such memory.
 */
extern _Atomic bool sys_critical_faults; /* the application has, or had, one for one of the two */
extern _Atomic bool sys_critical_caught; /* there is one for both */
/* Is there one? Without it a fault ends the program, and a guard is of no use. */
static inline bool sys_critical_catches(void)
{
    return atomic_load_explicit(&sys_critical_caught, memory_order_relaxed) ||
           atomic_load_explicit(&sys_critical_faults, memory_order_relaxed);
}
/* Does the guard hold in this thread? Without it a fault would end the program. */
bool sys_critical_can_guard(void);
/* Calls access(argument), which touches such memory, under the guard. 0, or -EFAULT. */
int sys_critical_guarded(void (*access)(const void *argument), const void *argument);

/* Lets in what was deferred. Until then the trampoline defers, though the section is over. */
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

/* A signal was deferred, and who waits shall return, so that its handler can run. */
static inline bool sys_critical_interrupts(void)
{
    return sys_critical.deferred && !sys_critical.patient;
}

/* Whether this thread waits on though a signal was deferred. Returns whether it did, for whoever
 * sets that again when it has waited. */
static inline bool sys_critical_set_patient(bool patient)
{
    bool before = sys_critical.patient;
    sys_critical.patient = patient;
    return before;
}

/* In a handler, which may have interrupted malloc() and pthread_create(): neither may be called. */
static inline bool sys_critical_in_handler(void)
{
    enum { DEEPEST = 1 << 20 };
    const char *frame = sys_critical.handler, *here = __builtin_frame_address(0);
    return frame && here < frame && frame - here < DEEPEST;
}

/* True while this thread is inside the library: calls that arrive then are the library's own. */
static inline int sys_critical_inside(void)
{
    return sys_critical.depth != 0;
}

#endif
