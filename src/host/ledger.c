/*
 * The ledger: writes in flight, and acknowledged data until it is committed.
 */
#include <linux/futex.h>
#include <string.h>

#include "host/shared.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

enum { COMMIT_BATCH = 256 };
#define SWEEP_INTERVAL_NS UINT64_C(1000000000)

void host_stripe_wake(uint32_t stripe)
{
    struct host_stripe *s = &host_map.shared->stripes[stripe];
    if (atomic_load_explicit(&s->waiting, memory_order_acquire) == 0 ||
        atomic_exchange(&s->waiting, 0) == 0)
        return;
    atomic_fetch_add(&s->wake, 1);
    sys_futex(&s->wake, FUTEX_WAKE, INT32_MAX, NULL);
}

void host_stripe_wait(uint32_t stripe, uint32_t owner)
{
    static __thread uint64_t checked_ns; /* when this thread last looked whether one is dead */
    struct host_stripe *s = &host_map.shared->stripes[stripe];
    struct timespec limit = {0, HOST_WAIT_NS};
    uint32_t seen = atomic_load(&s->wake);
    atomic_store(&s->waiting, 1);
    host_stripe_unlock(stripe);
    /* Whoever frees the range now finds `waiting` set and changes `wake`. */
    sys_futex(&s->wake, FUTEX_WAIT, seen, &limit);
    uint64_t now = sys_now_ns();
    if (now - checked_ns >= HOST_WAIT_NS) {
        host_process_check(owner);
        checked_ns = now;
    }
    host_stripe_lock(stripe);
}

/* ---- begin ---- */

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

/* The records that a prepared write was given: PRIVATE, one behind the other. */
static void copy_data(const struct host_write *write, const struct iovec *data)
{
    size_t used = 0;
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count; i++) {
        const struct host_record *record = host_record(index);
        uint32_t end = host_record_to(record);
        for (uint32_t at = 0; at < end;) {
            while (used == data->iov_len) {
                data++;
                used = 0;
            }
            uint32_t length = HOST_CHUNK - at % HOST_CHUNK;
            if (length > end - at)
                length = end - at;
            if (length > data->iov_len - used)
                length = (uint32_t)(data->iov_len - used);
            memcpy(host_map.chunks + (uint64_t)record->chunk[at / HOST_CHUNK] * HOST_CHUNK +
                       at % HOST_CHUNK,
                   (const uint8_t *)data->iov_base + used, length);
            at += length;
            used += length;
        }
        index = record->write_next;
    }
}

/* -EFAULT where that can be told. */
__attribute__((noinline)) static int copy_guarded(const struct host_write *write,
                                                  const struct iovec *data)
{
    jmp_buf guard;
    if (_setjmp(guard) != 0) {
        sys_critical.guard = NULL;
        return -EFAULT;
    }
    sys_critical.guard = &guard;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    copy_data(write, data);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    sys_critical.guard = NULL;
    return 0;
}

static uint32_t cut_into_pieces(uint64_t offset, size_t length, struct host_piece *pieces)
{
    uint32_t count = 0;
    while (length) {
        uint64_t unit_end = ((offset >> HOST_UNIT_SHIFT) + 1) << HOST_UNIT_SHIFT;
        pieces[count].base = offset;
        pieces[count].length =
            length < unit_end - offset ? (uint32_t)length : (uint32_t)(unit_end - offset);
        offset += pieces[count].length;
        length -= pieces[count].length;
        count++;
    }
    return count;
}

static int take_records(struct host_piece *pieces, uint32_t count, bool keep, uint32_t owner)
{
    if (count == 1 &&
        (pieces->record = host_pocket_take(pieces->base, pieces->length, keep, owner)))
        return 0;
    int error = host_arena_take(pieces, count, keep, owner);
    if (error) {
        host_pocket_empty();
        host_process_sweep(SWEEP_INTERVAL_NS);
        error = host_arena_take(pieces, count, keep, owner);
    }
    return error;
}

/* Checks a write and gives it PRIVATE records; none if it has no length. */
static int prepare(const struct host_beginning *b)
{
    struct host_piece pieces[HOST_WRITE_RECORDS];
    *b->write = (struct host_write){.offset = b->offset, .length = b->length, .kept = b->keep};
    if (b->length == 0)
        return 0;
    if (b->length > HOST_WRITE_MAX || b->offset + b->length < b->offset)
        return -EINVAL;
    if (!host_process_slot())
        return -ENOSPC;
    int error = b->keep ? check_vectors(b->data, b->count, b->length) : 0;
    if (error)
        return error;
    uint32_t owner = host_process_owner();

    uint32_t piece_count = cut_into_pieces(b->offset, b->length, pieces);
    error = take_records(pieces, piece_count, b->keep, owner);
    if (error)
        return error;
    b->write->first_record = pieces[0].record;
    b->write->record_count = piece_count;
    return 0;
}

