#include "ledger/store/entry.h"

#include <string.h>

#include "ledger/store/records.h"
#include "sys/sys.h"

uint64_t ledger_entry_uncommitted_end(struct ledger_entry *entry)
{
    uint64_t end = 0;
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next) {
        if (ledger_record_end(ledger_record(i)) > end)
            end = ledger_record_end(ledger_record(i));
    }
    entry->uncommitted_end = end;
    return end;
}

void ledger_entry_forget_size(struct ledger_entry *entry)
{
    ledger_entry_untold(entry);
    ledger_entry_doubt_size(entry);
}

void ledger_entry_doubt_size(struct ledger_entry *entry)
{
    ledger_entry_change(entry);
    atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_KNOWN);
    uint64_t end = ledger_entry_uncommitted_end(entry);
    ledger_entry_outdate(entry); /* before the size: see ledger_stamp_end_lasts() */
    atomic_store(&entry->size, end > entry->dirty_end ? end : entry->dirty_end);
    atomic_store(&entry->verified_ns, sys_now_ns()); /* answers to earlier questions do not count */
    ledger_entry_changed(entry);
}

void ledger_entry_set_size(struct ledger_entry *entry, uint64_t size,
                           struct ledger_garbage *garbage)
{
    ledger_record_cut(entry, size, false, garbage);
    ledger_entry_change(entry);
    atomic_store(&entry->size, size);
    entry->sent_end = size;
    if (entry->uncommitted_end > size)
        entry->uncommitted_end = size;
    ledger_entry_changed(entry);
}

void ledger_entry_set_name(struct ledger_entry *entry, const struct ledger_file_key *key)
{
    entry->server = key->server;
    entry->root = key->root;
    entry->handle_length = key->handle_length;
    memcpy(entry->handle, key->handle, sizeof(entry->handle));
}

void ledger_entry_end_rename(struct ledger_entry *entry)
{
    ledger_entry_set_name(entry, &ledger_entry_stripe(entry)->renamed);
    ledger_entry_clear(entry, LEDGER_ENTRY_RENAMING);
}

/* In this order: see begin_life(). */
void ledger_entry_retire(struct ledger_entry *entry, struct ledger_garbage *garbage)
{
    struct ledger_stripe *stripe = ledger_entry_stripe(entry);
    ledger_entry_forget_written(entry);
    ledger_record_cut(entry, 0, true, garbage);
    ledger_records_detach(ledger_entry_index(entry), garbage);
    atomic_store(&entry->truncator, 0);
    ledger_entry_change(entry);
    atomic_store(&entry->generation, ++stripe->births);
    atomic_store(&entry->flags, 0);
    ledger_entry_changed(entry);
}
