/* See holds.h. */
#include "holds.h"
#include "ledger/store/layout.h"
#include "ledger/store/stripes.h"

void end_holds(void)
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