/* Copies the data of a prepared write, if it is kept. */
static int keep_data(const struct host_beginning *b)
{
    if (!b->keep)
        return 0;
    if (atomic_load_explicit(&sys_critical_faults, memory_order_relaxed))
        return copy_guarded(b->write, b->data);
    copy_data(b->write, b->data);
    return 0;
}

/* Gives back what a prepared write has. */
static void abandon(const struct host_beginning *b)
{
    if (b->write->record_count)
        host_arena_give(b->write->first_record);
    b->write->record_count = 0;
}

uint32_t host_range_user(const struct host_entry *entry, uint64_t start, uint64_t end, uint32_t own)
{
    uint32_t record = host_record_conflict(host_entry_index(entry), start, end, own);
    return record ? atomic_load_explicit(&host_record(record)->owner, memory_order_relaxed)
                  : UINT32_MAX;
}

/* The same, and who changes the size or appends. */
static uint32_t in_the_way(struct host_entry *entry, uint64_t start, uint64_t end, uint32_t own)
{
    uint32_t truncator = host_entry_truncator(entry);
    if (truncator && end > entry->truncate_size)
        return truncator;
    return host_range_user(entry, start, end, own);
}

/* The entry, locked, with nothing in the way of a write. -EAGAIN: something is, and the caller does
 * not `wait`. HOST_OF_KERNEL. */
static struct host_entry *lock_range(struct host_file *file, const struct host_beginning *b,
                                     bool wait, int *error)
{
    for (;;) {
        struct host_entry *entry = host_entry_lock(file, true, error);
        if (!entry)
            return NULL;
        if (host_entry_is_kernel(entry)) {
            host_entry_unlock(file);
            *error = HOST_OF_KERNEL;
            return NULL;
        }
        uint64_t end = b->offset + b->length;
        uint32_t owner = b->appends ? host_range_user(entry, b->offset, end, 0)
                                    : in_the_way(entry, b->offset, end, 0);
        if (owner == UINT32_MAX)
            return entry;
        if (!wait) {
            host_entry_unlock(file);
            host_process_sweep(SWEEP_INTERVAL_NS);
            *error = -EAGAIN;
            return NULL;
        }
        host_stripe_wait(host_stripe_of(host_entry_index(entry)), owner);
        host_entry_unlock(file);
    }
}

/* Under the stripe's lock, with nothing in the way: others see the prepared write now. */
static void announce(const struct host_entry *entry, struct host_write *write)
{
    uint64_t sequence = atomic_load_explicit(
        &host_map.shared->stripes[host_stripe_of(host_entry_index(entry))].sequence,
        memory_order_relaxed);
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count; i++) {
        struct host_record *record = host_record(index);
        atomic_store_explicit(&record->file, host_entry_index(entry), memory_order_relaxed);
        record->sequence = sequence;
        host_record_set_state(record, HOST_RECORD_IN_FLIGHT);
        host_record_link(index);
        index = record->write_next;
    }
}

int host_write_start(struct host_file *file, const struct host_beginning *b, bool wait)
{
    int error = prepare(b);
    if (error || b->length == 0)
        return error;
    error = keep_data(b);
    struct host_entry *entry = error ? NULL : lock_range(file, b, wait, &error);
    if (!entry) {
        abandon(b);
        return error;
    }
    announce(entry, b->write);
    host_entry_count_change(entry);
    host_entry_unlock(file);
    return 0;
}

int host_write_begin(struct host_file *file, uint64_t offset, const struct iovec *data, int count,
                     size_t length, bool keep, struct host_write *write)
{
    const struct host_beginning beginning = {offset, data, count, length, keep, write, false};
    return host_write_start(file, &beginning, true);
}

int host_write_try(struct host_file *file, uint64_t offset, const struct iovec *data, int count,
                   size_t length, bool keep, struct host_write *write)
{
    const struct host_beginning beginning = {offset, data, count, length, keep, write, false};
    return host_write_start(file, &beginning, false);
}

