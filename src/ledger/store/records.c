#include "ledger/store/records.h"

#include <string.h>

#include "ledger/store/arena.h"
#include "ledger/store/lists.h"
#include "ledger/store/processes.h"
#include "sys/sys.h"

void ledger_record_link(uint32_t index)
{
    ledger_span_enter(index);
    ledger_map.entries[ledger_record_file(ledger_record(index))].records++;
}

static void unlink_span(uint32_t index)
{
    ledger_span_leave(index);
    ledger_map.entries[ledger_record_file(ledger_record(index))].records--;
}

/* ---- counters ---- */

static void count_bytes(struct ledger_entry *entry, int64_t bytes)
{
    ledger_count(&entry->uncommitted, &ledger_entry_stripe(entry)->uncommitted, bytes);
    if (atomic_load_explicit(&entry->uncommitted, memory_order_relaxed) == 0) {
        entry->uncommitted_end = 0;
        const uint32_t flags = LEDGER_ENTRY_MIXED | LEDGER_ENTRY_DISTRUSTED | LEDGER_ENTRY_REPLAYED;
        if (atomic_load_explicit(&entry->flags, memory_order_relaxed) & flags)
            atomic_fetch_and(&entry->flags, ~flags);
    }
}

/* Call it before the record's bytes are counted. */
static void count_verifier(struct ledger_entry *entry, uint64_t verifier)
{
    if (atomic_load_explicit(&entry->uncommitted, memory_order_relaxed) == 0)
        atomic_store_explicit(&entry->verifier, verifier, memory_order_release);
    else if (atomic_load_explicit(&entry->verifier, memory_order_relaxed) != verifier)
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_MIXED);
}

void ledger_entry_verifiers(struct ledger_entry *entry)
{
    if (!entry->first || !(atomic_load_explicit(&entry->flags, memory_order_relaxed) &
                           (LEDGER_ENTRY_MIXED | LEDGER_ENTRY_DISTRUSTED)))
        return; /* nothing can have become better */
    uint64_t verifier = ledger_record(entry->first)->verifier;
    bool mixed = false, distrusted = false;
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next) {
        mixed = mixed || ledger_record(i)->verifier != verifier;
        distrusted = distrusted || ledger_record(i)->distrusted;
    }
    if (!mixed) {
        atomic_store(&entry->verifier, verifier);
        atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_MIXED);
    }
    if (!distrusted)
        atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_DISTRUSTED);
}

void ledger_records_relisted(struct ledger_entry *entry)
{
    ledger_entry_verifiers(entry);
    count_bytes(entry, -1);
}

/* ---- the list of a file ---- */

/* Enters a record in the list behind `previous` (0: at its head), and counts it. */
static void insert_after(struct ledger_entry *entry, uint32_t previous, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    ledger_record_chain(&entry->first, &entry->last, previous, index);
    if (ledger_record_end(record) > entry->uncommitted_end)
        entry->uncommitted_end = ledger_record_end(record);
    count_verifier(entry, record->verifier);
    if (record->distrusted)
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_DISTRUSTED);
    count_bytes(entry, (int64_t)ledger_record_length(record));
}

void ledger_record_append(struct ledger_entry *entry, uint32_t index)
{
    insert_after(entry, entry->last, index);
}

void ledger_sent_list(struct ledger_entry *entry, uint32_t index)
{
    ledger_record_chain(&entry->sent_first, &entry->sent_last, 0, index);
}

void ledger_sent_unlist(struct ledger_entry *entry, uint32_t index)
{
    ledger_record_unchain(&entry->sent_first, &entry->sent_last, index);
}

/* Takes the record out of its list, and out of the counters. */
static void unlink_file(struct ledger_entry *entry, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    uint32_t state = ledger_record_state(record);
    if (state == LEDGER_RECORD_IN_FLIGHT || state == LEDGER_RECORD_GHOST)
        ledger_sent_unlist(entry, index);
    if (ledger_record_is_acked(record)) {
        ledger_record_unchain(&entry->first, &entry->last, index);
        count_bytes(entry, -(int64_t)ledger_record_length(record));
    } else {
        ledger_dirty_unlink(entry, index);
    }
}

/* Gives the record a sequence that is later than all others. Its bytes are counted all the time,
 * for readers without the lock. */
static void move_last(struct ledger_entry *entry, uint32_t index, uint64_t sequence)
{
    ledger_record_unchain(&entry->first, &entry->last, index);
    __atomic_store_n(&ledger_record(index)->sequence, sequence, __ATOMIC_RELEASE);
    ledger_record_chain(&entry->first, &entry->last, entry->last, index);
}

