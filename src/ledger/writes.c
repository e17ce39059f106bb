/*
 * Writes in flight: announced, and ended.
 */
#include <string.h>

#include "ledger/agent.h"
#include "ledger/store/pocket.h"
#include "ledger/cache.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "ledger/stamp.h"
#include "ledger/orphans.h"
#include "ledger/store/touch.h"
#include "ledger/proof.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

enum { RECORDS_AT_ONCE = 8 }; /* records that end under the lock at a time, as others wait for it */

static int check_vectors(const struct iovec *data, int count, size_t length)
{
    size_t have = 0;
    for (int i = 0; i < count && have < length; i++) {
        if (data[i].iov_len && sys_bad_pointer(data[i].iov_base))
            return -EFAULT;
        have += data[i].iov_len;
    }
    return have < length ? -EINVAL : 0;
}

/* Copies the data into the records of a prepared write, which are PRIVATE and chained. */
static void copy_data(const struct ledger_write *write, const struct iovec *data)
{
    size_t used = 0;
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count; i++) {
        const struct ledger_record *record = ledger_record(index);
        uint32_t end = ledger_record_to(record);
        for (uint32_t at = 0; at < end;) {
            while (used == data->iov_len) {
                data++;
                used = 0;
            }
            uint32_t length = LEDGER_CHUNK - at % LEDGER_CHUNK;
            if (length > end - at)
                length = end - at;
            if (length > data->iov_len - used)
                length = (uint32_t)(data->iov_len - used);
            memcpy(ledger_map.chunks + (uint64_t)record->chunk[at / LEDGER_CHUNK] * LEDGER_CHUNK +
                       at % LEDGER_CHUNK,
                   (const uint8_t *)data->iov_base + used, length);
            at += length;
            used += length;
        }
        index = record->write_next;
    }
}

static void copy_beginning(const void *beginning)
{
    const struct ledger_beginning *b = beginning;
    copy_data(b->write, b->data);
}

static uint32_t cut_into_slices(uint64_t offset, size_t length, struct ledger_slice *slices)
{
    uint32_t count = 0;
    while (length) {
        uint64_t unit_end = ((offset >> LEDGER_UNIT_SHIFT) + 1) << LEDGER_UNIT_SHIFT;
        slices[count].base = offset;
        slices[count].length =
            length < unit_end - offset ? (uint32_t)length : (uint32_t)(unit_end - offset);
        offset += slices[count].length;
        length -= slices[count].length;
        count++;
    }
    return count;
}

static int take_records(struct ledger_slice *slices, uint32_t count, bool keep, uint32_t owner)
{
    if (count == 1 &&
        (slices->record = ledger_pocket_take(slices->base, slices->length, keep, owner)))
        return 0;
    int result = ledger_arena_take(slices, count, keep, owner);
    if (result) {
        ledger_pocket_empty();
        ledger_process_sweep(LEDGER_SWEEP_NS);
        result = ledger_arena_take(slices, count, keep, owner);
    }
    return result;
}

/* Checks a write, and gives it PRIVATE records; none if it has no length. */
static int prepare(const struct ledger_beginning *b)
{
    struct ledger_slice slices[LEDGER_WRITE_RECORDS];
    *b->write = (struct ledger_write){.offset = b->offset, .length = b->length, .kept = b->keep};
    if (b->length == 0)
        return 0;
    if (b->length > LEDGER_WRITE_MAX || b->offset + b->length < b->offset)
        return -EINVAL;
    if (!ledger_process_slot())
        return -ENOSPC;
    int result = b->keep ? check_vectors(b->data, b->count, b->length) : 0;
    if (result)
        return result;
    uint32_t owner = ledger_process_owner();

    uint32_t slice_count = cut_into_slices(b->offset, b->length, slices);
    result = take_records(slices, slice_count, b->keep, owner);
    if (result)
        return result;
    b->write->first_record = slices[0].record;
    b->write->record_count = slice_count;
    return 0;
}

/* Copies the data of a prepared write, if it is kept. */
static int keep_data(const struct ledger_beginning *b)
{
    if (!b->keep)
        return 0;
    if (sys_critical_catches())
        return sys_critical_guarded(copy_beginning, b);
    copy_data(b->write, b->data);
    return 0;
}

