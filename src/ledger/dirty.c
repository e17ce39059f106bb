#include "ledger/dirty.h"

#include "ledger/store/arena.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "ledger/proof.h"
#include "sys/test_switch.h"

uint64_t ledger_file_dirty(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->dirty, memory_order_acquire) : 0;
}

uint32_t ledger_file_user(struct ledger_file *file)
{
    const struct ledger_entry *entry = ledger_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->user, memory_order_acquire) : 0;
}

/* ---- the list ---- */

/* A record that takes newer bytes belongs to the process that wrote them, as that process lives. A
 * record that is in flight belongs to it once it returns. */
static void hand_over(uint32_t index, uint32_t newer)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t self = atomic_load_explicit(&record->owner, memory_order_relaxed);
    uint32_t owner = atomic_load_explicit(&ledger_record(newer)->owner, memory_order_relaxed);
    bool returns = ledger_record_is_promised(record);
    if (self != owner)
        record->aside = 0; /* the process that sets it aside does not have them */
    if (returns)
        atomic_store(&record->writer, (uint16_t)(owner == self ? 0
                                                 : owner       ? owner
                                                               : LEDGER_PROCESSES));
    else if (self != owner)
        atomic_store(&record->owner, owner);
}

/*
 * Both records have bytes of [start, end) of the file, and those of `from` are newer: they replace
 * those of `to`. Both records stay until `from` is dropped. So a process that dies here leaves
 * nothing half done.
 */
static void replace(struct ledger_entry *entry, uint32_t from, uint32_t to, uint64_t start,
                    uint64_t end, struct ledger_garbage *garbage)
{
    ledger_record(to)->changed = true; /* before its bytes are */
    hand_over(to, from);
    ledger_record_overlay(from, to, start, end);
    ledger_record_drop(entry, from, garbage);
}

/* A process that dies before the first part is trimmed leaves both with the same bytes: see
 * is_older(). */
uint32_t ledger_dirty_split(struct ledger_entry *entry, uint32_t index, uint64_t at)
{
    const struct ledger_record *record = ledger_record(index);
    uint32_t self = ledger_process_owner();
    uint32_t second = self ? ledger_arena_share(index, (uint32_t)(at - record->base),
                                                ledger_record_to(record), 0, self)
                           : 0;
    if (!second)
        return 0;
    ledger_record_set_state(ledger_record(second), LEDGER_RECORD_DIRTY);
    atomic_store_explicit(&ledger_record(second)->owner, atomic_load(&record->owner),
                          memory_order_relaxed);
    ledger_record_link(second);
    ledger_dirty_list(entry, index, second);
    ledger_dirty_trim(entry, index, ledger_record_start(record), at);
    return second;
}

/*
 * Ends an overlap of two dirty records: the older one keeps what is not in the newer one. If that
 * is more than one piece, and the newer bytes are few, they go into the older record. So many small
 * writes leave few records. True: the newer record is gone.
 *
 * Nothing long is copied: a process may be stopped here, and all others wait for the lock.
 */
static bool settle(struct ledger_entry *entry, uint32_t older, uint32_t newer,
                   struct ledger_garbage *garbage)
{
    struct ledger_record *old = ledger_record(older), *new = ledger_record(newer);
    uint64_t start = ledger_record_start(new), end = ledger_record_end(new);
    bool head = ledger_record_start(old)<start, tail = ledger_record_end(old)> end;
    bool inside = ledger_record_start(old) <= start && ledger_record_end(old) >= end;
    bool small = end - start <= LEDGER_JOIN_MOST;
    if ((inside && small && (head || tail)) ||
        (head && tail && !(ledger_record_is_dirty(old) && ledger_dirty_split(entry, older, end)))) {
        replace(entry, newer, older, start, end, garbage);
        return true;
    }
    if (old->since < new->since)
        new->since = old->since;
    if (head)
        ledger_dirty_trim(entry, older, ledger_record_start(old), start);
    else if (tail)
        ledger_dirty_trim(entry, older, end, ledger_record_end(old));
    else
        ledger_record_drop(entry, older, garbage);
    return false;
}

/* Both records are DIRTY. Records of one sequence are parts of a split that a process did not live
 * to finish. */
static bool is_older(const struct ledger_record *other, const struct ledger_record *record)
{
    return other->sequence != record->sequence
               ? other->sequence < record->sequence
               : ledger_record_start(other) < ledger_record_start(record);
}

/* Takes the bytes of `own`, the newest record, away from all other DIRTY records. True: `own` is
 * gone, as another record has its bytes. */
