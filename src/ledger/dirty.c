#include "ledger/dirty.h"

#include <string.h>

#include "ledger/arena.h"
#include "ledger/entries.h"
#include "ledger/processes.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

static void count_dirty(struct ledger_entry *entry, int64_t bytes)
{
    ledger_count(&entry->dirty, &ledger_entry_stripe(entry)->dirty, bytes);
    if (atomic_load_explicit(&entry->dirty, memory_order_relaxed) == 0) {
        entry->dirty_end = 0;
        ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED);
    }
}

uint64_t ledger_file_dirty(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->dirty, memory_order_acquire) : 0;
}

/* ---- the list ---- */

void ledger_dirty_list(struct ledger_entry *entry, uint32_t previous, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    ledger_record_chain(&entry->dirty_first, &entry->dirty_last, previous, index);
    if (ledger_record_end(record) > entry->dirty_end)
        entry->dirty_end = ledger_record_end(record);
    count_dirty(entry, ledger_record_length(record));
}

void ledger_dirty_unlink(struct ledger_entry *entry, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    if (ledger_record_is_dirty(record)) {
        ledger_record_unchain(&entry->dirty_first, &entry->dirty_last, index);
        count_dirty(entry, -(int64_t)ledger_record_length(record));
    } else if (ledger_record_is_promised(record)) {
        ledger_record(index)->promised = false;
        ledger_dirty_kept(entry, ledger_record_length(record));
    }
}

void ledger_dirty_kept(struct ledger_entry *entry, uint64_t bytes)
{
    entry->sending -= bytes;
    count_dirty(entry, -(int64_t)bytes);
}

static void trim(struct ledger_entry *entry, uint32_t index, uint64_t start, uint64_t end)
{
    struct ledger_record *record = ledger_record(index);
    uint64_t length = end - start;
    count_dirty(entry, (int64_t)length - ledger_record_length(record));
    if (ledger_record_is_promised(record))
        entry->sending -= ledger_record_length(record) - length;
    ledger_arena_trim(index, (uint32_t)(start - record->base), (uint32_t)(end - record->base));
}

/* A record that takes newer bytes is its process's that wrote them: that lives. */
static void hand_over(uint32_t index, uint32_t newer)
{
    uint32_t owner = atomic_load_explicit(&ledger_record(newer)->owner, memory_order_relaxed);
    if (atomic_load_explicit(&ledger_record(index)->owner, memory_order_relaxed) == owner)
        return;
    ledger_record(index)->aside = 0; /* who sets it aside does not have them */
    atomic_store(&ledger_record(index)->owner, owner);
}

/*
 * Both hold bytes of [start, end) of the file, and those of `from` are newer: they replace those of
 * `to`. Until `from` is dropped both are there, so that who dies here leaves nothing half done.
 */
static void replace(struct ledger_entry *entry, uint32_t from, uint32_t to, uint64_t start,
                    uint64_t end, struct ledger_garbage *garbage)
{
    ledger_record(to)->changed = true; /* before its bytes are */
    hand_over(to, from);
    ledger_record_overlay(from, to, start, end);
    ledger_record_drop(entry, from, garbage);
}

/* Who dies before the first one is trimmed leaves both with the same bytes: see is_older(). */
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
    trim(entry, index, ledger_record_start(record), at);
    return second;
}

/*
 * Ends an overlap of two dirty records: the older one keeps what is not in the newer one. If that
 * is more than one piece, and the newer bytes are few, they go into the older record, so that many
 * small writes leave few records. True: the newer one is gone.
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
        trim(entry, older, ledger_record_start(old), start);
    else if (tail)
        trim(entry, older, end, ledger_record_end(old));
    else
        ledger_record_drop(entry, older, garbage);
    return false;
}

/* Of two records that are DIRTY. Those of one sequence are parts of a split that a process did not
 * live to finish. */
static bool is_older(const struct ledger_record *other, const struct ledger_record *record)
{
    return other->sequence != record->sequence
               ? other->sequence < record->sequence
               : ledger_record_start(other) < ledger_record_start(record);
}

/* Takes the bytes of `own`, the newest, away from all others that are DIRTY. True: it is gone
 * itself, as another has them. */
static bool settle_newest(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage)
{
    const struct ledger_record *record = ledger_record(own);
    uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
    uint32_t file = ledger_entry_index(entry), next = ledger_bucket(file, record->base)->first;
    while (next) {
        uint32_t index = next;
        const struct ledger_record *other = ledger_record(index);
        next = other->bucket_next;
        if (index == own || !ledger_record_is_dirty(other) || !is_older(other, record) ||
            !ledger_record_overlaps(other, file, start, end))
            continue;
        bool last = ledger_record_start(other) <= start && ledger_record_end(other) >= end;
        if (settle(entry, index, own, garbage))
            return true;
        if (last)
            return false; /* no other has bytes of it: they do not overlap */
    }
    return false;
}

