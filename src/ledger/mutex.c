#include "ledger/mutex.h"

#include <errno.h>
#include <time.h>

#include "sys/sys.h"

int ledger_mutex_lock_within(pthread_mutex_t *mutex, int milliseconds)
{
    int result = pthread_mutex_trylock(mutex);
    if (result == EBUSY) {
        struct timespec until;
        sys_clock_gettime(CLOCK_REALTIME, &until); /* which pthread_mutex_timedlock(3) goes by */
        until.tv_sec += milliseconds / 1000;
        until.tv_nsec += milliseconds % 1000 * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        result = pthread_mutex_timedlock(mutex, &until);
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
