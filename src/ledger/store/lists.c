#include "ledger/store/lists.h"

#include "ledger/store/arena.h"
#include "ledger/store/spans.h"

void ledger_record_chain(uint32_t *first, uint32_t *last, uint32_t previous, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t next = previous ? ledger_record(previous)->file_next : *first;
    record->file_previous = previous;
    record->file_next = next;
    *(previous ? &ledger_record(previous)->file_next : first) = index;
    *(next ? &ledger_record(next)->file_previous : last) = index;
}

void ledger_dirty_list(struct ledger_entry *entry, uint32_t previous, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    ledger_record_chain(&entry->dirty_first, &entry->dirty_last, previous, index);
    if (ledger_record_end(record) > entry->dirty_end)
        entry->dirty_end = ledger_record_end(record);
    ledger_dirty_count(entry, ledger_record_length(record));
}

void ledger_dirty_unlink(struct ledger_entry *entry, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    if (ledger_record_is_dirty(record)) {
        ledger_record_unchain(&entry->dirty_first, &entry->dirty_last, index);
        ledger_dirty_count(entry, -(int64_t)ledger_record_length(record));
    } else if (ledger_record_is_promised(record)) {
        ledger_record(index)->promised = false;
        ledger_dirty_kept(entry, ledger_record_length(record));
    }
}

void ledger_dirty_kept(struct ledger_entry *entry, uint64_t bytes)
{
    entry->sending -= bytes;
    ledger_dirty_count(entry, -(int64_t)bytes);
}

void ledger_dirty_trim(struct ledger_entry *entry, uint32_t index, uint64_t start, uint64_t end)
{
    struct ledger_record *record = ledger_record(index);
    uint64_t length = end - start;
    ledger_dirty_count(entry, (int64_t)length - ledger_record_length(record));
    if (ledger_record_is_promised(record))
        entry->sending -= ledger_record_length(record) - length;
    ledger_arena_trim(index, (uint32_t)(start - record->base), (uint32_t)(end - record->base));
    ledger_span_fit(index);
}
