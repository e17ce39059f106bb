/*
 * Orphans: what a dead process left, and whether an agent that lives has it in its care (agent.h).
 * If none has it, they are strays. Everything is under the stripe's lock.
 */
#ifndef LEDGER_ORPHANS_H
#define LEDGER_ORPHANS_H

#include "ledger/store/entry.h"

/* Is it DIRTY or ACKED, without an owner? */
static inline bool ledger_record_is_orphan(const struct ledger_record *record)
{
    return (ledger_record_is_dirty(record) || ledger_record_state(record) == LEDGER_RECORD_ACKED) &&
           atomic_load(&record->owner) == 0;
}

/* A new mark, with which somebody sets data of the file aside (strays.h). The number behind it
 * marks what has arrived. */
static inline uint64_t ledger_stray_mark(const struct ledger_entry *entry)
{
    uint64_t *marks = &ledger_entry_stripe(entry)->commits;
    *marks += 2;
    return *marks - 1;
}

/* Does the agent that lives have it in its care? `carer`: of the entry. */
bool ledger_is_cared_for(const _Atomic uint32_t *carer);
/* Has it in its care what the dead sent of the file, and can it commit that, as it is in contact
 * with the server? */
bool ledger_entry_sent_is_cared_for(const struct ledger_entry *entry);
/* Has a dead process left records of the file that are acknowledged? */
bool ledger_entry_has_sent_orphans(struct ledger_entry *entry);

/* The process of `slot` is dead. Call this before its records of the file lose their owner: notes
 * which agent has them in its care. `flag`: LEDGER_ENTRY_ORPHANED or ORPHANED_SENT. */
void ledger_entry_orphan(struct ledger_entry *entry, uint32_t slot, uint32_t flag);

/* Call this before a record of the file is acknowledged. If its writer is dead, the agent that had
 * it in its care as dirty data still has it. */
void ledger_entry_orphan_sent(struct ledger_entry *entry, const struct ledger_record *record);
/* Has the file dirty strays? Also called without the lock: see ledger_file_has_strays(). */
bool ledger_entry_has_strays(const struct ledger_entry *entry);

#endif
