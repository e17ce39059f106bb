#include "ledger/store/mutex.h"

#include <errno.h>
#include <time.h>

#include "sys/sys.h"

/* The time of day jumps, so it is not used. But ThreadSanitizer knows only
 * pthread_mutex_timedlock(). */
#ifdef __SANITIZE_THREAD__
enum { CLOCK = CLOCK_REALTIME };
#define pthread_mutex_clocklock(mutex, clock, until) pthread_mutex_timedlock(mutex, until)
#else
enum { CLOCK = CLOCK_MONOTONIC };
#endif

enum {
    SPINS = 50,      /* a lock is held for less than a microsecond in most cases */
    AGAIN_MS = 10,   /* see ledger_mutex_lock() */
    TELL_EVERY = 100 /* the agent */
};

/* Tells the processor that this thread spins. */
static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int ledger_mutex_lock_within(pthread_mutex_t *mutex, int milliseconds)
{
    int result = pthread_mutex_trylock(mutex);
    for (int i = 0; i < SPINS && result == EBUSY; i++) {
        relax();
        /* Only a load: a try would take the cache line away from the thread that is about to
         * unlock. */
        if (__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) == 0)
            result = pthread_mutex_trylock(mutex);
    }
    if (result == EBUSY) {
        struct timespec until;
        sys_clock_gettime(CLOCK, &until);
        until.tv_sec += milliseconds / 1000;
        until.tv_nsec += milliseconds % 1000 * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        result = pthread_mutex_clocklock(mutex, CLOCK, &until);
    }
    return result;
}

int ledger_mutex_lock(pthread_mutex_t *mutex)
{
    int result;
    for (unsigned i = 0; (result = ledger_mutex_lock_within(mutex, AGAIN_MS)) == ETIMEDOUT; i++) {
        if (i % TELL_EVERY != 0)
            continue;
        ledger_stopped_tell();
        if (i > 0)
            ledger_stopped_end_agent_with_lock(mutex);
    }
    return result;
}