/* Gives back the records of a prepared write. */
static void abandon(const struct ledger_beginning *b)
{
    if (b->write->record_count)
        ledger_arena_give(b->write->first_record);
    b->write->record_count = 0;
}

static uint32_t in_the_way(struct ledger_entry *entry, const struct ledger_beginning *b)
{
    uint64_t end = b->offset + b->length;
    return b->appends ? ledger_range_user(entry, b->offset, end, 0)
                      : ledger_range_in_the_way(entry, b->offset, end, 0);
}

/*
 * The entry, locked, when nothing is in the way of the write. Else NULL, and *result is the error.
 *   -EAGAIN: something is in the way, and the caller does not `wait`.
 *   LEDGER_IS_DIRTY, LEDGER_OF_KERNEL, or as ledger_entry_lock().
 */
static struct ledger_entry *lock_range(struct ledger_file *file, const struct ledger_beginning *b,
                                       bool wait, int *result)
{
    for (;;) {
        struct ledger_entry *entry = ledger_entry_lock(file, true, result);
        if (!entry)
            return NULL;
        if (ledger_entry_is_kernel(entry)) {
            ledger_entry_unlock(file);
            *result = LEDGER_OF_KERNEL;
            return NULL;
        }
        uint32_t owner = in_the_way(entry, b);
        bool dirty = ledger_dirty_overlaps(entry, b->offset, b->offset + b->length);
        if (owner == UINT32_MAX && !dirty)
            return entry;
        if (!wait || owner == UINT32_MAX) {
            ledger_entry_unlock(file);
            ledger_process_sweep(LEDGER_SWEEP_NS);
            *result = owner == UINT32_MAX ? LEDGER_IS_DIRTY : -EAGAIN;
            return NULL;
        }
        ledger_stripe_wait(ledger_stripe_of(ledger_entry_index(entry)), owner);
        ledger_entry_unlock(file);
    }
}

/* Makes a prepared write visible to others. Under the stripe's lock, with nothing in the way. */
static void announce(struct ledger_entry *entry, struct ledger_write *write)
{
    uint64_t sequence =
        atomic_load_explicit(&ledger_entry_stripe(entry)->sequence, memory_order_relaxed);
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count; i++) {
        struct ledger_record *record = ledger_record(index);
        atomic_store_explicit(&record->file, ledger_entry_index(entry), memory_order_relaxed);
        record->sequence = sequence;
        if (!write->kept)
            ledger_record_goes_to_disk(entry, record);
        ledger_record_set_state(record, LEDGER_RECORD_IN_FLIGHT);
        ledger_record_link(index);
        ledger_sent_list(entry, index);
        ledger_record_starts(entry, record);
        index = record->write_next;
    }
}

int ledger_write_start(struct ledger_file *file, const struct ledger_beginning *b, bool wait)
{
    int result = prepare(b);
    if (result || b->length == 0)
        return result;
    result = keep_data(b);
    struct ledger_entry *entry = result ? NULL : lock_range(file, b, wait, &result);
    if (!entry) {
        abandon(b);
        return result;
    }
    announce(entry, b->write);
    ledger_entry_count_change(entry);
    ledger_entry_unlock(file);
    return 0;
}

unsigned ledger_writes_try(struct ledger_file *file, const struct ledger_beginning *list,
                           unsigned count)
{
    unsigned prepared = 0, copied = 0, begun = 0;
    while (prepared < count && list[prepared].length > 0 && prepare(&list[prepared]) == 0)
        prepared++;
    /* Copies are made before the lock is taken: to take it waits until all of a copy has reached
     * the cache. */
    while (copied < prepared && keep_data(&list[copied]) == 0)
        copied++;
    struct ledger_entry *entry = copied > 0 ? ledger_entry_lock(file, true, NULL) : NULL;
    while (
        entry && !ledger_entry_is_kernel(entry) && begun < copied &&
        ledger_range_in_the_way(entry, list[begun].offset, list[begun].offset + list[begun].length,
                                0) == UINT32_MAX &&
        !ledger_dirty_overlaps(entry, list[begun].offset, list[begun].offset + list[begun].length))
        announce(entry, list[begun++].write);
    if (entry && begun > 0)
        ledger_entry_count_change(entry);
    if (entry)
        ledger_entry_unlock(file);
    for (unsigned i = begun; i < prepared; i++)
        abandon(&list[i]);
    return begun;
}

