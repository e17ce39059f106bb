/*
 * Records and chunks: which are free, and which chunks belong to which record. All of it is under
 * arena_lock, and can be computed again from the records' states and chunk numbers.
 */
#include <string.h>

#include "ledger/store/arena.h"
#include "ledger/store/mutex.h"
#include "ledger/store/record.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    RECORDS_STEP = 512, /* reserved at a time: 64 KiB */
    CHUNKS_STEP = 128,  /* 1 MiB */
    SPARE_RECORDS = 64  /* records that have memory, for the parts of split records */
};

static uint32_t load(const _Atomic uint32_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void store(_Atomic uint32_t *counter, uint32_t value)
{
    atomic_store_explicit(counter, value, memory_order_release);
}

/* An owner of the lock died half way. Makes the free lists and the counts of users again. */
static void rebuild(struct ledger_shared *shared)
{
    uint32_t records = 0, chunks = 0;
    uint32_t record_end = load(&shared->next_record), chunk_end = load(&shared->next_chunk);
    memset(ledger_map.chunk_users, 0, chunk_end * sizeof(ledger_map.chunk_users[0]));
    for (uint32_t i = 1; i < record_end; i++) {
        struct ledger_record *record = ledger_record(i);
        if (ledger_record_state(record) == LEDGER_RECORD_FREE) {
            ledger_map.free_records[records++] = i;
            continue;
        }
        for (int k = 0; k < LEDGER_RECORD_CHUNKS; k++) {
            /* The dead owner took it, and did not live to move `next_chunk`: the chunk is free. */
            if (record->chunk[k] >= chunk_end)
                record->chunk[k] = 0;
            if (record->chunk[k])
                ledger_map.chunk_users[record->chunk[k]]++;
        }
    }
    for (uint32_t i = 1; i < chunk_end; i++) {
        if (!ledger_map.chunk_users[i])
            ledger_map.free_chunks[chunks++] = i;
    }
    store(&shared->free_records, records);
    store(&shared->free_chunks, chunks);
    atomic_fetch_add(&shared->arena_recoveries, 1);
}

void ledger_arena_damaged(uint32_t index)
{
    static _Atomic bool said;
    atomic_fetch_add(&ledger_map.shared->damages, 1);
    if (!atomic_exchange(&said, true))
        log_error("the registry is damaged: record %u was to be given out, or back, while it is in "
                  "state %u; it is left alone. Please report this",
                  index, ledger_record_state(ledger_record(index)));
}

static struct ledger_shared *lock_arena(void)
{
    struct ledger_shared *shared = ledger_map.shared;
    if (ledger_mutex_lock(&shared->arena_lock) == EOWNERDEAD) {
        rebuild(shared);
        pthread_mutex_consistent(&shared->arena_lock);
    }
    return shared;
}

static void unlock_arena(struct ledger_shared *shared)
{
    ledger_mutex_unlock(&shared->arena_lock);
}

/* Makes sure that places up to `end` have memory, in whole steps, but no more than the array has.
 * Needs no lock: what is reserved twice is reserved. */
static int back(_Atomic uint32_t *backed, uint32_t end, uint32_t step, uint32_t limit, uint64_t at,
                uint32_t size)
{
    uint32_t from = load(backed);
    if (end > limit)
        return -ENOSPC;
    if (end <= from)
        return 0;
    uint32_t to = (end + step - 1) / step * step;
    if (to > limit)
        to = limit;
    int result = ledger_registry_back(at + (uint64_t)from * size, (uint64_t)(to - from) * size);
    if (result && end < to) {
        to = end;
        result = ledger_registry_back(at + (uint64_t)from * size, (uint64_t)(to - from) * size);
    }
    while (!result && from < to && !atomic_compare_exchange_weak(backed, &from, to))
        ;
    return result;
}

/* The end of the places in use, once `more` are taken. */
static uint32_t reach(const _Atomic uint32_t *free, const _Atomic uint32_t *next, uint32_t more)
{
    uint32_t listed = load(free);
    return load(next) + (more > listed ? more - listed : 0);
}

/* Reserves memory for this many records and chunks, if they have none yet. 0 or -ENOSPC. */
static int reserve(struct ledger_shared *shared, uint32_t records, uint32_t chunks)
{
    int result = back(&shared->backed_records,
                      reach(&shared->free_records, &shared->next_record, records), RECORDS_STEP,
                      shared->record_count, ledger_map.records_at, sizeof(struct ledger_record));
    return result ? result
                  : back(&shared->backed_chunks,
                         reach(&shared->free_chunks, &shared->next_chunk, chunks), CHUNKS_STEP,
                         shared->chunk_count, ledger_map.chunks_at, LEDGER_CHUNK);
}

/* Can this many be taken without a system call? */
static bool has_room(const struct ledger_shared *shared, uint32_t records, uint32_t chunks)
{
    return reach(&shared->free_records, &shared->next_record, records) <=
               load(&shared->backed_records) &&
           reach(&shared->free_chunks, &shared->next_chunk, chunks) <= load(&shared->backed_chunks);
}

/* Locks the arena once there is room. The lock is free while memory is reserved. 0; -ENOSPC: it is
 * not locked. */
static int lock_with_room(struct ledger_shared *shared, uint32_t records, uint32_t chunks)
{
    lock_arena();
    while (!has_room(shared, records, chunks)) {
        unlock_arena(shared);
        int result = reserve(shared, records, chunks);
        if (result)
            return result;
        lock_arena();
    }
    return 0;
}

/* Under the lock: the list of free records cannot be trusted. Frees what was taken just now, and
 * makes both lists again. */
static void take_back(struct ledger_shared *shared, const struct ledger_slice *slices,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ledger_record_set_state(ledger_record(slices[i].record), LEDGER_RECORD_FREE);
    rebuild(shared);
}

int ledger_arena_take(struct ledger_slice *slices, uint32_t count, bool kept, uint32_t owner)
{
    uint32_t need = 0;
    for (uint32_t i = 0; kept && i < count; i++)
        need += (slices[i].length + LEDGER_CHUNK - 1) / LEDGER_CHUNK;

    struct ledger_shared *shared = ledger_map.shared;
    int result = lock_with_room(shared, count, need);
    if (result)
        return result;
    uint32_t free_records = load(&shared->free_records), next_record = load(&shared->next_record);
    uint32_t free_chunks = load(&shared->free_chunks), next_chunk = load(&shared->next_chunk);
    for (uint32_t i = count; i-- > 0;) {
        bool listed = free_records > 0; /* else its last user may have died as it took it */
        uint32_t index = listed ? ledger_map.free_records[--free_records] : next_record++;
        struct ledger_record *record = ledger_record(index);
        if (listed && !ledger_record_is_free(index)) {
            take_back(shared, &slices[i + 1], count - i - 1);
            unlock_arena(shared);
            return -ENOSPC;
        }
        uint32_t chunks = kept ? (slices[i].length + LEDGER_CHUNK - 1) / LEDGER_CHUNK : 0;
        memset(record->chunk, 0, sizeof(record->chunk));
        for (uint32_t k = 0; k < chunks; k++) {
            uint32_t chunk = free_chunks ? ledger_map.free_chunks[--free_chunks] : next_chunk++;
            ledger_map.chunk_users[chunk] = 1;
            record->chunk[k] = chunk;
        }
        atomic_store_explicit(&record->owner, owner, memory_order_relaxed);
        ledger_record_set_state(record, LEDGER_RECORD_PRIVATE);
        slices[i].record = index;
    }
    /* rebuild() looks at no record beyond next_record, and at no chunk beyond next_chunk. */
    store(&shared->next_chunk, next_chunk);
    store(&shared->next_record, next_record);
    store(&shared->free_chunks, free_chunks);
    store(&shared->free_records, free_records);
    unlock_arena(shared);
    for (uint32_t i = count, following = 0; i-- > 0; following = slices[i].record) {
        struct ledger_record *record = ledger_record(slices[i].record);
        ledger_record_begin(record, slices[i].base, slices[i].length, kept);
        record->write_next = following;
    }
    if (!has_room(shared, SPARE_RECORDS, 0))
        (void)reserve(shared, SPARE_RECORDS, 0); /* for threads that have a stripe's lock */
    return 0;
}

/* Under the lock: the record does not refer to this chunk any more. */
static inline void put_chunk(struct ledger_shared *shared, uint32_t *reference)
{
    uint32_t chunk = *reference, count;
    if (!chunk)
        return;
    count = load(&shared->free_chunks);
    __atomic_store_n(reference, 0, __ATOMIC_RELEASE);
    if (--ledger_map.chunk_users[chunk] == 0) {
        ledger_map.free_chunks[count] = chunk;
        store(&shared->free_chunks, count + 1);
    }
}

void ledger_arena_free(uint32_t first)
{
    if (!first)
        return;
    struct ledger_shared *shared = lock_arena();
    while (first && ledger_record_is_private(first)) {
        struct ledger_record *record = ledger_record(first);
        uint32_t count, next = record->write_next;
        for (int k = 0; k < LEDGER_RECORD_CHUNKS; k++)
            put_chunk(shared, &record->chunk[k]);
        ledger_record_set_state(record, LEDGER_RECORD_FREE);
        count = load(&shared->free_records);
        ledger_map.free_records[count] = first;
        store(&shared->free_records, count + 1);
        first = next;
    }
    unlock_arena(shared);
}

void ledger_arena_empty(uint32_t index)
{
    struct ledger_shared *shared = lock_arena();
    for (int k = 0; k < LEDGER_RECORD_CHUNKS; k++)
        put_chunk(shared, &ledger_record(index)->chunk[k]);
    unlock_arena(shared);
}

void ledger_arena_trim(uint32_t index, uint32_t from, uint32_t to)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t old_from = ledger_record_from(record), old_to = ledger_record_to(record);
    atomic_store_explicit(&record->range, ledger_range(from, to), memory_order_release);
    if (ledger_first_chunk(from) == ledger_first_chunk(old_from) &&
        ledger_end_chunk(to) == ledger_end_chunk(old_to))
        return;
    struct ledger_shared *shared = lock_arena();
    for (int k = 0; k < LEDGER_RECORD_CHUNKS; k++) {
        if (k < ledger_first_chunk(from) || k >= ledger_end_chunk(to))
            put_chunk(shared, &record->chunk[k]);
    }
    unlock_arena(shared);
}

