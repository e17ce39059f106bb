/*
 * The lists of an entry, and what is counted of them: the acknowledged records in the order of
 * acknowledgement, and the dirty records. Everything is under the stripe's lock.
 */
#ifndef LEDGER_LISTS_H
#define LEDGER_LISTS_H

#include "ledger/store/entry.h"

/* Enters a record behind `previous` in a list; 0: at its head. */
void ledger_record_chain(uint32_t *first, uint32_t *last, uint32_t previous, uint32_t index);
static inline void ledger_record_unchain(uint32_t *first, uint32_t *last, uint32_t index)
{
    uint32_t next = ledger_record(index)->file_next, previous = ledger_record(index)->file_previous;
    *(previous ? &ledger_record(previous)->file_next : first) = next;
    *(next ? &ledger_record(next)->file_previous : last) = previous;
}
static inline void ledger_garbage_add(struct ledger_garbage *garbage, uint32_t index)
{
    ledger_record(index)->write_next = garbage->first;
    garbage->first = index;
}
/* Adds to a counter of an entry and to that of its stripe. */
static inline void ledger_count(_Atomic uint64_t *own, _Atomic uint64_t *all, int64_t bytes)
{
    uint64_t before = atomic_load_explicit(own, memory_order_relaxed);
    uint64_t sum = atomic_load_explicit(all, memory_order_relaxed);
    atomic_store_explicit(own, before + (uint64_t)bytes, memory_order_release);
    atomic_store_explicit(all, sum + (uint64_t)bytes, memory_order_relaxed);
}

/* Adds to the dirty bytes of the entry and of its stripe. */
static inline void ledger_dirty_count(struct ledger_entry *entry, int64_t bytes)
{
    ledger_count(&entry->dirty, &ledger_entry_stripe(entry)->dirty, bytes);
    if (atomic_load_explicit(&entry->dirty, memory_order_relaxed) == 0) {
        entry->dirty_end = 0;
        ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED);
    }
}
/* Enters a DIRTY record in the list behind `previous` (0: at its head), and counts it. */
void ledger_dirty_list(struct ledger_entry *entry, uint32_t previous, uint32_t index);
/* A DIRTY record: takes it out of the list and the counters. One that is promised: takes it out of
 * the counters, and it is not promised any more. Others stay as they are. */
void ledger_dirty_unlink(struct ledger_entry *entry, uint32_t index);
/* This many promised bytes are not dirty any more: they were acknowledged and counted as such, or
 * dropped. */
void ledger_dirty_kept(struct ledger_entry *entry, uint64_t bytes);
/* Shortens a record that is DIRTY or promised to [start, end) of the file. */
void ledger_dirty_trim(struct ledger_entry *entry, uint32_t index, uint64_t start, uint64_t end);

#endif
