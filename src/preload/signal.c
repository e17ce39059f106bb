/*
 * Handlers of the application run between our calls, never inside one (sys/critical.h).
 *
 * The kernel gets a trampoline for each handler, with the application's mask and flags. Outside a
 * critical section the trampoline calls the handler at once. Inside, it does three things. It
 * blocks all signals that have a handler in the interrupted context. It sends itself the same
 * signal with the same siginfo_t, which so stays pending. It returns. Then sys_critical_leave()
 * restores the mask, and the handler runs.
 *
 * SIG_DFL and SIG_IGN pass through. Nothing is inherited over exec: the kernel resets handlers.
 */
#include <string.h>

#include "preload/preload.h"
#include "sys/code.h"

enum { SIGNALS = 65 };

/*
 * What the trampoline must know of a signal, in one word: handlers and other threads read it
 * without a lock. It has the handler's address, of which the upper bits are clear in user space,
 * and two flags. 0: no handler was ever set. The kernel keeps the rest (mask, other flags) for us.
 */
#define WORD_SIGINFO   (UINT64_C(1) << 63)
#define WORD_RESETHAND (UINT64_C(1) << 62)
#define WORD_ADDRESS   (WORD_RESETHAND - 1)
static _Atomic uint64_t handlers[SIGNALS];

/* Signals that have a handler now: a bit each. Any other signal may end the program at any time. */
static _Atomic uint64_t handled;

static uint64_t bit_of(int number)
{
    return UINT64_C(1) << (number - 1);
}

/* Held while word and kernel are changed together. It is taken in a critical section, so the thread
 * that has it runs no handler that would wait for it. Reset in the child of fork(). */
static atomic_flag changing = ATOMIC_FLAG_INIT;

static atomic_bool trampolines; /* set once, at start */

/* Memory of the application is touched under a guard (sys/critical.h). So SIGSEGV and SIGBUS have
 * the trampoline even if the application has no handler. */
static atomic_bool guarding;

static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS;
}

static bool is_guarding(int number)
{
    return is_fault(number) && atomic_load_explicit(&guarding, memory_order_relaxed);
}

/* Signals for which siginterrupt(3) was called with true: a bit each. */
static _Atomic uint64_t interrupting;

/* Signals by which the processor reports what the interrupted instruction did. */
static const unsigned long synchronous_signals = 1UL << (SIGSEGV - 1) | 1UL << (SIGBUS - 1) |
                                                 1UL << (SIGFPE - 1) | 1UL << (SIGILL - 1) |
                                                 1UL << (SIGTRAP - 1) | 1UL << (SIGSYS - 1);

/* libc's own: thread cancellation, and setuid() of all threads. They must not wait for us. */
static const unsigned long libc_signals = 1UL << (32 - 1) | 1UL << (33 - 1);

static bool is_synchronous(int number, const siginfo_t *info)
{
    return info->si_code > 0 && (synchronous_signals >> (number - 1) & 1);
}

static uint64_t word_of(const struct sigaction *action)
{
    return (uint64_t)(uintptr_t)action->sa_sigaction |
           (action->sa_flags & SA_SIGINFO ? WORD_SIGINFO : 0) |
           ((unsigned)action->sa_flags & SA_RESETHAND ? WORD_RESETHAND : 0);
}

static bool is_handler(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* Sends the signal to this thread again, unchanged. */
static void queue_again(int number, siginfo_t *info)
{
    long pid = sys_getpid(), tid = sys_gettid();
    if (sys_call4(SYS_rt_tgsigqueueinfo, pid, tid, number, info) == 0)
        return;
    /* There is no room for another queued signal (RLIMIT_SIGPENDING). A signal without its
     * siginfo_t is better than none. The kernel sends it without room if it looks as if sent by
     * kill(), even a real-time one. */
    siginfo_t plain;
    memset(&plain, 0, sizeof(plain));
    plain.si_signo = number;
    plain.si_code = SI_USER;
    sys_call4(SYS_rt_tgsigqueueinfo, pid, tid, number, &plain);
}

/*
 * Several trampolines may be on the stack: the kernel entered them one after the other. What each
 * interrupted blocks at least what the thread itself blocks. So the thread's own mask is what all
 * of them block. That holds in whatever order they run, and at whatever instruction another one
 * comes.
 */
static void defer(int number, siginfo_t *info, ucontext_t *context)
{
    /* The signal itself is always blocked, else it would come again at once, and for ever. If it is
     * of a kind that faults raise, kill() sent it. The guard holds no more then. */
    unsigned long blocked =
        (atomic_load(&handled) & ~(synchronous_signals | libc_signals)) | bit_of(number);
    if (is_fault(number))
        sys_critical.unasked = 0;
    unsigned long mask;
    memcpy(&mask, &context->uc_sigmask, sizeof(mask));
    sys_critical.mask &= mask;
    sys_critical.deferred = 1;
    /* Now, because of SA_NODEFER; and again when the trampoline returns. */
    sys_sigprocmask(SIG_BLOCK, &blocked, NULL);
    mask |= blocked;
    memcpy(&context->uc_sigmask, &mask, sizeof(mask));
    queue_again(number, info);
}

static void lock(void)
{
    sys_critical_enter();
    while (atomic_flag_test_and_set_explicit(&changing, memory_order_acquire))
        sys_call0(SYS_sched_yield);
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&changing, memory_order_release);
    sys_critical_leave();
}

