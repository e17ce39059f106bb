/*
 * Reads dirty data, and tells whether a range or a file has some.
 */
#include <string.h>

#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/stripes.h"

enum {
    PIECES = LEDGER_WRITE_MAX / LEDGER_CHUNK + 8, /* most pieces that are read in one step */
    ATTEMPTS = 8                                  /* attempts to copy them between two writes */
};

/* The newest record of the file that has the byte at `offset`. *end: how far it is the newest. 0:
 * none; *end: where the next one begins. What begins at `limit` or behind it does not count, nor
 * what is not of the same 64 KiB. */
static uint32_t newest_at(const struct ledger_entry *entry, uint64_t offset, uint64_t limit,
                          uint64_t *end)
{
    uint32_t file = ledger_entry_index(entry), found = 0;
    uint64_t next_start = UINT64_MAX;
    for (uint32_t i = ledger_span_first(file, offset, limit); i;
         i = ledger_span_next(i, offset, limit)) {
        const struct ledger_record *record = ledger_record(i);
        bool dirty = ledger_record_is_dirty(record);
        if (ledger_span_start(record) >= next_start)
            break;
        if ((!dirty && !ledger_record_is_promised(record)) || ledger_record_end(record) <= offset)
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

/* Is all of [start, end) in dirty records, or some of it, or none? */
static enum ledger_dirty_found find(const struct ledger_entry *entry, uint64_t start, uint64_t end)
{
    bool some = false, all = true;
    while (start < end) {
        uint64_t next, unit_end = ((start >> LEDGER_UNIT_SHIFT) + 1) << LEDGER_UNIT_SHIFT;
        bool found = newest_at(entry, start, end, &next);
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
        uint64_t from = unit << LEDGER_UNIT_SHIFT;
        from = from > start ? from : start;
        for (uint32_t i = ledger_span_first(file, from, end); i;
             i = ledger_span_next(i, from, end)) {
            if (ledger_record_is_dirty(ledger_record(i)) &&
                ledger_record_overlaps(ledger_record(i), file, start, end))
                return true;
        }
    }
    return false;
}

/* A piece: bytes of one chunk that are to be copied, and what they were found by. */
struct piece {
    uint32_t record, chunk;
    uint16_t inside, length;
    uint32_t starts; /* of the bucket: changes when a write is made there */
    uint64_t sequence;
};

/* The record that was found last, and how far it is the newest. */
struct found {
    uint32_t index;
    uint64_t end;
};

static struct piece piece_at(const struct ledger_entry *entry, uint64_t at, uint64_t end,
                             struct found *found)
{
    if (at >= found->end)
        found->index = newest_at(entry, at, end, &found->end);
    const struct ledger_record *record = ledger_record(found->index);
    const struct ledger_bucket *bucket = ledger_bucket(ledger_entry_index(entry), at);
    if (!found->index)
        return (struct piece){0};
    uint32_t inside = (uint32_t)(at - record->base);
    uint64_t length = LEDGER_CHUNK - inside % LEDGER_CHUNK;
    if (length > found->end - at)
        length = found->end - at;
    if (length > end - at)
        length = end - at;
    return (struct piece){found->index,
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

/* Lists the pieces of [start, end). Dirty records have all of it. Returns how many; 0: too many. */
static unsigned list_pieces(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                            struct piece *pieces)
{
    struct found found = {0};
    unsigned count = 0;
    for (; start < end && count < PIECES; start += pieces[count++].length)
        pieces[count] = piece_at(entry, start, end, &found);
    return start < end ? 0 : count;
}

static void copy_pieces(const struct piece *pieces, unsigned count, uint8_t *memory)
{
    for (unsigned i = 0; i < count; memory += pieces[i++].length)
        memcpy(memory,
               ledger_map.chunks + (uint64_t)pieces[i].chunk * LEDGER_CHUNK + pieces[i].inside,
               pieces[i].length);
}

/* Are the pieces still as they were listed? Then no process has changed their bytes. */
static bool pieces_last(struct ledger_file *file, uint64_t start, uint64_t end,
                        const struct piece *pieces, unsigned count)
{
    const struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    struct found found = {0};
    unsigned same = 0;
    if (!entry)
        return false;
    for (; same < count; start += pieces[same++].length) {
        struct piece now = piece_at(entry, start, end, &found);
        if (!same_piece(&now, &pieces[same]))
            break;
    }
    ledger_entry_unlock(file);
    return same == count;
}

/* How much of [offset, *end) is dirty? *end becomes the end of the file, if that comes before. */
static enum ledger_dirty_found find_all(const struct ledger_entry *entry, uint64_t offset,
                                        uint64_t *end)
{
    uint64_t size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    bool known = atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_KNOWN;
    /* If the last byte of the file is dirty, the host knows where the file ends. */
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

bool ledger_number_written(uint64_t device, uint64_t inode)
{
    struct ledger_entry *entry = NULL;
    while (ledger_map.shared && (entry = ledger_entry_next(device, inode, entry))) {
        if (atomic_load_explicit(&entry->flags, memory_order_acquire) & LEDGER_ENTRY_WRITTEN)
            return true;
    }
    return !ledger_map.shared ||
           atomic_load(
               &ledger_map.shared->stripes[ledger_stripe_of_inode(device, inode)].forgets_written);
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
