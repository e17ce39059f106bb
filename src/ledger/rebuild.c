/*
 * Puts a stripe in order after the death of a process that held its lock, from the records. All
 * processes that open a file of the stripe wait for it. So its time grows nearly in proportion to
 * the number of records.
 */
#include "ledger/rebuild.h"

#include <string.h>

#include "ledger/store/pocket.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/records.h"
#include "ledger/proof.h"
#include "ledger/store/stripes.h"

/* An order of records: does `left` come before `right`? */
typedef bool order(const struct ledger_record *left, const struct ledger_record *right);

static bool by_sequence(const struct ledger_record *left, const struct ledger_record *right)
{
    return left->sequence != right->sequence
               ? left->sequence < right->sequence
               : ledger_record_start(left) <= ledger_record_start(right);
}

static bool by_start(const struct ledger_record *left, const struct ledger_record *right)
{
    return ledger_record_start(left) <= ledger_record_start(right);
}

static uint32_t merge(uint32_t a, uint32_t b, order *before)
{
    uint32_t first = 0, *end = &first;
    while (a && b) {
        uint32_t *smaller = before(ledger_record(a), ledger_record(b)) ? &a : &b;
        *end = *smaller;
        *smaller = ledger_record(*end)->file_next;
        end = &ledger_record(*end)->file_next;
    }
    *end = a ? a : b;
    return first;
}

/* Sorts a list chained by file_next: parts[i] is empty or a sorted list of 2^i records. */
static uint32_t sort(uint32_t list, order *before)
{
    uint32_t parts[32] = {0}, sorted = 0;
    while (list) {
        uint32_t one = list, i = 0;
        list = ledger_record(one)->file_next;
        ledger_record(one)->file_next = 0;
        for (; parts[i]; i++) {
            one = merge(parts[i], one, before);
            parts[i] = 0;
        }
        parts[i] = one;
    }
    for (int i = 0; i < 32; i++)
        sorted = merge(parts[i], sorted, before);
    return sorted;
}

/* A mark in write_next of an ACKED record, which has no use for it. */
enum { OVERLAPS = UINT32_MAX };

static void mark(uint32_t index, bool overlaps)
{
    if (ledger_record_state(ledger_record(index)) == LEDGER_RECORD_ACKED)
        ledger_record(index)->write_next = overlaps ? OVERLAPS : 0;
}

/* Marks the records of a list, sorted by their starts, that overlap another one. They are few:
 * those of the write that was being ended. So not all of many records are compared with each other.
 */
static void mark_overlaps(uint32_t list)
{
    uint32_t farthest = 0;
    for (uint32_t i = list; i; i = ledger_record(i)->file_next) {
        bool overlaps = farthest && ledger_record_start(ledger_record(i)) <
                                        ledger_record_end(ledger_record(farthest));
        mark(i, overlaps);
        if (overlaps)
            mark(farthest, true);
        if (!farthest ||
            ledger_record_end(ledger_record(i)) > ledger_record_end(ledger_record(farthest)))
            farthest = i;
    }
}

static void clear_entries(uint32_t stripe)
{
    for (uint32_t set = stripe; set < LEDGER_SETS; set += LEDGER_STRIPES) {
        if (!atomic_load(&ledger_map.shared->set_state[set]))
            continue;
        for (uint32_t i = 0; i < LEDGER_SET_SIZE; i++) {
            struct ledger_entry *entry = &ledger_map.entries[set * LEDGER_SET_SIZE + i];
            entry->first = entry->last = entry->records = 0;
            entry->dirty_first = entry->dirty_last = 0;
            entry->sent_first = entry->sent_last = 0;
            entry->sending = entry->dirty_end = 0;
            /* Counts a byte too many of each kind. So a reader without the lock sees that there is
             * data, and waits. */
            atomic_store(&entry->dirty, 1);
            atomic_fetch_add(&ledger_map.shared->stripes[stripe].dirty, 1);
            atomic_store(&entry->uncommitted, 1);
            atomic_fetch_add(&ledger_map.shared->stripes[stripe].uncommitted, 1);
            atomic_fetch_or(&entry->flags, LEDGER_ENTRY_MIXED); /* its data may have any verifier */
            ledger_proof_end(entry);
            if (atomic_load(&entry->flags) & LEDGER_ENTRY_RENAMING)
                ledger_entry_end_rename(entry);
            /* A change of its attributes may be half done: the server must be asked. */
            if (atomic_load(&entry->sequence) & 1) {
                atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_KNOWN);
                ledger_entry_untold(entry);
                ledger_entry_outdate(entry);
                atomic_fetch_add(&entry->sequence, 1);
            }
        }
    }
}

