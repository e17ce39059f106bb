/*
 * Putting a stripe in order after the death of a process that held its lock: from the records. It
 * takes time in proportion to their number, nearly, since all who open a file wait for it.
 */
#include <string.h>

#include "host/shared.h"

/* What a record is sorted by. */
typedef bool order(const struct host_record *left, const struct host_record *right);

static bool by_sequence(const struct host_record *left, const struct host_record *right)
{
    return left->sequence != right->sequence ? left->sequence < right->sequence
                                             : host_record_start(left) <= host_record_start(right);
}

static bool by_start(const struct host_record *left, const struct host_record *right)
{
    return host_record_start(left) <= host_record_start(right);
}

static uint32_t merge(uint32_t a, uint32_t b, order *before)
{
    uint32_t first = 0, *end = &first;
    while (a && b) {
        uint32_t *smaller = before(host_record(a), host_record(b)) ? &a : &b;
        *end = *smaller;
        *smaller = host_record(*end)->file_next;
        end = &host_record(*end)->file_next;
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
        list = host_record(one)->file_next;
        host_record(one)->file_next = 0;
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

/* In write_next of a record that is ACKED, which has no use for it. */
enum { OVERLAPS = UINT32_MAX };

static void mark(uint32_t index, bool overlaps)
{
    if (host_record_state(host_record(index)) == HOST_RECORD_ACKED)
        host_record(index)->write_next = overlaps ? OVERLAPS : 0;
}

/* Marks those of a list, sorted by their starts, that overlap another: few, of the write that was
 * being ended. So not all of many records are compared with each other. */
static void mark_overlaps(uint32_t list)
{
    uint32_t farthest = 0;
    for (uint32_t i = list; i; i = host_record(i)->file_next) {
        bool overlaps =
            farthest && host_record_start(host_record(i)) < host_record_end(host_record(farthest));
        mark(i, overlaps);
        if (overlaps)
            mark(farthest, true);
        if (!farthest || host_record_end(host_record(i)) > host_record_end(host_record(farthest)))
            farthest = i;
    }
}

static void clear_entries(uint32_t stripe)
{
    for (uint32_t set = stripe; set < HOST_SETS; set += HOST_STRIPES) {
        if (!atomic_load(&host_map.shared->set_state[set]))
            continue;
        for (uint32_t i = 0; i < HOST_SET_SIZE; i++) {
            struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
            entry->first = entry->last = entry->records = 0;
            atomic_store(&entry->uncommitted, 0);
            atomic_fetch_and(&entry->flags, ~(uint32_t)(HOST_ENTRY_MIXED | HOST_ENTRY_DISTRUSTED));
            /* Its change of attributes may be half done: ask the server. */
            if (atomic_load(&entry->sequence) & 1) {
                atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_KNOWN);
                atomic_store(&entry->truncations, ++host_map.shared->stripes[stripe].births);
                atomic_fetch_add(&entry->sequence, 1);
            }
        }
    }
}

static void resolve(struct host_entry *entry, uint32_t own, bool halves,
                    struct host_garbage *garbage)
{
    if (halves)
        host_record_supersede_halves(entry, own, garbage);
    else
        host_record_supersede(entry, own, host_record(own)->verifier, garbage);
}

void host_stripe_rebuild(uint32_t stripe)
{
    struct host_shared *shared = host_map.shared;
    struct host_garbage garbage = {0};
    uint32_t count = shared->bucket_count, end = atomic_load(&shared->next_record);
    memset(&host_map.buckets[stripe * count], 0, count * sizeof(uint32_t));
    atomic_store(&shared->stripes[stripe].uncommitted, 0);
    atomic_store(&shared->stripes[stripe].held_check, 0);
    clear_entries(stripe);

    for (uint32_t i = 1; i < end; i++) {
        struct host_record *record = host_record(i);
        uint32_t state = host_record_state(record),
                 file = atomic_load_explicit(&record->file, memory_order_relaxed);
        if (state < HOST_RECORD_IN_FLIGHT || file >= HOST_FILES || host_stripe_of(file) != stripe)
            continue;
        host_record_link(i);
        if (record->held_until || state == HOST_RECORD_GHOST)
            atomic_store(&shared->stripes[stripe].held_check, 1);
        if (state == HOST_RECORD_IN_FLIGHT || state == HOST_RECORD_GHOST)
            continue;
        record->file_next = host_map.entries[file].first;
        host_map.entries[file].first = i;
    }
    for (uint32_t set = stripe; set < HOST_SETS; set += HOST_STRIPES) {
        for (uint32_t i = 0; atomic_load(&shared->set_state[set]) && i < HOST_SET_SIZE; i++) {
            struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
            uint32_t list = sort(entry->first, by_start);
            mark_overlaps(list);
            list = sort(list, by_sequence);
            entry->first = 0;
            while (list) {
                uint32_t next = host_record(list)->file_next;
                host_record_append(entry, list);
                list = next;
            }
        }
    }
    /* First the halves: splitting a record of which a half already exists would make a third. */
    for (int halves = 1; halves >= 0; halves--) {
        for (uint32_t i = 1; i < end; i++) {
            struct host_record *record = host_record(i);
            uint32_t file = atomic_load_explicit(&record->file, memory_order_relaxed);
            if (host_record_state(record) == HOST_RECORD_ACKED && record->write_next == OVERLAPS &&
                file < HOST_FILES && host_stripe_of(file) == stripe)
                resolve(&host_map.entries[file], i, halves, &garbage);
        }
    }
    atomic_fetch_add(&shared->stripes[stripe].wake, 1);
    host_arena_give(garbage.first);
}