unsigned host_writes_try(struct host_file *file, const struct host_beginning *list, unsigned count)
{
    unsigned prepared = 0, copied = 0, begun = 0;
    int error;
    while (prepared < count && list[prepared].length > 0 && prepare(&list[prepared]) == 0)
        prepared++;
    /* One after the other: a lock in between waits until all of a copy has reached the cache. */
    while (copied < prepared && keep_data(&list[copied]) == 0)
        copied++;
    struct host_entry *entry = copied > 0 ? host_entry_lock(file, true, &error) : NULL;
    while (entry && !host_entry_is_kernel(entry) && begun < copied &&
           in_the_way(entry, list[begun].offset, list[begun].offset + list[begun].length, 0) ==
               UINT32_MAX)
        announce(entry, list[begun++].write);
    if (entry && begun > 0)
        host_entry_count_change(entry);
    if (entry)
        host_entry_unlock(file);
    for (unsigned i = begun; i < prepared; i++)
        abandon(&list[i]);
    return begun;
}

int host_write_data(const struct host_write *write, size_t from, size_t length,
                    struct iovec *vectors)
{
    int count = 0;
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count && length; i++) {
        const struct host_record *record = host_record(index);
        uint32_t position = host_record_from(record), end = host_record_to(record);
        index = record->write_next;
        if (from >= end - position) {
            from -= end - position;
            continue;
        }
        position += (uint32_t)from;
        from = 0;
        while (position < end && length) {
            size_t part = HOST_CHUNK - position % HOST_CHUNK;
            if (part > end - position)
                part = end - position;
            if (part > length)
                part = length;
            uint8_t *start = host_map.chunks +
                             (uint64_t)record->chunk[position / HOST_CHUNK] * HOST_CHUNK +
                             position % HOST_CHUNK;
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

/* ---- end ---- */

static void acknowledge(struct host_entry *entry, uint32_t index, uint64_t verifier,
                        struct host_garbage *garbage)
{
    struct host_stripe *stripe = &host_map.shared->stripes[host_stripe_of(host_entry_index(entry))];
    struct host_record *record = host_record(index);
    record->sequence = host_stripe_next(stripe);
    record->verifier = verifier;
    host_record_set_state(record, HOST_RECORD_ACKED);
    host_record_append(entry, index);
    if (!host_record_supersede(entry, index, verifier, garbage) &&
        host_record_end(record) - host_record_start(record) <= HOST_JOIN_MOST)
        host_record_join(entry, index, garbage);
}

static void end_piece(struct host_entry *entry, uint32_t index, bool kept,
                      enum host_outcome outcome, uint64_t verifier, struct host_garbage *garbage)
{
    struct host_record *record = host_record(index);
    switch (host_record_state(record)) {
    case HOST_RECORD_PRIVATE: /* the file was forgotten meanwhile */
        host_garbage_add(garbage, index);
        break;
    case HOST_RECORD_REPLAY:
        if (outcome == HOST_WRITE_STABLE) {
            atomic_fetch_add_explicit(&entry->replays, 1, memory_order_release);
            host_record_drop(entry, index, garbage);
            break;
        }
        if (outcome == HOST_WRITE_UNSTABLE) {
            atomic_fetch_add_explicit(&entry->replays, 1, memory_order_release);
            host_record_renew(entry, index, verifier);
            break;
        }
        host_record_set_state(record, HOST_RECORD_ACKED);
        break;
    case HOST_RECORD_IN_FLIGHT:
        if (outcome == HOST_WRITE_UNSTABLE && kept)
            acknowledge(entry, index, verifier, garbage);
        else if (outcome == HOST_WRITE_FAILED ||
                 !host_record_supersede(entry, index, verifier, garbage))
            host_record_drop(entry, index, garbage);
        break;
    default:
        break;
    }
}

static void grow(struct host_entry *entry, uint64_t end)
{
    if (host_entry_is_appending(entry) && end > entry->truncate_size)
        entry->truncate_size = end; /* nobody but who has the turn writes there */
    if (atomic_load_explicit(&entry->size, memory_order_relaxed) >= end)
        return;
    host_entry_change(entry);
    atomic_store_explicit(&entry->size, end, memory_order_release);
    host_entry_changed(entry);
}

void host_write_end(struct host_file *file, struct host_write *write, enum host_outcome outcome,
                    const uint8_t verifier[HOST_VERIFIER_SIZE])
{
    struct host_ending ending = {.file = file, .write = write, .outcome = outcome};
    if (verifier)
        memcpy(&ending.verifier, verifier, sizeof(ending.verifier));
    host_writes_end(&ending, 1);
}

/*
 * Under the stripe's lock. The entry of a file with linked records is never recycled, so the stripe
 * is the records'. If the file was replaced under this write, its records are PRIVATE now, and
 * `entry` is unused.
 */
static void end_one(struct host_ending *ending, struct host_garbage *garbage)
{
    struct host_write *write = ending->write;
    if (!write->record_count)
        return;
    uint32_t index = write->first_record;
    struct host_entry *entry = NULL;
    for (uint32_t i = 0; i < write->record_count && !entry; i++) {
        if (host_record_state(host_record(index)) != HOST_RECORD_PRIVATE)
            entry = &host_map.entries[atomic_load(&host_record(index)->file)];
        index = host_record(index)->write_next;
    }
    index = write->first_record;
    if (entry && write->doubtful)
        host_records_distrust(host_entry_index(entry));
    if (entry && ending->told)
        host_entry_learn(entry, ending->epoch, &ending->attributes, ending->asked_ns);
    else if (entry)
        atomic_fetch_or(&entry->flags, HOST_ENTRY_UNTOLD);
    for (uint32_t i = 0; i < write->record_count; i++) {
        uint32_t next = host_record(index)->write_next;
        if (write->unsettled && host_record_state(host_record(index)) != HOST_RECORD_PRIVATE)
            host_record_hold(index);
        end_piece(entry, index, write->kept, ending->outcome, ending->verifier, garbage);
        index = next;
    }
    if (entry) {
        host_entry_count_change(entry);
        if (ending->outcome != HOST_WRITE_FAILED)
            grow(entry, write->offset + write->length);
    }
    write->record_count = 0;
}

void host_writes_end(struct host_ending *endings, unsigned count)
{
    struct host_garbage garbage = {0};
    for (unsigned i = 0; i < count;) {
        uint32_t stripe = host_stripe_of_file(endings[i].file);
        host_stripe_lock(stripe);
        do
            end_one(&endings[i++], &garbage);
        while (i < count && endings[i].file == endings[i - 1].file);
        host_stripe_unlock(stripe);
        host_stripe_wake(stripe);
    }
    host_arena_give(garbage.first);
}

/* ---- questions ---- */

uint64_t host_file_uncommitted(struct host_file *file)
{
    struct host_entry *entry = host_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->uncommitted, memory_order_acquire) : 0;
}

uint64_t host_uncommitted(void)
{
    uint64_t sum = 0;
    for (int i = 0; host_map.shared && i < HOST_STRIPES; i++)
        sum += atomic_load_explicit(&host_map.shared->stripes[i].uncommitted, memory_order_relaxed);
    return sum;
}

bool host_file_uncommitted_here(struct host_file *file)
{
    uint32_t self = host_process_slot_taken();
    bool found = false;
    int error;
    if (!self || !host_file_uncommitted(file))
        return false;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return false;
    for (uint32_t i = entry->last; i && !found; i = host_record(i)->file_previous)
        found = atomic_load(&host_record(i)->owner) == self;
    host_entry_unlock(file);
    return found;
}

uint64_t host_file_read_epoch(struct host_file *file)
{
    struct host_entry *entry = host_entry_peek(file);
    if (!entry)
        return 0;
    uint64_t replays = atomic_load_explicit(&entry->replays, memory_order_acquire);
    return replays << 32 | atomic_load_explicit(&entry->cuts, memory_order_acquire);
}

uint64_t host_file_replays(struct host_file *file)
{
    struct host_entry *entry = host_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->replays, memory_order_acquire) : 0;
}