/* In this order: a process that dies here leaves an older verifier, or a later sequence. No COMMIT
 * that was sent before the answer vouches for that one. */
void ledger_record_renew(struct ledger_entry *entry, uint32_t index, uint64_t verifier)
{
    struct ledger_record *record = ledger_record(index);
    struct ledger_stripe *stripe = ledger_entry_stripe(entry);
    move_last(entry, index, ledger_stripe_next(stripe));
    count_verifier(entry, verifier);
    __atomic_store_n(&record->verifier, verifier, __ATOMIC_RELEASE);
    if (record->distrusted == LEDGER_DISTRUSTED_BEFORE)
        __atomic_store_n(&record->distrusted, 0, __ATOMIC_RELEASE);
    ledger_record_set_state(record, LEDGER_RECORD_ACKED);
}

/* Takes a record out of all lists and makes it PRIVATE. */
static void unlink_record(struct ledger_entry *entry, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    unlink_file(entry, index);
    unlink_span(index);
    ledger_record_set_state(record, LEDGER_RECORD_PRIVATE);
}

/* The data goes. The record stays where it is until ledger_stripe_expire() finds that its hold is
 * over. */
static void bury(struct ledger_entry *entry, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    struct ledger_stripe *stripe =
        &ledger_map.shared->stripes[ledger_stripe_of(ledger_record_file(record))];
    unlink_file(entry, index);
    ledger_sent_list(entry, index);
    ledger_record_set_state(record, LEDGER_RECORD_GHOST);
    atomic_store_explicit(&record->owner, 0, memory_order_relaxed);
    if (atomic_load_explicit(&stripe->held_check, memory_order_relaxed) == 0)
        atomic_store_explicit(&stripe->held_check, 1, memory_order_relaxed);
    ledger_arena_empty(index);
}

void ledger_record_drop(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t self = ledger_process_owner();
    /* If this process dies before it gives the record back, the record is found by its owner.
     * Without a slot it would never be found. */
    if (!self || (record->held_until && ledger_record_held(record, sys_now_ns()))) {
        bury(entry, index);
        return;
    }
    if (record->held_until)
        ledger_record_hold_over(record);
    atomic_store_explicit(&record->owner, self, memory_order_relaxed);
    unlink_record(entry, index);
    ledger_garbage_add(garbage, index);
}

static void trim(struct ledger_entry *entry, uint32_t index, uint32_t from, uint32_t to)
{
    struct ledger_record *record = ledger_record(index);
    int64_t less = (int64_t)ledger_record_to(record) - ledger_record_from(record) - (to - from);
    ledger_arena_trim(index, from, to);
    ledger_span_fit(index);
    count_bytes(entry, -less);
}

/* ---- overlaps ---- */

/* May a record of the file be REPLAY? */
static bool is_replayed(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_REPLAYED;
}

uint64_t ledger_now_if_held(uint32_t file)
{
    return atomic_load_explicit(&ledger_map.shared->stripes[ledger_stripe_of(file)].held_check,
                                memory_order_relaxed)
               ? sys_now_ns()
               : 0;
}

bool ledger_record_blocks(uint32_t index, uint64_t start, uint64_t end, uint32_t own, uint64_t now)
{
    const struct ledger_record *record = ledger_record(index);
    if (own && ledger_record_is_twin(record, ledger_record(own)))
        return false;
    return (ledger_record_is_busy(record) && ledger_record_start(record) < end &&
            start < ledger_record_end(record)) ||
           (now && index != own && ledger_record_held(record, now) &&
            record->base + record->held_from < end && start < record->base + record->held_to);
}

uint32_t ledger_record_conflict(uint32_t file, uint64_t start, uint64_t end, uint32_t own)
{
    const struct ledger_entry *entry = &ledger_map.entries[file];
    uint64_t now = ledger_now_if_held(file);
    if (!now && !entry->sent_first && !is_replayed(entry))
        return 0;
    for (uint64_t unit = start >> LEDGER_UNIT_SHIFT; unit <= (end - 1) >> LEDGER_UNIT_SHIFT;
         unit++) {
        uint64_t from = unit << LEDGER_UNIT_SHIFT;
        from = from > start ? from : start;
        for (uint32_t i = ledger_span_first(file, from, end); i;
             i = ledger_span_next(i, from, end)) {
            if (ledger_record_blocks(i, start, end, own, now))
                return i;
        }
    }
    return 0;
}

static uint8_t *byte_at(const struct ledger_record *record, uint64_t at)
{
    return ledger_map.chunks + (uint64_t)record->chunk[at / LEDGER_CHUNK] * LEDGER_CHUNK +
           at % LEDGER_CHUNK;
}