/* SA_RESETHAND: one thread runs the handler, and all others meet the default. */
static uint64_t take_once(int number)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    lock();
    uint64_t word = atomic_load(&handlers[number]);
    if (word & WORD_RESETHAND) {
        atomic_store(&handlers[number], 0);
        if (is_fault(number))
            atomic_store(&sys_critical_caught, false);
        PRELOAD_REAL(sigaction)(number, &standard, NULL);
        atomic_fetch_and(&handled, ~bit_of(number));
    }
    unlock();
    return word;
}

/* Leaves the handler as by a return, but goes to the guard. */
static void jump_to_guard(const ucontext_t *context)
{
    unsigned long mask;
    memcpy(&mask, &context->uc_sigmask, sizeof(mask));
    sys_sigprocmask(SIG_SETMASK, &mask, NULL);
    _longjmp(*sys_critical.guard, 1);
}

/* The application has no handler. If an instruction faulted, it is carried out again and meets the
 * default. Any other signal is sent again. */
static void meet_default(int number, siginfo_t *info)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    if (!sys_critical.vforked)
        atomic_store(&sys_critical_caught, false);
    PRELOAD_REAL(sigaction)(number, &standard, NULL);
    if (!is_synchronous(number, info))
        queue_again(number, info);
}

static void call(void *handler, int number, siginfo_t *info, void *context)
{
    const char *before = sys_critical.handler;
    bool waited = sys_critical.waited;
    sys_critical.waited = (!before || waited) && sys_code_waited(context);
    sys_critical.handler = __builtin_frame_address(0);
    /* The kernel passes all three even without SA_SIGINFO. */
    ((void (*)(int, siginfo_t *, void *))handler)(number, info, context);
    sys_critical.handler = before;
    sys_critical.waited = waited;
}

static void trampoline(int number, siginfo_t *info, void *context)
{
    if (sys_critical.guard && is_fault(number) && is_synchronous(number, info))
        jump_to_guard(context);
    uint64_t word = atomic_load(&handlers[number]);
    bool ends = is_guarding(number) && !(word & WORD_ADDRESS); /* as any default does: at once */
    bool inside = (sys_critical_inside() && !sys_critical.vforked) || sys_critical.deferred;
    if (inside && !is_synchronous(number, info) && !ends) {
        defer(number, info, context);
        return;
    }
    if (PRELOAD_UNLIKELY(word & WORD_RESETHAND) && !sys_critical.vforked)
        word = take_once(number);
    void *handler = (void *)(uintptr_t)(word & WORD_ADDRESS);
    if (handler == NULL && is_guarding(number))
        meet_default(number, info);
    else if (handler == NULL)
        queue_again(number, info);
    else
        call(handler, number, info, context);
}

void preload_signal_child(void)
{
    atomic_flag_clear(&changing);
}

/* Makes `old` what the application set. */
static void show_application(struct sigaction *old, uint64_t word)
{
    if (old->sa_sigaction != trampoline)
        return;
    unsigned flags = (unsigned)old->sa_flags & ~(unsigned)SA_SIGINFO;
    flags |= word & WORD_SIGINFO ? SA_SIGINFO : 0;
    flags |= word & WORD_RESETHAND ? (unsigned)SA_RESETHAND : 0;
    old->sa_flags = (int)flags;
    old->sa_sigaction = (void (*)(int, siginfo_t *, void *))(uintptr_t)(word & WORD_ADDRESS);
}

PRELOAD_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!atomic_load_explicit(&trampolines, memory_order_relaxed) || number < 1 ||
        number >= SIGNALS)
        return PRELOAD_REAL(sigaction)(number, action, old);

    /* Copies: a bad pointer of the caller must fault before the lock is taken. */
    struct sigaction new, previous;
    bool handler = false;
    if (sys_critical.vforked) { /* the words are the parent's */
        int done = PRELOAD_REAL(sigaction)(number, action, old);
        if (done == 0 && old != NULL)
            show_application(old, atomic_load(&handlers[number]));
        return done;
    }
    if (action != NULL) {
        new = *action;
        handler = is_handler(&new);
    }
    uint64_t wanted = handler ? word_of(&new) : 0;
    bool guard = action != NULL && is_guarding(number) && new.sa_handler == SIG_DFL;
    if (handler || guard) {
        new.sa_sigaction = trampoline;
        new.sa_flags = (int)(((unsigned)new.sa_flags | SA_SIGINFO) & ~(unsigned)SA_RESETHAND);
    }

    lock();
    uint64_t word = atomic_load(&handlers[number]);
    /* First our word, then the kernel. On the way back to SIG_DFL the word stays, for a trampoline
     * that is about to run. */
    if (handler || guard)
        atomic_store(&handlers[number], wanted);
    uint64_t before = handler ? atomic_fetch_or(&handled, bit_of(number)) : atomic_load(&handled);
    if (handler && is_fault(number))
        atomic_store(&sys_critical_faults, true);
    if (action && is_fault(number) && !handler && !guard)
        atomic_store(&sys_critical_caught, false);
    int result = PRELOAD_REAL(sigaction)(number, action ? &new : NULL, &previous);
    int saved = errno;
    if (result != 0 && (handler || guard))
        atomic_store(&handlers[number], word);
    if (result == 0 ? action && !handler : !(before & bit_of(number)))
        atomic_fetch_and(&handled, ~bit_of(number));
    unlock();

    if (result == 0 && old != NULL) {
        show_application(&previous, word);
        *old = previous;
    }
    errno = saved;
    return result;
}