/* Small writes that follow one another leave few records: the bytes of `own` go into the last chunk
 * of the one before it. But not if an older copy of that one may be executed late, which would undo
 * them: `own` alone waits for that. */
static void join(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage)
{
    const struct ledger_record *record = ledger_record(own);
    uint32_t file = ledger_entry_index(entry), length = ledger_record_length(record);
    uint32_t i = ledger_bucket(file, record->base)->first;
    for (; i; i = ledger_record(i)->bucket_next) {
        struct ledger_record *before = ledger_record(i);
        uint32_t to = ledger_record_to(before);
        if (!ledger_record_is_dirty(before) || ledger_record_file(before) != file ||
            before->held_until || before->twins || before->changed ||
            ledger_record_end(before) != ledger_record_start(record) || to % LEDGER_CHUNK == 0 ||
            to % LEDGER_CHUNK + length > LEDGER_CHUNK)
            continue;
        hand_over(i, own);
        ledger_record_overlay(own, i, ledger_record_start(record), ledger_record_end(record));
        count_dirty(entry, length);
        atomic_store_explicit(&before->range, ledger_range(ledger_record_from(before), to + length),
                              memory_order_release);
        ledger_record_drop(entry, own, garbage);
        return;
    }
}

/* The first that the server does not have. */
static void begin_dirty(struct ledger_entry *entry)
{
    bool known = atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_KNOWN;
    entry->sent_end = atomic_load_explicit(&entry->size, memory_order_relaxed);
    entry->dirty_mtime =
        known ? atomic_load_explicit(&entry->mtime, memory_order_relaxed) : LEDGER_NO_TIME;
}

/* ---- a write ---- */