void ledger_record_overlay(uint32_t from, uint32_t to, uint64_t start, uint64_t end)
{
    const struct ledger_record *source = ledger_record(from), *target = ledger_record(to);
    ledger_record(to)->aside = 0; /* the process that sets it aside does not have these bytes */
    while (start < end) {
        uint64_t s = start - source->base, t = start - target->base;
        uint64_t room = LEDGER_CHUNK - s % LEDGER_CHUNK, length = end - start;
        if (room > LEDGER_CHUNK - t % LEDGER_CHUNK)
            room = LEDGER_CHUNK - t % LEDGER_CHUNK;
        if (length > room)
            length = room;
        uint8_t *to_byte = byte_at(target, t), *from_byte = byte_at(source, s);
        if (to_byte != from_byte) /* twins share them */
            memcpy(to_byte, from_byte, length);
        start += length;
    }
}

/*
 * `own` lies inside `index`, and something of `index` is left on both sides. The part behind
 * becomes a record of its own. True: `own` was consumed, as there was no free record, or no slot. A
 * process without a slot gets here only when it puts in order what another one left. There all is
 * ACKED.
 */
static bool split(struct ledger_entry *entry, uint32_t index, uint32_t own,
                  struct ledger_garbage *garbage)
{
    struct ledger_record *older = ledger_record(index), *record = ledger_record(own);
    uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
    uint32_t cut = (uint32_t)(start - older->base), from = (uint32_t)(end - older->base);
    uint32_t to = ledger_record_to(older), self = ledger_process_owner();
    bool consumed = false;
    uint32_t second = self ? ledger_arena_share(index, from, to, 0, self) : 0;
    if (!second && ledger_record_state(record) == LEDGER_RECORD_ACKED) {
        /* The older record takes the newer bytes, and vouches for both with its verifier. It gets
         * the later sequence: a COMMIT sent before those bytes vouches for neither. */
        ledger_record_overlay(own, index, start, end);
        older->distrusted |= record->distrusted;
        move_last(entry, index, record->sequence);
        if (older->distrusted)
            atomic_fetch_or(&entry->flags, LEDGER_ENTRY_DISTRUSTED);
        ledger_record_drop(entry, own, garbage);
        return true;
    }
    if (!second) {
        unlink_record(entry, own);
        second = ledger_arena_share(index, from, to, own, self);
        consumed = true;
    }
    /* In this order: any process that finds a PRIVATE record of a dead owner frees it. */
    ledger_record_set_state(ledger_record(second), LEDGER_RECORD_ACKED);
    atomic_store_explicit(&ledger_record(second)->owner, atomic_load(&older->owner),
                          memory_order_relaxed);
    ledger_record_link(second);
    insert_after(entry, index, second);
    trim(entry, index, ledger_record_from(older), cut);
    return consumed;
}

/* `halves`: looks only at records of the same sequence. They are halves of a split that a process
 * did not live to finish, and have the same bytes. Else only at older records. */
static bool supersede(struct ledger_entry *entry, uint32_t own, bool halves, uint64_t verifier,
                      struct ledger_garbage *garbage)
{
    const struct ledger_record *record = ledger_record(own);
    uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
    uint32_t file = ledger_record_file(record), next;
    bool acknowledged = ledger_record_state(record) == LEDGER_RECORD_ACKED;
    for (uint32_t index = ledger_span_first(file, start, end); index; index = next) {
        struct ledger_record *older = ledger_record(index);
        next = ledger_span_next(index, start, end);
        if (index == own || !ledger_record_overlaps(older, file, start, end) ||
            ledger_record_state(older) != LEDGER_RECORD_ACKED)
            continue;
        if (halves ? older->sequence != record->sequence || index > own
                   : acknowledged && older->sequence >= record->sequence)
            continue;
        /* The server lost the older bytes. Nothing else tells that to a read that began before and
         * is not judged yet, or to a COMMIT under way. It is counted before the record goes. */
        if (!halves && (older->verifier != verifier || older->distrusted))
            atomic_fetch_add_explicit(&entry->replays, 1, memory_order_release);
        bool head = ledger_record_start(older)<start, tail = ledger_record_end(older)> end;
        if (head && tail) {
            if (split(entry, index, own, garbage))
                return true;
        } else if (head) {
            trim(entry, index, ledger_record_from(older), (uint32_t)(start - older->base));
        } else if (tail) {
            trim(entry, index, (uint32_t)(end - older->base), ledger_record_to(older));
        } else {
            ledger_record_drop(entry, index, garbage);
        }
    }
    return false;
}

