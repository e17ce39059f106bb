#include "ledger/mutex.h"

#include <errno.h>
#include <time.h>

#include "sys/sys.h"

int ledger_mutex_lock(pthread_mutex_t *mutex)
{
    int result = pthread_mutex_trylock(mutex);
    while (result == EBUSY || result == ETIMEDOUT) {
        struct timespec until;
        sys_clock_gettime(CLOCK_REALTIME, &until); /* which pthread_mutex_timedlock(3) goes by */
        until.tv_sec++;
        result = pthread_mutex_timedlock(mutex, &until);
    }
    return result;
}