static bool settle_newest(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage)
{
    const struct ledger_record *record = ledger_record(own);
    uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
    uint32_t file = ledger_entry_index(entry), next;
    for (uint32_t index = ledger_span_first(file, start, end); index; index = next) {
        const struct ledger_record *other = ledger_record(index);
        next = ledger_span_next(index, start, end);
        if (index == own || !ledger_record_is_dirty(other) || !is_older(other, record) ||
            !ledger_record_overlaps(other, file, start, end))
            continue;
        bool last = ledger_record_start(other) <= start && ledger_record_end(other) >= end;
        if (settle(entry, index, own, garbage))
            return true;
        if (last)
            return false; /* no other record has bytes of it, as older ones do not overlap */
    }
    return false;
}

/* The bytes of `own` go into the last chunk of the record before it. So small writes that follow
 * one another leave few records. But not if an older copy of that record may be executed late: it
 * would undo them. Then `own` alone waits for that. */
static void join(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage)
{
    const struct ledger_record *record = ledger_record(own);
    uint64_t start = ledger_record_start(record), from = ledger_byte_before(start);
    uint32_t length = ledger_record_length(record);
    uint32_t i = ledger_span_first(ledger_entry_index(entry), from, start);
    for (; i; i = ledger_span_next(i, from, start)) {
        struct ledger_record *before = ledger_record(i);
        uint32_t to = ledger_record_to(before);
        if (!ledger_record_is_dirty(before) || before->held_until || before->twins ||
            before->changed || ledger_record_end(before) != start || to % LEDGER_CHUNK == 0 ||
            to % LEDGER_CHUNK + length > LEDGER_CHUNK)
            continue;
        hand_over(i, own);
        ledger_record_overlay(own, i, start, ledger_record_end(record));
        ledger_dirty_count(entry, length);
        atomic_store_explicit(&before->range, ledger_range(ledger_record_from(before), to + length),
                              memory_order_release);
        ledger_span_fit(i);
        ledger_record_drop(entry, own, garbage);
        return;
    }
}

/* ---- a write ---- */

/* DIRTY records around a write that is not linked yet. */
struct place {
    uint32_t around;    /* a record that has all of its bytes; 0: none */
    uint32_t before;    /* ends where the write begins, at the end of a chunk; 0: none */
    bool is_overlapped; /* some records have bytes of it */
};

static bool may_grow(const struct ledger_record *before, const struct ledger_record *record)
{
    return ledger_record_to(before) % LEDGER_CHUNK == 0 &&
           ledger_record_to(before) + ledger_record_length(record) <= 1 << LEDGER_UNIT_SHIFT &&
           !before->held_until && !before->twins && !before->changed &&
           atomic_load_explicit(&before->owner, memory_order_relaxed) ==
               atomic_load_explicit(&record->owner, memory_order_relaxed);
}

static struct place find_place(const struct ledger_entry *entry, const struct ledger_record *record)
{
    struct place place = {0};
    uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
    uint64_t from = ledger_byte_before(start);
    uint32_t i = ledger_span_first(ledger_entry_index(entry), from, end);
    for (; i && !place.around; i = ledger_span_next(i, from, end)) {
        const struct ledger_record *other = ledger_record(i);
        if (!ledger_record_is_dirty(other))
            continue;
        if (ledger_record_start(other) <= start && ledger_record_end(other) >= end)
            place.around = i;
        else if (ledger_record_start(other) < end && ledger_record_end(other) > start)
            place.is_overlapped = true;
        else if (ledger_record_end(other) == start && may_grow(other, record))
            place.before = i;
    }
    return place;
}

/* Has the write all that the record has in the chunks concerned? Then whole chunks can change
 * places. */
static bool has_whole_chunks(const struct ledger_record *record, const struct ledger_record *write)
{
    uint64_t start = ledger_record_start(write), end = ledger_record_end(write);
    return (start - record->base) % LEDGER_CHUNK == 0 &&
           ((end - record->base) % LEDGER_CHUNK == 0 || end == ledger_record_end(record));
}

/* The bytes of a write that is not linked replace older ones in a record. Only a little is copied:
 * a process may be stopped here, and all others wait for the lock. False: nothing is done, as that
 * would be more. */
static bool pour(uint32_t from, uint32_t into)
{
    const struct ledger_record *write = ledger_record(from);
    struct ledger_record *record = ledger_record(into);
    bool whole = has_whole_chunks(record, write);
    if (!whole && ledger_record_length(write) > LEDGER_JOIN_MOST)
        return false;
    record->changed = true; /* before its bytes are */
    hand_over(into, from);
    if (whole)
        ledger_arena_exchange(from, into, 0, (int)((write->base - record->base) / LEDGER_CHUNK),
                              ledger_end_chunk(ledger_record_to(write)));
    else
        ledger_record_overlay(from, into, ledger_record_start(write), ledger_record_end(write));
    return true;
}