bool ledger_record_supersede(struct ledger_entry *entry, uint32_t own, uint64_t verifier,
                             struct ledger_garbage *garbage)
{
    return supersede(entry, own, false, verifier, garbage);
}

void ledger_record_supersede_halves(struct ledger_entry *entry, uint32_t own,
                                    struct ledger_garbage *garbage)
{
    supersede(entry, own, true, ledger_record(own)->verifier, garbage);
}

/* Both are ACKED. Do the bytes of `next` follow those of `record`, with the same owner and
 * verifier? And is there room in the last chunk of `record`? A distrusted record stays where it is:
 * under a later sequence a COMMIT under way would not find it. */
static bool may_absorb(const struct ledger_record *record, const struct ledger_record *next)
{
    uint32_t to = ledger_record_to(record),
             length = ledger_record_to(next) - ledger_record_from(next);
    return ledger_record_end(record) == ledger_record_start(next) && to % LEDGER_CHUNK != 0 &&
           to % LEDGER_CHUNK + length <= LEDGER_CHUNK && record->verifier == next->verifier &&
           !record->distrusted && !next->distrusted && !record->held_until && !next->held_until &&
           atomic_load_explicit(&record->owner, memory_order_relaxed) ==
               atomic_load_explicit(&next->owner, memory_order_relaxed);
}

/* In this order: both have the same bytes for a moment, under the later sequence. A COMMIT that was
 * sent before then vouches for neither of them. The next one does. */
static void absorb(struct ledger_entry *entry, uint32_t index, uint32_t next, uint64_t sequence,
                   struct ledger_garbage *garbage)
{
    struct ledger_record *record = ledger_record(index);
    uint64_t end = ledger_record_end(ledger_record(next));
    ledger_record_overlay(next, index, ledger_record_start(ledger_record(next)), end);
    if (entry->last != index)
        move_last(entry, index, sequence);
    count_bytes(entry, (int64_t)(end - ledger_record_end(record)));
    if (end > entry->uncommitted_end)
        entry->uncommitted_end = end;
    atomic_store_explicit(&record->range,
                          ledger_range(ledger_record_from(record), (uint32_t)(end - record->base)),
                          memory_order_release);
    ledger_span_fit(index);
    ledger_record_drop(entry, next, garbage);
}

void ledger_record_join(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage)
{
    const struct ledger_record *record = ledger_record(own);
    uint32_t file = ledger_record_file(record), before = 0, behind = 0;
    uint64_t sequence = record->sequence;
    uint64_t from = ledger_byte_before(ledger_record_start(record));
    uint64_t to = ledger_byte_behind(ledger_record_end(record));
    for (uint32_t i = ledger_span_first(file, from, to); i; i = ledger_span_next(i, from, to)) {
        const struct ledger_record *other = ledger_record(i);
        if (i == own || ledger_record_state(other) != LEDGER_RECORD_ACKED)
            continue;
        if (may_absorb(other, record))
            before = i;
        else if (ledger_record_start(other) == ledger_record_end(record))
            behind = i;
    }
    if (before)
        absorb(entry, before, own, sequence, garbage);
    uint32_t joined = before ? before : own;
    if (behind && may_absorb(ledger_record(joined), ledger_record(behind)))
        absorb(entry, joined, behind, sequence, garbage);
}

static bool redeem_one(uint32_t index, uint64_t entry)
{
    if (ledger_record_is_promised(ledger_record(index)))
        ledger_dirty_unlink((struct ledger_entry *)(uintptr_t)entry, index);
    return false;
}

void ledger_dirty_cut(struct ledger_entry *entry, uint64_t size, bool forget,
                      struct ledger_garbage *garbage)
{
    if (forget && entry->sending > 0)
        ledger_record_find_sent(ledger_entry_index(entry), redeem_one, (uintptr_t)entry);
    uint32_t next = entry->dirty_first;
    while (next) {
        uint32_t index = next;
        const struct ledger_record *record = ledger_record(index);
        next = record->file_next;
        if (ledger_record_end(record) <= size)
            continue;
        if (ledger_record_start(record) < size)
            ledger_dirty_trim(entry, index, ledger_record_start(record), size);
        else
            ledger_record_drop(entry, index, garbage);
    }
    if (entry->dirty_end > size)
        entry->dirty_end = size;
}