int ledger_write_data(const struct ledger_write *write, size_t from, size_t length,
                      struct iovec *vectors)
{
    int count = 0;
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count && length; i++) {
        const struct ledger_record *record = ledger_record(index);
        uint32_t position = ledger_record_from(record), end = ledger_record_to(record);
        index = record->write_next;
        if (from >= end - position) {
            from -= end - position;
            continue;
        }
        position += (uint32_t)from;
        from = 0;
        while (position < end && length) {
            size_t part = LEDGER_CHUNK - position % LEDGER_CHUNK;
            if (part > end - position)
                part = end - position;
            if (part > length)
                part = length;
            uint8_t *start = ledger_map.chunks +
                             (uint64_t)record->chunk[position / LEDGER_CHUNK] * LEDGER_CHUNK +
                             position % LEDGER_CHUNK;
            if (count &&
                (uint8_t *)vectors[count - 1].iov_base + vectors[count - 1].iov_len == start)
                vectors[count - 1].iov_len += part;
            else
                vectors[count++] = (struct iovec){start, part};
            position += (uint32_t)part;
            length -= part;
        }
    }
    return count;
}

static void acknowledge(struct ledger_entry *entry, uint32_t index, uint64_t verifier,
                        struct ledger_garbage *garbage)
{
    struct ledger_stripe *stripe = ledger_entry_stripe(entry);
    struct ledger_record *record = ledger_record(index);
    record->sequence = ledger_stripe_next(stripe);
    record->verifier = verifier;
    ledger_sent_unlist(entry, index);
    ledger_entry_orphan_sent(entry, record);
    ledger_record_set_state(record, LEDGER_RECORD_ACKED);
    ledger_record_return(record);
    ledger_record_append(entry, index);
    if (!ledger_record_supersede(entry, index, verifier, garbage) &&
        ledger_record_end(record) - ledger_record_start(record) <= LEDGER_JOIN_MOST)
        ledger_record_join(entry, index, garbage);
}

/* The server took the record's data. */
static void taken(struct ledger_entry *entry, const struct ledger_record *record)
{
    if (!record->promised)
        ledger_entry_clear(entry, LEDGER_ENTRY_REFUSED);
    else if (ledger_record_end(record) > entry->sent_end)
        entry->sent_end = ledger_record_end(record);
}

static void end_record(struct ledger_entry *entry, uint32_t index, bool kept,
                       enum ledger_outcome outcome, uint64_t verifier,
                       struct ledger_garbage *garbage)
{
    struct ledger_record *record = ledger_record(index);
    switch (ledger_record_state(record)) {
    case LEDGER_RECORD_PRIVATE: /* the file was forgotten meanwhile */
        if (atomic_load(&record->owner) == ledger_process_slot_taken())
            ledger_garbage_add(garbage, index);
        else
            ledger_arena_damaged(index);
        break;
    case LEDGER_RECORD_REPLAY:
        if (outcome == LEDGER_WRITE_STABLE) {
            atomic_fetch_add_explicit(&entry->replays, 1, memory_order_release);
            ledger_record_drop(entry, index, garbage);
            break;
        }
        if (outcome == LEDGER_WRITE_UNSTABLE) {
            atomic_fetch_add_explicit(&entry->replays, 1, memory_order_release);
            ledger_record_renew(entry, index, verifier);
        } else {
            ledger_record_set_state(record, LEDGER_RECORD_ACKED);
        }
        ledger_record_return(record);
        break;
    case LEDGER_RECORD_IN_FLIGHT:
        if (ledger_record_is_replaced(record)) {
            ledger_record_drop(entry, index, garbage);
            break;
        }
        if (record->promised && outcome == LEDGER_WRITE_FAILED) {
            ledger_dirty_return(entry, index, garbage);
            break;
        }
        if (outcome == LEDGER_WRITE_STABLE || outcome == LEDGER_WRITE_UNSTABLE)
            taken(entry, record);
        if (outcome == LEDGER_WRITE_UNSTABLE && kept) {
            uint64_t promised = record->promised ? ledger_record_length(record) : 0;
            acknowledge(entry, index, verifier, garbage);
            if (promised)
                ledger_dirty_kept(entry, promised);
        } else if (outcome == LEDGER_WRITE_FAILED || outcome == LEDGER_WRITE_LOST ||
                   !ledger_record_supersede(entry, index, verifier, garbage)) {
            ledger_record_drop(entry, index, garbage);
        }
        break;
    default:
        break;
    }
}