/* A record grows by the chunks of a write that is not linked. `range` is its commit point. */
static void grow(struct ledger_entry *entry, uint32_t from, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t length = ledger_record_length(ledger_record(from)), to = ledger_record_to(record);
    ledger_arena_move(from, index, (int)(to / LEDGER_CHUNK));
    if (ledger_record_end(record) + length > entry->dirty_end)
        entry->dirty_end = ledger_record_end(record) + length;
    ledger_dirty_count(entry, length);
    atomic_store_explicit(&record->range, ledger_range(ledger_record_from(record), to + length),
                          memory_order_release);
    ledger_span_fit(index);
}

void ledger_dirty_enter(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage)
{
    struct ledger_record *record = ledger_record(index);
    struct place place = find_place(entry, record);
    bool grows = !place.around && !place.is_overlapped && place.before;
    if (grows)
        grow(entry, index, place.before);
    if (grows || (place.around && pour(index, place.around))) {
        ledger_garbage_add(garbage, index);
        return;
    }
    atomic_store_explicit(&record->file, ledger_entry_index(entry), memory_order_relaxed);
    record->sequence = record->since = ledger_stripe_next(ledger_entry_stripe(entry));
    if (!atomic_load_explicit(&entry->dirty, memory_order_relaxed)) /* the first */
        entry->sent_end = atomic_load_explicit(&entry->size, memory_order_relaxed);
    ledger_proof_covers(entry, record->sequence);
    ledger_record_set_state(record, LEDGER_RECORD_DIRTY);
    ledger_record_link(index);
    ledger_dirty_list(entry, entry->dirty_last, index);
    if ((place.around || place.is_overlapped) && settle_newest(entry, index, garbage))
        return;
    if (ledger_record_length(record) <= LEDGER_JOIN_MOST)
        join(entry, index, garbage);
}

void ledger_dirty_return(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage)
{
    const struct ledger_record *record = ledger_record(index);
    uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
    uint32_t file = ledger_entry_index(entry), next;
    if (sys_test_unsafe(SYS_TEST_PROMISED)) {
        ledger_record_drop(entry, index, garbage);
        return;
    }
    for (uint32_t newer = ledger_span_first(file, start, end); newer; newer = next) {
        const struct ledger_record *other = ledger_record(newer);
        next = ledger_span_next(newer, start, end);
        if (next == index) /* its place in the tree changes with its start */
            next = ledger_span_next(index, start, end);
        if (!ledger_record_is_dirty(other) ||
            !ledger_record_overlaps(other, file, ledger_record_start(record),
                                    ledger_record_end(record)))
            continue;
        settle(entry, index, newer, garbage);
        if (!ledger_record_is_promised(record))
            return; /* newer records have all of it */
    }
    /* Its bytes are counted all the time, for readers without the lock. A process that dies here
     * leaves the record promised, or DIRTY. */
    struct ledger_record *returned = ledger_record(index);
    ledger_sent_unlist(entry, index);
    ledger_record_set_state(returned, LEDGER_RECORD_DIRTY);
    returned->promised = false;
    ledger_record_return(returned);
    entry->sending -= ledger_record_length(record);
    ledger_record_chain(&entry->dirty_first, &entry->dirty_last, 0, index);
}

void ledger_dirty_recount(struct ledger_entry *entry, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    if (!ledger_record_is_promised(record))
        return;
    record->since = 0; /* it may be a verifier already, so each flush waits for the record */
    entry->sending += ledger_record_length(record);
    if (ledger_record_end(record) > entry->dirty_end)
        entry->dirty_end = ledger_record_end(record);
    ledger_dirty_count(entry, ledger_record_length(record));
}

void ledger_dirty_relist(struct ledger_entry *entry, uint32_t sorted,
                         struct ledger_garbage *garbage)
{
    entry->dirty_first = 0;
    for (uint32_t next; sorted; sorted = next) {
        next = ledger_record(sorted)->file_next;
        ledger_dirty_list(entry, entry->dirty_last, sorted);
    }
    for (uint32_t i = entry->dirty_first, next; i; i = next) {
        next = ledger_record(i)->file_next;
        settle_newest(entry, i, garbage);
    }
    ledger_dirty_count(entry, -1); /* the byte too many */
    if (entry->dirty_end > atomic_load(&entry->size))
        atomic_store(&entry->size, entry->dirty_end);
}

static bool measure_one(uint32_t index, uint64_t entry)
{
    struct ledger_entry *measured = (struct ledger_entry *)(uintptr_t)entry;
    const struct ledger_record *record = ledger_record(index);
    if ((ledger_record_is_dirty(record) || ledger_record_is_promised(record)) &&
        ledger_record_end(record) > measured->dirty_end)
        measured->dirty_end = ledger_record_end(record);
    return false;
}

void ledger_dirty_lost(struct ledger_entry *entry)
{
    entry->dirty_end = 0;
    if (atomic_load_explicit(&entry->dirty, memory_order_relaxed))
        ledger_record_find(ledger_entry_index(entry), measure_one, (uintptr_t)entry);
    ledger_entry_forget_size(entry);
}
