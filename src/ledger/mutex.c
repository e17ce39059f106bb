#include "ledger/mutex.h"

#include <errno.h>
#include <time.h>

#include "sys/sys.h"

/* Not by the time of day, which jumps. But ThreadSanitizer knows nothing else. */
#ifdef __SANITIZE_THREAD__
enum { CLOCK = CLOCK_REALTIME };
#define pthread_mutex_clocklock(mutex, clock, until) pthread_mutex_timedlock(mutex, until)
#else
enum { CLOCK = CLOCK_MONOTONIC };
#endif

int ledger_mutex_lock_within(pthread_mutex_t *mutex, int milliseconds)
{
    int result = pthread_mutex_trylock(mutex);
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
    do
        result = ledger_mutex_lock_within(mutex, 1000);
    while (result == ETIMEDOUT);
    return result;
}