static void grow(struct ledger_entry *entry, uint64_t end)
{
    if (ledger_entry_is_appending(entry) && end > entry->truncate.size)
        entry->truncate.size = end; /* only the process that has the turn writes there */
    if (atomic_load_explicit(&entry->size, memory_order_relaxed) >= end)
        return;
    ledger_entry_change(entry);
    atomic_store_explicit(&entry->size, end, memory_order_release);
    ledger_entry_changed(entry);
}

/* The entry, locked, when no process changes its size to less than the write needs. Else NULL, and
 * *result is LEDGER_OF_KERNEL, LEDGER_WRITE_NOW, -EAGAIN, or as ledger_entry_lock(). */
static struct ledger_entry *lock_size(struct ledger_file *file, const struct ledger_beginning *b,
                                      bool wait, int *result)
{
    for (;;) {
        struct ledger_entry *entry = ledger_entry_lock(file, true, result);
        if (!entry)
            return NULL;
        uint32_t other = b->appends ? 0 : ledger_entry_truncator(entry);
        bool waits = other && b->offset + b->length > entry->truncate.size;
        bool refused =
            atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_REFUSED;
        if (!ledger_entry_is_kernel(entry) && !refused && !waits)
            return entry;
        *result = ledger_entry_is_kernel(entry) ? LEDGER_OF_KERNEL
                  : refused                     ? LEDGER_WRITE_NOW
                                                : -EAGAIN;
        if (*result == -EAGAIN && wait)
            ledger_stripe_wait(ledger_stripe_of(ledger_entry_index(entry)), other);
        ledger_entry_unlock(file);
        if (*result != -EAGAIN || !wait)
            return NULL;
    }
}

int ledger_write_behind(struct ledger_file *file, const struct ledger_beginning *b, bool wait,
                        uint64_t *dirty)
{
    struct ledger_garbage garbage = {0};
    int result = prepare(b);
    if (result || b->length == 0)
        return result;
    ledger_touch(b->write->first_record, b->write->record_count);
    result = keep_data(b);
    struct ledger_entry *entry = result ? NULL : lock_size(file, b, wait, &result);
    if (!entry) {
        abandon(b);
        return result;
    }
    /* First: if this process dies in between, the rest is sent as this user. */
    if (atomic_load_explicit(&entry->user, memory_order_relaxed) != b->user)
        atomic_store_explicit(&entry->user, b->user, memory_order_release);
    for (uint32_t index = b->write->first_record, next; index; index = next) {
        struct ledger_bucket *bucket =
            ledger_bucket(ledger_entry_index(entry), ledger_record(index)->base);
        next = ledger_record(index)->write_next;
        ledger_record_starts(entry, ledger_record(index)); /* before, as this process may die */
        ledger_dirty_enter(entry, index, &garbage);
        ledger_starts_count(bucket); /* and after: see ledger_stamp_lasts() */
    }
    grow(entry, b->offset + b->length);
    *dirty = atomic_load_explicit(&entry->dirty, memory_order_relaxed);
    ledger_entry_unlock(file);
    ledger_arena_give(garbage.first);
    return 0;
}

void ledger_write_end(struct ledger_file *file, struct ledger_write *write,
                      enum ledger_outcome outcome, uint64_t verifier)
{
    struct ledger_ending ending = {
        .file = file, .write = write, .outcome = outcome, .verifier = verifier};
    ledger_writes_end(&ending, 1);
}

/* The entry of the records that a write still has. NULL: they are PRIVATE, as the file was replaced
 * meanwhile. The entry of a file with linked records is never recycled. */
