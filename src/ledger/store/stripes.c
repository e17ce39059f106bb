/*
 * The locks of stripes, waiting for a range, and the sweep of what is over.
 */
#include <linux/futex.h>

#include "ledger/store/hold.h"
#include "ledger/store/mutex.h"
#include "ledger/store/processes.h"
#include "ledger/store/stopped.h"
#include "ledger/store/stripes.h"
#include "ledger/store/upper.h"
#include "sys/sys.h"

#define LONG_NS UINT64_C(1000000000)

bool (*_Atomic ledger_wait_help)(void);

void ledger_stripe_lock(uint32_t stripe)
{
    struct ledger_stripe *s = &ledger_map.shared->stripes[stripe];
    if (ledger_mutex_lock(&s->lock) == EOWNERDEAD) {
        ledger_upper.rebuild(stripe);
        atomic_fetch_add(&s->recoveries, 1);
        pthread_mutex_consistent(&s->lock);
    }
    if (atomic_load_explicit(&s->held_check, memory_order_relaxed))
        ledger_stripe_expire(stripe);
}

void ledger_stripe_unlock(uint32_t stripe)
{
    ledger_mutex_unlock(&ledger_map.shared->stripes[stripe].lock);
}

void ledger_stripe_wake(uint32_t stripe)
{
    struct ledger_stripe *s = &ledger_map.shared->stripes[stripe];
    if (atomic_load_explicit(&s->waiting, memory_order_acquire) == 0 ||
        atomic_exchange(&s->waiting, 0) == 0)
        return;
    atomic_fetch_add(&s->wake, 1);
    sys_futex(&s->wake, FUTEX_WAKE, INT32_MAX, NULL);
}

void ledger_stripe_wait(uint32_t stripe, uint32_t owner)
{
    static __thread uint64_t checked_ns; /* when this thread last looked for a dead process */
    static __thread uint64_t since_ns;   /* since when it waits for what ... */
    static __thread uint32_t waited_for; /* ... the process of this slot has */
    struct ledger_stripe *s = &ledger_map.shared->stripes[stripe];
    struct timespec limit = {0, LEDGER_WAIT_NS};
    uint32_t seen = atomic_load(&s->wake);
    atomic_store(&s->waiting, 1);
    ledger_stripe_unlock(stripe);
    /* A thread that frees the range now finds `waiting` set, and changes `wake`. */
    bool (*help)(void) = atomic_load(&ledger_wait_help);
    if (!help || !help())
        sys_futex(&s->wake, FUTEX_WAIT, seen, &limit);
    uint64_t now = sys_now_ns();
    if (owner != waited_for || now - checked_ns > LONG_NS)
        since_ns = now;
    waited_for = owner;
    if (now - checked_ns >= LEDGER_WAIT_NS) {
        ledger_process_check(owner);
        if (now - since_ns > LONG_NS && owner && owner < LEDGER_PROCESSES)
            ledger_stopped_end_agent_with_slot(owner);
        checked_ns = now;
    }
    ledger_stripe_lock(stripe);
}

void ledger_process_sweep(uint64_t interval_ns)
{
    struct ledger_shared *shared = ledger_map.shared;
    uint64_t now = sys_now_ns(), last = atomic_load(&shared->swept_ns);
    /* If many threads come at a time, one of them looks at all processes. */
    if (interval_ns > 0 && (now - last < interval_ns ||
                            !atomic_compare_exchange_strong(&shared->swept_ns, &last, now)))
        return;
    ledger_process_check_all();
    for (uint32_t i = 0; i < LEDGER_STRIPES; i++) {
        if (atomic_load(&shared->stripes[i].held_check)) {
            ledger_stripe_lock(i); /* ends holds that are over */
            ledger_stripe_unlock(i);
        }
    }
}