void ledger_record_cut(struct ledger_entry *entry, uint64_t size, bool replays,
                       struct ledger_garbage *garbage)
{
    uint32_t next = entry->first;
    ledger_dirty_cut(entry, size, replays, garbage);
    while (next) {
        uint32_t index = next;
        struct ledger_record *record = ledger_record(index);
        bool replay = ledger_record_state(record) == LEDGER_RECORD_REPLAY;
        next = record->file_next;
        if (ledger_record_end(record) <= size || (replay && !replays))
            continue;
        atomic_fetch_add_explicit(&entry->cuts, 1, memory_order_release);
        if (replay)
            unlink_record(entry, index); /* its owner frees it when its write ends */
        else if (ledger_record_start(record) < size)
            trim(entry, index, ledger_record_from(record), (uint32_t)(size - record->base));
        else
            ledger_record_drop(entry, index, garbage);
    }
}

/* Calls `wanted` for the records of a list. */
static uint32_t find(uint32_t next, ledger_record_wanted *wanted, uint64_t argument)
{
    while (next) {
        uint32_t index = next;
        next = ledger_record(index)->file_next;
        if (wanted(index, argument))
            return index;
    }
    return 0;
}

uint32_t ledger_record_find_sent(uint32_t file, ledger_record_wanted *wanted, uint64_t argument)
{
    return find(ledger_map.entries[file].sent_first, wanted, argument);
}

uint32_t ledger_record_find(uint32_t file, ledger_record_wanted *wanted, uint64_t argument)
{
    const struct ledger_entry *entry = &ledger_map.entries[file];
    uint32_t found = find(entry->sent_first, wanted, argument);
    if (!found)
        found = find(entry->dirty_first, wanted, argument);
    return found ? found : find(entry->first, wanted, argument);
}

uint32_t ledger_record_find_busy(uint32_t file, ledger_record_wanted *wanted, uint64_t argument)
{
    const struct ledger_entry *entry = &ledger_map.entries[file];
    if (atomic_load_explicit(&ledger_entry_stripe(entry)->held_check, memory_order_relaxed))
        return ledger_record_find(file, wanted, argument);
    uint32_t found = find(entry->sent_first, wanted, argument);
    return found || !is_replayed(entry) ? found : find(entry->first, wanted, argument);
}

static bool busy_beyond(uint32_t index, uint64_t size)
{
    const struct ledger_record *record = ledger_record(index);
    uint64_t now = ledger_now_if_held(ledger_record_file(record));
    return (ledger_record_is_busy(record) && ledger_record_end(record) > size) ||
           (now && ledger_record_held(record, now) && record->base + record->held_to > size);
}

uint32_t ledger_record_beyond(const struct ledger_entry *entry, uint64_t size)
{
    return ledger_record_find_busy(ledger_entry_index(entry), busy_beyond, size);
}

static bool pending(uint32_t index, uint64_t sequence)
{
    const struct ledger_record *record = ledger_record(index);
    uint64_t now = ledger_now_if_held(ledger_record_file(record));
    return (ledger_record_is_busy(record) && record->sequence < sequence) ||
           (now && ledger_record_held(record, now));
}

static bool is_in_flight(uint32_t index, uint64_t unused)
{
    (void)unused;
    return ledger_record_is_busy(ledger_record(index));
}

bool ledger_record_in_flight(const struct ledger_entry *entry)
{
    return ledger_record_find_busy(ledger_entry_index(entry), is_in_flight, 0) != 0;
}

uint32_t ledger_record_pending(const struct ledger_entry *entry, uint64_t sequence)
{
    return ledger_record_find_busy(ledger_entry_index(entry), pending, sequence);
}

static bool distrust_one(uint32_t index, uint64_t unused)
{
    (void)unused;
    ledger_record(index)->distrusted = LEDGER_DISTRUSTED;
    return false;
}

void ledger_records_distrust(uint32_t file)
{
    struct ledger_entry *entry = &ledger_map.entries[file];
    ledger_record_find(file, distrust_one, 0);
    if (entry->first)
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_DISTRUSTED);
}

static bool detach_one(uint32_t index, uint64_t garbage)
{
    ledger_record(index)->held_until = 0;
    uint32_t state = ledger_record_state(ledger_record(index));
    if (state == LEDGER_RECORD_GHOST || state == LEDGER_RECORD_DIRTY) /* no owner frees it */
        ledger_record_drop(&ledger_map.entries[ledger_record_file(ledger_record(index))], index,
                           (struct ledger_garbage *)(uintptr_t)garbage);
    else
        unlink_record(&ledger_map.entries[ledger_record_file(ledger_record(index))], index);
    return false;
}

void ledger_records_detach(uint32_t file, struct ledger_garbage *garbage)
{
    ledger_record_find(file, detach_one, (uintptr_t)garbage);
}