static preload_handler set_handler(int number, preload_handler handler, unsigned flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)flags}, old;
    sigemptyset(&action.sa_mask);
    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* BSD semantics, as in libc: system calls are restarted unless siginterrupt(3) says otherwise. */
PRELOAD_EXPORT preload_handler signal(int number, preload_handler handler)
{
    bool interrupt =
        number >= 1 && number < SIGNALS && (atomic_load(&interrupting) >> (number - 1) & 1);
    return set_handler(number, handler, interrupt ? 0 : SA_RESTART);
}

PRELOAD_EXPORT preload_handler sysv_signal(int number, preload_handler handler)
{
    return set_handler(number, handler, (unsigned)SA_RESETHAND | SA_NODEFER);
}

/* sigset(3): SIG_HOLD blocks the signal, everything else sets the disposition and unblocks it. */
PRELOAD_EXPORT preload_handler sigset(int number, preload_handler disposition)
{
    sigset_t set, before;
    struct sigaction old;
    sigemptyset(&set);
    if (sigaddset(&set, number) < 0)
        return SIG_ERR;
    if (disposition == SIG_HOLD) {
        if (pthread_sigmask(SIG_BLOCK, &set, &before) != 0 || sigaction(number, NULL, &old) < 0)
            return SIG_ERR;
    } else {
        old.sa_handler = set_handler(number, disposition, 0);
        if (old.sa_handler == SIG_ERR || pthread_sigmask(SIG_UNBLOCK, &set, &before) != 0)
            return SIG_ERR;
    }
    return sigismember(&before, number) ? SIG_HOLD : old.sa_handler;
}

PRELOAD_EXPORT int siginterrupt(int number, int interrupt)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) < 0)
        return -1;
    uint64_t bit = UINT64_C(1) << (number - 1);
    if (interrupt) {
        atomic_fetch_or(&interrupting, bit);
        action.sa_flags &= ~SA_RESTART;
    } else {
        atomic_fetch_and(&interrupting, ~bit);
        action.sa_flags |= SA_RESTART;
    }
    return sigaction(number, &action, NULL);
}

/* The kernel is asked for each signal: that costs half of what proc(5) takes to tell it. */
void preload_signal_start(void)
{
    atomic_store(&trampolines, true);
    for (int number = 1; number < SIGNALS; number++) {
        struct sigaction action;
        if (PRELOAD_REAL(sigaction)(number, NULL, &action) == 0 && is_handler(&action))
            sigaction(number, &action, NULL);
    }
}

/* Gives the signal the trampoline. False: it is ignored, or has another handler; nothing
 * changed. */
static bool guard_signal(int number)
{
    struct sigaction action;
    if (PRELOAD_REAL(sigaction)(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN)
        return false;
    if (is_handler(&action))
        return action.sa_sigaction == trampoline;
    sigaction(number, &action, NULL);
    return true;
}

void preload_signal_guard(void)
{
    if (atomic_exchange(&guarding, true))
        return;
    bool both = guard_signal(SIGSEGV);
    both = guard_signal(SIGBUS) && both;
    atomic_store(&sys_critical_caught, both);
}

/* ---- memory of the application ---- */

struct piece {
    void *to; /* NULL: a byte of each page is read */
    const void *from;
    size_t size;
};

static void copy_piece(const void *argument)
{
    enum { PAGE = 4096 };
    const struct piece *piece = argument;
    const volatile uint8_t *at = piece->from, *last = at + piece->size - 1;
    if (piece->to)
        memcpy(piece->to, piece->from, piece->size);
    for (; !piece->to && at < last; at += PAGE)
        (void)*at;
    if (!piece->to)
        (void)*last;
}

static int copy(const struct piece *piece)
{
    int result = 0;
    sys_critical_enter();
    if (sys_critical_catches())
        result = sys_critical_guarded(copy_piece, piece);
    else
        copy_piece(piece);
    sys_critical_leave();
    return result;
}

int preload_get(void *to, const void *from, size_t size)
{
    const struct piece piece = {to, from, size};
    return sys_bad_pointer(from) ? -EFAULT : copy(&piece);
}

int preload_put(void *to, const void *from, size_t size)
{
    const struct piece piece = {to, from, size};
    return sys_bad_pointer(to) ? -EFAULT : copy(&piece);
}