static void resolve(struct ledger_entry *entry, uint32_t own, bool halves,
                    struct ledger_garbage *garbage)
{
    if (halves)
        ledger_record_supersede_halves(entry, own, garbage);
    else
        ledger_record_supersede(entry, own, ledger_record(own)->verifier, garbage);
}

void ledger_stripe_rebuild(uint32_t stripe)
{
    struct ledger_shared *shared = ledger_map.shared;
    struct ledger_garbage garbage = {0};
    uint32_t count = shared->bucket_count, end = atomic_load(&shared->next_record);
    for (uint32_t i = 0; i < count; i++) { /* the dead process may have announced a write there */
        struct ledger_bucket *bucket = &ledger_map.buckets[stripe * count + i];
        bucket->root = 0;
        atomic_fetch_add(&bucket->starts, 1);
    }
    atomic_store(&shared->stripes[stripe].uncommitted, 0);
    atomic_store(&shared->stripes[stripe].dirty, 1);
    atomic_store(&shared->stripes[stripe].held_check, 0);
    clear_entries(stripe);

    for (uint32_t i = 1; i < end; i++) {
        struct ledger_record *record = ledger_record(i);
        uint32_t state = ledger_record_state(record),
                 file = atomic_load_explicit(&record->file, memory_order_relaxed);
        if (state <= LEDGER_RECORD_PRIVATE || file >= LEDGER_FILES ||
            ledger_stripe_of(file) != stripe)
            continue;
        ledger_record_link(i);
        if (record->held_until || state == LEDGER_RECORD_GHOST)
            atomic_store(&shared->stripes[stripe].held_check, 1);
        struct ledger_entry *entry = &ledger_map.entries[file];
        ledger_dirty_recount(entry, i);
        if (state == LEDGER_RECORD_IN_FLIGHT || state == LEDGER_RECORD_GHOST) {
            ledger_sent_list(entry, i);
            continue;
        }
        uint32_t *list = state == LEDGER_RECORD_DIRTY ? &entry->dirty_first : &entry->first;
        record->file_next = *list;
        *list = i;
    }
    for (uint32_t set = stripe; set < LEDGER_SETS; set += LEDGER_STRIPES) {
        for (uint32_t i = 0; atomic_load(&shared->set_state[set]) && i < LEDGER_SET_SIZE; i++) {
            struct ledger_entry *entry = &ledger_map.entries[set * LEDGER_SET_SIZE + i];
            uint32_t list = sort(entry->first, by_start);
            mark_overlaps(list);
            list = sort(list, by_sequence);
            entry->first = 0;
            while (list) {
                uint32_t next = ledger_record(list)->file_next;
                ledger_record_append(entry, list);
                list = next;
            }
            ledger_records_relisted(entry);
            ledger_dirty_relist(entry, sort(entry->dirty_first, by_sequence), &garbage);
            if (!(atomic_load(&entry->flags) & LEDGER_ENTRY_PRESENT))
                ledger_entry_retire(entry, &garbage); /* half made, or half freed */
        }
    }
    atomic_fetch_sub(&shared->stripes[stripe].dirty, 1);
    /* First the halves: to split a record of which a half exists already would make a third. */
    for (int halves = 1; halves >= 0; halves--) {
        for (uint32_t i = 1; i < end; i++) {
            struct ledger_record *record = ledger_record(i);
            uint32_t file = atomic_load_explicit(&record->file, memory_order_relaxed);
            if (ledger_record_state(record) == LEDGER_RECORD_ACKED &&
                record->write_next == OVERLAPS && file < LEDGER_FILES &&
                ledger_stripe_of(file) == stripe)
                resolve(&ledger_map.entries[file], i, halves, &garbage);
        }
    }
    atomic_fetch_add(&shared->stripes[stripe].wake, 1);
    ledger_arena_give(garbage.first);
}
