/*
 * Cares for requests that nobody waits for. As a rule the thread that waits on a ring drives it.
 * But a program may also look at the completion queue in memory, or poll the ring's descriptor, and
 * no call tells us. So a thread looks every other millisecond while rings without attendants have
 * requests in flight. If no thread of a ring came by since the last look, the ring gets attendants
 * for good. The thread sleeps while there is nothing to watch.
 */
#include <linux/futex.h>
#include <string.h>

#include "preload/uring/uring.h"
#include "sys/log.h"
#include "sys/thread.h"

enum { INTERVAL_MS = 2, IDLE_LOOKS = 50 };

enum state { NEVER_STARTED, STARTING, AWAKE, ASLEEP };

static _Atomic uint32_t state = NEVER_STARTED; /* a futex */

static void look(struct uring *record, void *context)
{
    bool *busy = context;
    if (uring_in_flight(record) == 0 || async_lane_is_attended(record->lane)) {
        record->in_flight_seen = false;
        return;
    }
    *busy = true;
    unsigned visits = atomic_load(&record->visits);
    if (record->in_flight_seen && visits == record->visits_seen &&
        atomic_load(&record->drivers) == 0) {
        async_lane_attend(record->lane);
        log_debug("io_uring: completions of ring %d are looked for without a call; a thread serves "
                  "it from now on",
                  record->made.ring_fd);
    }
    record->visits_seen = visits;
    record->in_flight_seen = true;
}

static void *watch(void *argument)
{
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    atomic_store(&state, AWAKE);
    unsigned idle = 0;
    for (;;) {
        bool busy = false;
        sys_nanosleep_ms(INTERVAL_MS);
        uring_each(look, &busy);
        idle = busy ? 0 : idle + 1;
        if (idle < IDLE_LOOKS)
            continue;
        atomic_store(&state, ASLEEP);
        uring_each(look, &busy); /* requests that were submitted before the state could be seen */
        while (!busy && atomic_load(&state) == ASLEEP)
            sys_futex(&state, FUTEX_WAIT_PRIVATE, ASLEEP, NULL);
        atomic_store(&state, AWAKE);
        idle = 0;
    }
    return argument;
}

PRELOAD_SLOW static void start(struct async_lane *lane)
{
    uint32_t expected = NEVER_STARTED;
    if (!atomic_compare_exchange_strong(&state, &expected, STARTING))
        return;
    if (sys_thread_start(watch, NULL, "io_uring"))
        return;
    atomic_store(&state, NEVER_STARTED);
    async_lane_attend(lane);
}

void uring_watch(struct uring *record)
{
    uint32_t now = atomic_load(&state);
    if (PRELOAD_UNLIKELY(now == NEVER_STARTED)) {
        start(record->lane);
    } else if (PRELOAD_UNLIKELY(now == ASLEEP) &&
               atomic_compare_exchange_strong(&state, &now, AWAKE)) {
        sys_futex(&state, FUTEX_WAKE_PRIVATE, 1, NULL);
    }
}

void uring_watch_child(void)
{
    atomic_store(&state, NEVER_STARTED);
}
