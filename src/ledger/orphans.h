/*
 * Orphans: what a dead process left, and whether an agent that lives has it in its care (agent.h).
 * If none has they are strays. Everything is under the stripe's lock.
 */
#ifndef LEDGER_ORPHANS_H
#define LEDGER_ORPHANS_H

#include "ledger/store/entry.h"

/* Is it nobody's, and something that is owed? */
static inline bool ledger_record_is_orphan(const struct ledger_record *record)
{
    return (ledger_record_is_dirty(record) || ledger_record_state(record) == LEDGER_RECORD_ACKED) &&
           atomic_load(&record->owner) == 0;
}

/* Will the agent that lives see to what the dead left? `carer`: of the entry. */
bool ledger_is_cared_for(const _Atomic uint32_t *carer);
/* Has a dead process left something that was sent? */
bool ledger_entry_has_sent_orphans(struct ledger_entry *entry);

/* Before records of the file that were of `slot` are nobody's: that process is dead. `flag`:
 * LEDGER_ENTRY_ORPHANED, or ORPHANED_SENT. */
void ledger_entry_orphan(struct ledger_entry *entry, uint32_t slot, uint32_t flag);

/* Before a record of the file is acknowledged: if nobody has it, it is with the agent that had it
 * in its care. */
void ledger_entry_orphan_sent(struct ledger_entry *entry, const struct ledger_record *record);
/* Or a look without the lock: see ledger_file_has_strays(). */
bool ledger_entry_has_strays(const struct ledger_entry *entry);

#endif
