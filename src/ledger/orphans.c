#include "ledger/orphans.h"

#include "ledger/agent.h"

bool ledger_is_cared_for(const _Atomic uint32_t *carer)
{
    uint32_t number = atomic_load_explicit(carer, memory_order_acquire);
    return number != 0 && number == ledger_agent_number();
}

bool ledger_entry_sent_is_cared_for(const struct ledger_entry *entry)
{
    uint32_t number = ledger_agent_number();
    return ledger_is_cared_for(&entry->sent_carer) &&
           (number == ledger_agent_self || ledger_agent_serves_key(number, entry->server));
}

/* The flag may be set though none are left: then it is cleared. */
bool ledger_entry_has_sent_orphans(struct ledger_entry *entry)
{
    if (!(atomic_load(&entry->flags) & LEDGER_ENTRY_ORPHANED_SENT))
        return false;
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next) {
        if (ledger_record_is_orphan(ledger_record(i)) ||
            ledger_record_is_lent_by_nobody(ledger_record(i)))
            return true;
    }
    ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED_SENT);
    return false;
}

/* Does the agent that lives know of the process, and learn of its death? What a process sent is in
 * the care of an agent that it has asked: it may die before the agent answers. What is dirty is
 * only left behind after the answer. */
static bool is_known(uint32_t slot, uint32_t number, bool sent)
{
    uint32_t watched = atomic_load(&ledger_map.shared->processes[slot].watched);
    return number && (sent ? watched & ~LEDGER_WATCH_ASKED : watched) == number;
}

void ledger_entry_orphan(struct ledger_entry *entry, uint32_t slot, uint32_t flag)
{
    bool sent = flag == LEDGER_ENTRY_ORPHANED_SENT;
    bool some = sent ? ledger_entry_has_sent_orphans(entry)
                     : atomic_load(&entry->flags) & LEDGER_ENTRY_ORPHANED;
    uint32_t number = ledger_agent_number();
    _Atomic uint32_t *carer = sent ? &entry->sent_carer : &entry->carer;
    bool all = is_known(slot, number, sent) && (!some || ledger_is_cared_for(carer));
    atomic_store(carer, all ? number : 0); /* 0: no agent has all of it in its care */
    atomic_fetch_or(&entry->flags, flag | LEDGER_ENTRY_OWED);
}

void ledger_entry_orphan_sent(struct ledger_entry *entry, const struct ledger_record *record)
{
    if (!ledger_record_is_lent_by_nobody(record))
        return;
    bool cared = ledger_is_cared_for(&entry->carer) &&
                 (!ledger_entry_has_sent_orphans(entry) || ledger_is_cared_for(&entry->sent_carer));
    atomic_store(&entry->sent_carer, cared ? ledger_agent_number() : 0);
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_ORPHANED_SENT | LEDGER_ENTRY_OWED);
}

bool ledger_entry_has_strays(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->flags, memory_order_acquire) & LEDGER_ENTRY_ORPHANED &&
           atomic_load_explicit(&entry->dirty, memory_order_acquire) &&
           !ledger_is_cared_for(&entry->carer) && !sys_test_unsafe(SYS_TEST_STRAY_PROOF);
}