/* If the process dies between two stores, rebuild() puts the chunks in order. */
void ledger_arena_exchange(uint32_t from, uint32_t to, int from_chunk, int to_chunk, int count)
{
    struct ledger_shared *shared = lock_arena();
    struct ledger_record *source = ledger_record(from), *target = ledger_record(to);
    for (int k = 0; k < count; k++) {
        uint32_t old = target->chunk[to_chunk + k];
        __atomic_store_n(&target->chunk[to_chunk + k], source->chunk[from_chunk + k],
                         __ATOMIC_RELEASE);
        __atomic_store_n(&source->chunk[from_chunk + k], old, __ATOMIC_RELEASE);
    }
    unlock_arena(shared);
}

void ledger_arena_move(uint32_t from, uint32_t to, int to_chunk)
{
    struct ledger_shared *shared = lock_arena();
    struct ledger_record *source = ledger_record(from), *target = ledger_record(to);
    for (int k = 0; to_chunk + k < LEDGER_RECORD_CHUNKS && source->chunk[k]; k++) {
        put_chunk(shared, &target->chunk[to_chunk + k]); /* of one that died here */
        __atomic_store_n(&target->chunk[to_chunk + k], source->chunk[k], __ATOMIC_RELEASE);
        __atomic_store_n(&source->chunk[k], 0, __ATOMIC_RELEASE);
    }
    unlock_arena(shared);
}

