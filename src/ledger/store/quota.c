#include "ledger/store/quota.h"

#include "ledger/store/processes.h"
#include "ledger/store/stripes.h"
#include "sys/sys.h"

enum { ADD_UP_NS = 100000000 };

/*
 * When a process takes more, its own count grows before the sum. When it gives some back, the sum
 * shrinks before its own count. When it dies, its share stays in the sum. So the sum is too large
 * at times, and never too small. A process that meets the bound adds up the counts of all again. If
 * the sum changes meanwhile, the result is thrown away.
 */
static void add_up(struct ledger_shared *shared)
{
    uint64_t now_ns = sys_now_ns(), last_ns = atomic_load(&shared->ahead_added), sum = 0;
    if (now_ns - last_ns < ADD_UP_NS ||
        !atomic_compare_exchange_strong(&shared->ahead_added, &last_ns, now_ns))
        return;
    ledger_process_sweep(LEDGER_SWEEP_NS);
    uint64_t seen = atomic_load(&shared->ahead);
    for (uint32_t slot = 1, count = ledger_process_count(); slot < count; slot++)
        sum += atomic_load(&shared->processes[slot].ahead);
    atomic_compare_exchange_strong(&shared->ahead, &seen, sum);
}

static bool try_take(struct ledger_shared *shared, uint32_t slot, size_t bytes, size_t most)
{
    uint64_t own = atomic_fetch_add(&shared->processes[slot].ahead, bytes) + bytes;
    uint64_t all = atomic_fetch_add(&shared->ahead, bytes) + bytes;
    if (all <= most && own <= most - all)
        return true;
    atomic_fetch_sub(&shared->ahead, bytes);
    atomic_fetch_sub(&shared->processes[slot].ahead, bytes);
    return false;
}

bool ledger_quota_take(size_t bytes, size_t most)
{
    struct ledger_shared *shared = ledger_map.shared;
    uint32_t slot = shared ? ledger_process_slot() : 0;
    if (!slot)
        return false;
    if (try_take(shared, slot, bytes, most))
        return true;
    add_up(shared);
    return try_take(shared, slot, bytes, most);
}

void ledger_quota_give(size_t bytes)
{
    struct ledger_shared *shared = ledger_map.shared;
    atomic_fetch_sub(&shared->ahead, bytes);
    atomic_fetch_sub(&shared->processes[ledger_process_slot()].ahead, bytes);
}
