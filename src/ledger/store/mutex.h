/*
 * The mutexes that are in the registry. They are robust and shared by processes: see registry.c.
 */
#ifndef LEDGER_MUTEX_H
#define LEDGER_MUTEX_H

#include "ledger/store/map.h"
#include "ledger/store/stopped.h"

/*
 * Locks it. 0; EOWNERDEAD: its owner died; after what it guards was put in order,
 * pthread_mutex_consistent() must follow.
 *
 * A thread that is killed, or stopped, after it was woken, and before it has the mutex, takes the
 * wake with it. If another got the mutex meanwhile, which knows of no waiter, it wakes nobody, and
 * neither does the kernel (handle_futex_death()). So nobody who waits sleeps for longer than ten
 * milliseconds at a time. Then the agent is told, as the owner may be stopped.
 */
int ledger_mutex_lock(pthread_mutex_t *mutex);
static inline void ledger_mutex_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
    if (__builtin_expect(atomic_load_explicit(&ledger_map.shared->guided, memory_order_relaxed), 0))
        ledger_stopped_pause();
}
/* The same for one under which system calls are made: for so many ms at most, and nobody is told.
 * ETIMEDOUT: it is not locked. */
int ledger_mutex_lock_within(pthread_mutex_t *mutex, int milliseconds);

#endif
