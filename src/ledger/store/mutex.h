/*
 * The mutexes in the registry. They are robust, and shared by processes: see registry.c.
 */
#ifndef LEDGER_MUTEX_H
#define LEDGER_MUTEX_H

#include "ledger/store/map.h"
#include "ledger/store/stopped.h"

/*
 * Locks a mutex. 0; EOWNERDEAD: it is locked, and its owner died. The caller must put in order what
 * the mutex guards, and call pthread_mutex_consistent().
 *
 * A thread may be killed or stopped after it was woken, and before it has the mutex. Then the wake
 * is lost with it. If another thread got the mutex meanwhile, it knows of no waiter and wakes none.
 * Nor does the kernel (handle_futex_death()). So a thread that waits sleeps for ten milliseconds at
 * a time, at most. After the first ten, and then every second, it tells the agent, as the owner may
 * be stopped.
 */
int ledger_mutex_lock(pthread_mutex_t *mutex);
static inline void ledger_mutex_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
    if (__builtin_expect(atomic_load_explicit(&ledger_map.shared->guided, memory_order_relaxed), 0))
        ledger_stopped_pause();
}
/* Locks a mutex under which system calls are made. Waits for this many milliseconds at most, and
 * does not tell the agent. As ledger_mutex_lock(), or ETIMEDOUT: it is not locked. */
int ledger_mutex_lock_within(pthread_mutex_t *mutex, int milliseconds);

#endif