bool host_file_verifier_differs(struct host_file *file, const uint8_t verifier[HOST_VERIFIER_SIZE])
{
    uint64_t value;
    struct host_entry *entry = host_entry_peek(file);
    memcpy(&value, verifier, sizeof(value));
    if (!entry || !atomic_load_explicit(&entry->uncommitted, memory_order_acquire))
        return false;
    return (atomic_load_explicit(&entry->flags, memory_order_acquire) & HOST_ENTRY_MIXED) ||
           atomic_load_explicit(&entry->verifier, memory_order_acquire) != value;
}

bool host_file_distrusted(struct host_file *file)
{
    struct host_entry *entry = host_entry_peek(file);
    return entry &&
           atomic_load_explicit(&entry->flags, memory_order_acquire) & HOST_ENTRY_DISTRUSTED;
}

/* ---- COMMIT ---- */

/* Does a COMMIT that returned `verifier` vouch for the record? */
static bool vouched(const struct host_record *record, uint64_t verifier)
{
    return (!record->distrusted || sys_test_unsafe(SYS_TEST_DISTRUST)) &&
           (record->verifier == verifier || sys_test_unsafe(SYS_TEST_VERIFIER));
}

/* Drops a number of records that the COMMIT vouches for. True if there may be more. */
static bool commit_some(struct host_file *file, struct host_commit *commit, uint64_t verifier,
                        uint64_t *differing)
{
    struct host_garbage garbage = {0};
    int dropped = 0, error;
    uint64_t bytes = 0;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return false;
    uint32_t next = entry->first;
    while (next && dropped < COMMIT_BATCH) {
        struct host_record *record = host_record(next);
        uint32_t index = next;
        if (record->sequence > commit->sequence)
            break;
        next = record->file_next;
        if (!vouched(record, verifier)) {
            bytes += host_record_to(record) - host_record_from(record);
        } else if (host_record_state(record) == HOST_RECORD_ACKED) {
            host_record_drop(entry, index, &garbage);
            dropped++;
        }
    }
    bool more = dropped == COMMIT_BATCH;
    if (!more) {
        *differing = bytes;
        host_entry_verifiers(entry);
    }
    host_entry_unlock(file);
    host_arena_give(garbage.first);
    return more;
}