static struct ledger_entry *entry_of(const struct ledger_write *write)
{
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count; i++) {
        if (ledger_record_state(ledger_record(index)) != LEDGER_RECORD_PRIVATE)
            return &ledger_map.entries[atomic_load(&ledger_record(index)->file)];
        index = ledger_record(index)->write_next;
    }
    return NULL;
}

/* Takes over what the answer says of the file. Under the stripe's lock. */
static void begin_end(struct ledger_ending *ending, struct ledger_entry *entry)
{
    const struct ledger_write *write = ending->write;
    if (ending->outcome == LEDGER_WRITE_LOST &&
        !ledger_record_is_replaced(ledger_record(write->first_record)) &&
        !sys_test_unsafe(SYS_TEST_TOLD))
        ledger_entry_lose(entry, ending->error);
    if (write->doubtful)
        ledger_records_distrust(ledger_entry_index(entry));
    ending->overtaken =
        ending->before_ctime != 0 && ending->before_ctime != atomic_load(&entry->ctime);
    if (ending->attributes_known) {
        ledger_cache_wrote(entry, &ending->attributes, ending->several ? 0 : ending->before_ctime,
                           ending->asked_ns);
        ending->is_old = !ledger_proof_goes_on(entry, ending->several ? 0 : ending->before_ctime,
                                               &ending->attributes);
        ledger_entry_learn(entry, ending->epoch, &ending->attributes, ending->asked_ns, true);
    } else {
        ledger_entry_untold(entry);
    }
}

/* Ends at most `most` records of a write. Under the stripe's lock, which others get after that.
 * Returns how many records. *orphans: this process need not commit some of them. */
static unsigned end_some(struct ledger_ending *ending, unsigned most, bool first,
                         struct ledger_garbage *garbage, bool *orphans)
{
    struct ledger_write *write = ending->write;
    if (first)
        ending->overtaken = ending->is_old = false;
    if (!write->record_count)
        return 0;
    struct ledger_entry *entry = entry_of(write);
    struct ledger_entry *now = entry ? NULL : ledger_entry_of(ending->file);
    if (now) { /* the write may have changed the file, and its entry does not know it */
        ledger_entry_untold(now);
        ledger_entry_outdate(now);
        ledger_entry_is_written(now);
    }
    if (entry && first)
        begin_end(ending, entry);
    bool lost = entry && ending->outcome == LEDGER_WRITE_LOST &&
                !ledger_record_is_replaced(ledger_record(write->first_record));
    unsigned count = 0;
    for (; write->record_count && count < most; count++, write->record_count--) {
        uint32_t index = write->first_record;
        write->first_record = ledger_record(index)->write_next;
        if (write->unsettled && ledger_record_state(ledger_record(index)) != LEDGER_RECORD_PRIVATE)
            ledger_record_hold(index);
        if (ending->outcome == LEDGER_WRITE_UNSTABLE)
            *orphans = *orphans || ledger_record_is_lent_by_nobody(ledger_record(index));
        end_record(entry, index, write->kept, ending->outcome, ending->verifier, garbage);
    }
    if (entry) {
        ledger_entry_count_change(entry);
        if (ending->outcome == LEDGER_WRITE_STABLE || ending->outcome == LEDGER_WRITE_UNSTABLE)
            grow(entry, write->offset + write->length);
        if (lost)
            ledger_dirty_lost(entry);
        if (ending->is_old)
            ledger_proof_skips(entry, ending->several ? 0 : ending->before_ctime);
    }
    return count;
}

void ledger_writes_end(struct ledger_ending *endings, unsigned count)
{
    struct ledger_garbage garbage = {0};
    bool first = true, orphans = false;
    for (unsigned i = 0; i < count;) {
        uint32_t stripe = ledger_stripe_of_file(endings[i].file);
        const struct ledger_file *file = endings[i].file;
        unsigned ended = 0;
        ledger_stripe_lock(stripe);
        while (i < count && endings[i].file == file && ended < RECORDS_AT_ONCE) {
            ended += end_some(&endings[i], RECORDS_AT_ONCE - ended, first, &garbage, &orphans);
            first = endings[i].write->record_count == 0;
            i += first;
        }
        ledger_stripe_unlock(stripe);
        ledger_stripe_wake(stripe);
    }
    ledger_arena_give(garbage.first);
    if (orphans)
        ledger_agent_owes();
}
