/* Holds, of which a test decides how long they last: failover_hold is longer than any test. */
#ifndef TEST_HOLDS_H
#define TEST_HOLDS_H

#include "ledger/store/records.h"
#include "ledger/registry.h"
#include "ledger/store/stripes.h"

/* Nothing can be executed late any more. */
static inline void end_holds(void)
{
    for (uint32_t i = 0; i < LEDGER_STRIPES; i++) {
        ledger_stripe_lock(i);
        for (uint32_t r = 1; r < ledger_map.shared->next_record; r++) {
            struct ledger_record *record = ledger_record(r);
            if (ledger_stripe_of(record->file) != i || !record->held_until)
                continue;
            record->held_until = 1;
            ledger_map.shared->stripes[i].held_check = 1;
        }
        ledger_stripe_unlock(i);
    }
}

#endif