uint64_t host_commit_end(struct host_file *file, struct host_commit *commit,
                         const uint8_t verifier[HOST_VERIFIER_SIZE])
{
    uint64_t value, differing = 0;
    memcpy(&value, verifier, sizeof(value));
    memcpy(commit->verifier, verifier, HOST_VERIFIER_SIZE);
    host_commit_answered(file, commit);
    while (commit_some(file, commit, value, &differing))
        ;
    commit->again = differing == 0 && (host_file_replays(file) != commit->replays ||
                                       host_file_verifier_differs(file, verifier));
    host_commit_over(file, commit, differing == 0 && !commit->again);
    return differing;
}

/* The first record that this commit must still write again; 0: none. */
static uint32_t next_to_replay(const struct host_entry *entry, const struct host_commit *commit)
{
    uint64_t verifier;
    memcpy(&verifier, commit->verifier, sizeof(verifier));
    for (uint32_t i = entry->first; i; i = host_record(i)->file_next) {
        const struct host_record *record = host_record(i);
        if (record->sequence > commit->sequence)
            return 0;
        bool tried =
            record->sequence < commit->tried || (record->sequence == commit->tried &&
                                                 host_record_start(record) <= commit->tried_offset);
        if (!vouched(record, verifier) && !tried)
            return i;
    }
    return 0;
}

/* This process writes the record again. */
static void begin_replay(uint32_t index, struct host_commit *commit)
{
    struct host_record *record = host_record(index);
    atomic_store(&record->owner, host_process_owner());
    if (record->distrusted) /* what is said of it from now on is of the new copy, too */
        record->distrusted = HOST_DISTRUSTED_BEFORE;
    host_record_set_state(record, HOST_RECORD_REPLAY);
    record->write_next = 0;
    commit->tried = record->sequence;
    commit->tried_offset = host_record_start(record);
}

static int vectors_of(const struct host_record *record)
{
    return host_end_chunk(host_record_to(record)) - host_first_chunk(host_record_from(record));
}

/* Adds records that follow in the list and in the file, as far as one WRITE reaches. */
static void extend_replay(struct host_entry *entry, struct host_commit *commit,
                          struct host_write *write)
{
    uint32_t last = write->first_record, next;
    int vectors = vectors_of(host_record(last));
    uint64_t verifier;
    memcpy(&verifier, commit->verifier, sizeof(verifier));
    while ((next = host_record(last)->file_next)) {
        struct host_record *record = host_record(next);
        uint64_t start = host_record_start(record), end = host_record_end(record);
        vectors += vectors_of(record);
        if (start != write->offset + write->length || end - write->offset > commit->most ||
            record->sequence > commit->sequence || vouched(record, verifier) ||
            vectors > HOST_WRITE_VECTORS || in_the_way(entry, start, end, next) != UINT32_MAX)
            return;
        begin_replay(next, commit);
        host_record(last)->write_next = next;
        write->length += end - start;
        write->record_count++;
        last = next;
    }
}