/* DIRTY records around a write that is not linked yet. */
struct place {
    uint32_t around;    /* one that has all of its bytes; 0: none */
    uint32_t before;    /* one that ends where it begins, and in whose last chunk nothing is free */
    bool is_overlapped; /* some have bytes of it */
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
    uint32_t file = ledger_entry_index(entry), i = ledger_bucket(file, record->base)->first;
    for (; i && !place.around; i = ledger_record(i)->bucket_next) {
        const struct ledger_record *other = ledger_record(i);
        if (!ledger_record_is_dirty(other) || ledger_record_file(other) != file)
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

/* Has the record nothing in its chunks that the write does not have, so that whole chunks can
 * change places? */
static bool has_whole_chunks(const struct ledger_record *record, const struct ledger_record *write)
{
    uint64_t start = ledger_record_start(write), end = ledger_record_end(write);
    return (start - record->base) % LEDGER_CHUNK == 0 &&
           ((end - record->base) % LEDGER_CHUNK == 0 || end == ledger_record_end(record));
}

/* The bytes of a write that is not linked take the place of older ones in a record. What is copied
 * is small: a process may be stopped here, and all others wait for the lock. False: it is not. */
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

/* A record goes on with the chunks of a write that is not linked. `range` is its commit point. */
static void grow(struct ledger_entry *entry, uint32_t from, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t length = ledger_record_length(ledger_record(from)), to = ledger_record_to(record);
    ledger_arena_move(from, index, (int)(to / LEDGER_CHUNK));
    if (ledger_record_end(record) + length > entry->dirty_end)
        entry->dirty_end = ledger_record_end(record) + length;
    count_dirty(entry, length);
    atomic_store_explicit(&record->range, ledger_range(ledger_record_from(record), to + length),
                          memory_order_release);
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
    if (!atomic_load_explicit(&entry->dirty, memory_order_relaxed))
        begin_dirty(entry);
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
    uint32_t file = ledger_entry_index(entry), next = ledger_bucket(file, record->base)->first;
    if (sys_test_unsafe(SYS_TEST_PROMISED)) {
        ledger_record_drop(entry, index, garbage);
        return;
    }
    while (next) {
        uint32_t newer = next;
        const struct ledger_record *other = ledger_record(newer);
        next = other->bucket_next;
        if (!ledger_record_is_dirty(other) ||
            !ledger_record_overlaps(other, file, ledger_record_start(record),
                                    ledger_record_end(record)))
            continue;
        settle(entry, index, newer, garbage);
        if (!ledger_record_is_promised(record))
            return; /* the newer one has all of it */
    }
    /* Its bytes are counted all the time, by who looks without the lock; and who dies here leaves
     * it promised, or DIRTY. */
    struct ledger_record *returned = ledger_record(index);
    returned->since = 0; /* whoever flushes sends it */
    ledger_record_set_state(returned, LEDGER_RECORD_DIRTY);
    returned->promised = false;
    entry->sending -= ledger_record_length(record);
    ledger_record_chain(&entry->dirty_first, &entry->dirty_last, 0, index);
}

void ledger_dirty_recount(struct ledger_entry *entry, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    if (!ledger_record_is_promised(record))
        return;
    record->since = 0; /* it may be a verifier already: whoever flushes waits for it */
    entry->sending += ledger_record_length(record);
    if (ledger_record_end(record) > entry->dirty_end)
        entry->dirty_end = ledger_record_end(record);
    count_dirty(entry, ledger_record_length(record));
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
    count_dirty(entry, -1); /* the byte too many */
    if (entry->dirty_end > atomic_load(&entry->size))
        atomic_store(&entry->size, entry->dirty_end);
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
        ledger_record_find(ledger_entry_index(entry), redeem_one, (uintptr_t)entry);
    uint32_t next = entry->dirty_first;
    while (next) {
        uint32_t index = next;
        const struct ledger_record *record = ledger_record(index);
        next = record->file_next;
        if (ledger_record_end(record) <= size)
            continue;
        if (ledger_record_start(record) < size)
            trim(entry, index, ledger_record_start(record), size);
        else
            ledger_record_drop(entry, index, garbage);
    }
    if (entry->dirty_end > size)
        entry->dirty_end = size;
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

/* ---- reading ---- */

enum {
    PIECES = LEDGER_WRITE_MAX / LEDGER_CHUNK + 8, /* that are read in one step */
    ATTEMPTS = 8                                  /* to copy them between two writes */
};

/* The record of this file that has the byte at `offset`, and how far it is the newest that does.
 * 0: none; *end: where the next begins. */
static uint32_t newest_at(const struct ledger_entry *entry, uint64_t offset, uint64_t *end)
{
    uint32_t file = ledger_entry_index(entry), found = 0;
    uint64_t next_start = UINT64_MAX;
    for (uint32_t i = ledger_bucket(file, offset)->first; i; i = ledger_record(i)->bucket_next) {
        const struct ledger_record *record = ledger_record(i);
        bool dirty = ledger_record_is_dirty(record);
        if (ledger_record_file(record) != file || (!dirty && !ledger_record_is_promised(record)) ||
            ledger_record_end(record) <= offset)
            continue;
        if (ledger_record_start(record) > offset) {
            if (ledger_record_start(record) < next_start)
                next_start = ledger_record_start(record);
        } else if (dirty || !found) {
            found = i;
        }
    }
    *end = next_start;
    if (found && ledger_record_end(ledger_record(found)) < next_start)
        *end = ledger_record_end(ledger_record(found));
    return found;
}

/* Is all of [start, end) in dirty records, or some of it? */
static enum ledger_dirty_found find(const struct ledger_entry *entry, uint64_t start, uint64_t end)
{
    bool some = false, all = true;
    while (start < end) {
        uint64_t next, unit_end = ((start >> LEDGER_UNIT_SHIFT) + 1) << LEDGER_UNIT_SHIFT;
        bool found = newest_at(entry, start, &next);
        some = some || found;
        all = all && found;
        if (some && !all)
            return LEDGER_DIRTY_SOME;
        start = next < unit_end ? next : unit_end;
    }
    return all && some ? LEDGER_DIRTY_ALL : some ? LEDGER_DIRTY_SOME : LEDGER_DIRTY_NONE;
}

bool ledger_dirty_overlaps(const struct ledger_entry *entry, uint64_t start, uint64_t end)
{
    uint32_t file = ledger_entry_index(entry);
    if (!entry->dirty_first)
        return false;
    for (uint64_t unit = start >> LEDGER_UNIT_SHIFT; unit <= (end - 1) >> LEDGER_UNIT_SHIFT;
         unit++) {
        uint32_t i = ledger_bucket(file, unit << LEDGER_UNIT_SHIFT)->first;
        for (; i; i = ledger_record(i)->bucket_next) {
            if (ledger_record_is_dirty(ledger_record(i)) &&
                ledger_record_overlaps(ledger_record(i), file, start, end))
                return true;
        }
    }
    return false;
}

/* Bytes of one chunk that are to be copied, and how they are found. */
struct piece {
    uint32_t record, chunk;
    uint16_t inside, length;
    uint32_t starts; /* of the bucket: changes when a write is made there */
    uint64_t sequence;
};

static struct piece piece_at(const struct ledger_entry *entry, uint64_t at, uint64_t end)
{
    uint64_t record_end;
    uint32_t index = newest_at(entry, at, &record_end);
    const struct ledger_record *record = ledger_record(index);
    const struct ledger_bucket *bucket = ledger_bucket(ledger_entry_index(entry), at);
    if (!index)
        return (struct piece){0};
    uint32_t inside = (uint32_t)(at - record->base);
    uint64_t length = LEDGER_CHUNK - inside % LEDGER_CHUNK;
    if (length > record_end - at)
        length = record_end - at;
    if (length > end - at)
        length = end - at;
    return (struct piece){index,
                          record->chunk[inside / LEDGER_CHUNK],
                          (uint16_t)(inside % LEDGER_CHUNK),
                          (uint16_t)length,
                          atomic_load_explicit(&bucket->starts, memory_order_relaxed),
                          record->sequence};
}

static bool same_piece(const struct piece *a, const struct piece *b)
{
    return a->record == b->record && a->chunk == b->chunk && a->inside == b->inside &&
           a->length == b->length && a->starts == b->starts && a->sequence == b->sequence;
}

/* All of [start, end) is in dirty records. How many pieces it is; 0: too many. */
static unsigned list_pieces(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                            struct piece *pieces)
{
    unsigned count = 0;
    for (; start < end && count < PIECES; start += pieces[count++].length)
        pieces[count] = piece_at(entry, start, end);
    return start < end ? 0 : count;
}

static void copy_pieces(const struct piece *pieces, unsigned count, uint8_t *memory)
{
    for (unsigned i = 0; i < count; memory += pieces[i++].length)
        memcpy(memory,
               ledger_map.chunks + (uint64_t)pieces[i].chunk * LEDGER_CHUNK + pieces[i].inside,
               pieces[i].length);
}

/* Is all there as it was when these were listed? Then nobody has changed their bytes. */
static bool pieces_last(struct ledger_file *file, uint64_t start, uint64_t end,
                        const struct piece *pieces, unsigned count)
{
    const struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    unsigned same = 0;
    if (!entry)
        return false;
    for (; same < count; start += pieces[same++].length) {
        struct piece now = piece_at(entry, start, end);
        if (!same_piece(&now, &pieces[same]))
            break;
    }
    ledger_entry_unlock(file);
    return same == count;
}

/* How much of [offset, *end) is dirty; *end: the end of the file if that comes before. */
static enum ledger_dirty_found find_all(const struct ledger_entry *entry, uint64_t offset,
                                        uint64_t *end)
{
    uint64_t size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    bool known = atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_KNOWN;
    /* Where the last byte of the file is a dirty one the host knows where it ends. */
    if (known && *end > size && offset < size && entry->dirty_end == size)
        *end = size;
    return find(entry, offset, *end);
}

/* The bytes are copied without the lock, as others wait for it. */
enum ledger_dirty_found ledger_dirty_read(struct ledger_file *file, uint64_t offset, size_t length,
                                          uint8_t *memory, size_t *done)
{
    struct piece pieces[PIECES];
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t end = offset + length;
        const struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
        if (!entry)
            return LEDGER_DIRTY_NONE;
        enum ledger_dirty_found found = find_all(entry, offset, &end);
        bool copies = found == LEDGER_DIRTY_ALL && memory;
        unsigned count = copies ? list_pieces(entry, offset, end, pieces) : 0;
        ledger_entry_unlock(file);
        *done = found == LEDGER_DIRTY_ALL ? (size_t)(end - offset) : 0;
        if (!copies)
            return found;
        copy_pieces(pieces, count, memory);
        if (count > 0 && pieces_last(file, offset, end, pieces, count))
            return found;
    }
    *done = 0;
    return LEDGER_DIRTY_SOME;
}

bool ledger_dirty_concerns(struct ledger_file *file, uint64_t start, uint64_t end)
{
    if (!ledger_file_dirty(file))
        return false;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    bool concerns = atomic_load_explicit(&entry->dirty, memory_order_relaxed) &&
                    (end > entry->sent_end || find(entry, start, end) != LEDGER_DIRTY_NONE);
    ledger_entry_unlock(file);
    return concerns;
}

bool ledger_number_dirty(uint64_t device, uint64_t inode)
{
    struct ledger_entry *entry = NULL;
    while (ledger_map.shared && (entry = ledger_entry_next(device, inode, entry))) {
        if (atomic_load_explicit(&entry->dirty, memory_order_acquire))
            return true;
    }
    return false;
}
