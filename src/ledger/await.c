#include "ledger/await.h"

#include "ledger/entries.h"
#include "ledger/store/hold.h"
#include "ledger/store/processes.h"
#include "sys/sys.h"

int ledger_file_await_writes(struct ledger_file *file)
{
    return ledger_file_await_writes_for(file, ledger_hold_ns() + LEDGER_WAIT_NS);
}

int ledger_file_await_writes_for(struct ledger_file *file, uint64_t longest_ns)
{
    if (!ledger_map.shared)
        return 0;
    uint32_t number = ledger_stripe_of_file(file);
    struct ledger_stripe *stripe = &ledger_map.shared->stripes[number];
    uint64_t deadline = sys_now_ns() + longest_ns;
    ledger_stripe_lock(number);
    uint64_t sequence = ledger_stripe_next(stripe); /* later writes have it */
    ledger_stripe_unlock(number);
    for (;;) {
        struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
        if (!entry)
            return 0;
        uint32_t other = ledger_record_pending(entry, sequence);
        uint32_t owner =
            other ? atomic_load(&ledger_record(other)->owner) : ledger_entry_truncator(entry);
        bool ended = !other && !owner, over = sys_now_ns() >= deadline;
        if (!ended && !over)
            ledger_stripe_wait(number, owner);
        ledger_entry_unlock(file);
        if (ended || over)
            return ended ? 0 : -ETIMEDOUT;
    }
}