static int replay_next(struct host_file *file, struct host_commit *commit, bool wait,
                       struct host_write *write)
{
    uint32_t self = host_process_slot(), index;
    int error;
    for (;;) {
        struct host_entry *entry = host_entry_lock(file, false, &error);
        if (!entry)
            return 0;
        index = next_to_replay(entry, commit);
        if (!index || !self) {
            host_entry_unlock(file);
            return index ? -ENOSPC : 0;
        }
        struct host_record *record = host_record(index);
        uint64_t start = host_record_start(record), end = host_record_end(record);
        uint32_t owner = in_the_way(entry, start, end, index);
        if (owner == UINT32_MAX) {
            begin_replay(index, commit);
            *write = (struct host_write){.offset = start,
                                         .length = end - start,
                                         .kept = true,
                                         .first_record = index,
                                         .record_count = 1};
            extend_replay(entry, commit, write);
            host_entry_unlock(file);
            return 1;
        }
        if (wait)
            host_stripe_wait(host_stripe_of(host_entry_index(entry)), owner);
        host_entry_unlock(file);
        if (!wait) {
            host_process_sweep(SWEEP_INTERVAL_NS); /* what is in the way may be of a dead one */
            return -EAGAIN;
        }
    }
}

int host_replay_next(struct host_file *file, struct host_commit *commit, struct host_write *write)
{
    return replay_next(file, commit, true, write);
}

int host_replay_try(struct host_file *file, struct host_commit *commit, struct host_write *write)
{
    return replay_next(file, commit, false, write);
}

uint64_t host_file_forget(struct host_file *file, bool missed)
{
    struct host_garbage garbage = {0};
    int error;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return 0;
    uint64_t bytes = atomic_load(&entry->uncommitted);
    host_record_cut(entry, 0, true, &garbage);
    if (missed && bytes > 0 &&
        atomic_fetch_add(&entry->losses, 1) == __atomic_load_n(&file->losses, __ATOMIC_RELAXED))
        __atomic_fetch_add(&file->losses, 1, __ATOMIC_RELAXED); /* the caller knows */
    host_entry_unlock(file);
    host_stripe_wake(host_stripe_of_file(file));
    host_arena_give(garbage.first);
    return bytes;
}

bool host_file_has_loss(struct host_file *file)
{
    const struct host_entry *entry = host_entry_peek(file);
    return entry && (atomic_load(&entry->losses) != __atomic_load_n(&file->losses, __ATOMIC_RELAXED) ||
                     atomic_load(&entry->told) != atomic_load(&entry->losses));
}

bool host_file_lost(struct host_file *file)
{
    int error;
    struct host_entry *entry;
    if (!host_file_has_loss(file))
        return false;
    entry = host_entry_lock(file, false, &error);
    if (!entry)
        return false;
    uint32_t losses = atomic_load(&entry->losses);
    atomic_store(&entry->told, losses);
    host_entry_unlock(file);
    return __atomic_exchange_n(&file->losses, losses, __ATOMIC_RELAXED) != losses;
}

/* Under the stripe's lock. */
static bool wanted(const struct host_entry *entry, uint64_t server, bool orphans)
{
    if (!entry->first || (server && entry->server != server))
        return false;
    if (!orphans)
        return true;
    for (uint32_t i = entry->first; i; i = host_record(i)->file_next) {
        if (atomic_load(&host_record(i)->owner) == 0)
            return true;
    }
    return false;
}

bool host_uncommitted_next(uint32_t *cursor, uint64_t server, bool orphans, struct host_file *file)
{
    struct host_shared *shared = host_map.shared;
    if (!shared)
        return false;
    if (*cursor == 0 && orphans)
        host_process_sweep(0);
    for (; *cursor < HOST_FILES; ++*cursor) {
        uint32_t stripe = host_stripe_of(*cursor);
        if (!atomic_load_explicit(&shared->set_state[*cursor / HOST_SET_SIZE],
                                  memory_order_acquire) ||
            !atomic_load_explicit(&shared->stripes[stripe].uncommitted, memory_order_relaxed)) {
            *cursor |= HOST_SET_SIZE - 1; /* nothing in the whole set */
            continue;
        }
        struct host_entry *entry = &host_map.entries[*cursor];
        if (!atomic_load_explicit(&entry->uncommitted, memory_order_relaxed))
            continue;
        host_stripe_lock(stripe);
        bool found = wanted(entry, server, orphans);
        if (found)
            host_entry_name(entry, file);
        host_stripe_unlock(stripe);
        if (found) {
            ++*cursor;
            return true;
        }
    }
    return false;
}