/* Under the lock: takes a record without chunks, PRIVATE; 0: there is none. */
static uint32_t take_one(struct ledger_shared *shared, uint32_t owner)
{
    uint32_t count = load(&shared->free_records);
    uint32_t index = count ? ledger_map.free_records[count - 1] : load(&shared->next_record);
    struct ledger_record *fresh = ledger_record(index);
    if (count && !ledger_record_is_free(index)) {
        rebuild(shared);
        return 0;
    }
    memset(fresh->chunk, 0, sizeof(fresh->chunk));
    fresh->write_next = 0;
    fresh->promised = fresh->changed = false;
    fresh->twins = 0;
    fresh->began = 0;
    atomic_store_explicit(&fresh->writer, 0, memory_order_relaxed);
    fresh->held_until = 0;
    atomic_store_explicit(&fresh->owner, owner, memory_order_relaxed);
    ledger_record_set_state(fresh, LEDGER_RECORD_PRIVATE);
    if (count)
        store(&shared->free_records, count - 1);
    else
        store(&shared->next_record, index + 1);
    return index;
}

uint32_t ledger_arena_share(uint32_t source_index, uint32_t from, uint32_t to, uint32_t reuse,
                            uint32_t owner)
{
    struct ledger_shared *shared = ledger_map.shared;
    const struct ledger_record *source = ledger_record(source_index);
    if (lock_with_room(shared, reuse ? 0 : 1, 0) != 0)
        return 0;
    uint32_t index = reuse ? reuse : take_one(shared, owner);
    if (index) {
        struct ledger_record *record = ledger_record(index);
        for (int k = 0; k < LEDGER_RECORD_CHUNKS; k++) {
            put_chunk(shared, &record->chunk[k]);
            if (k >= ledger_first_chunk(from) && k < ledger_end_chunk(to)) {
                ledger_map.chunk_users[source->chunk[k]]++;
                record->chunk[k] = source->chunk[k];
            }
        }
        record->kept = source->kept;
        record->held_from += (uint32_t)(record->base - source->base); /* if it is used again */
        record->held_to += (uint32_t)(record->base - source->base);
        record->base = source->base;
        record->sequence = source->sequence;
        record->verifier = source->verifier;
        record->distrusted = source->distrusted;
        record->to_disk = source->to_disk;
        record->began = source->began;
        atomic_store_explicit(&record->range, ledger_range(from, to), memory_order_relaxed);
        atomic_store_explicit(&record->file, atomic_load(&source->file), memory_order_relaxed);
    }
    unlock_arena(shared);
    return index;
}
