/*
 * Free records that this process keeps for its next writes, with the chunks that they had. So many
 * writes take the arena's lock only once. Other processes see PRIVATE records of this slot, as if
 * they were being filled. When this process dies, they are found as such.
 */
#include "ledger/store/pocket.h"
#include "ledger/store/processes.h"
#include "ledger/store/record.h"

enum {
    POCKET_CHUNKS = 2, /* larger writes can pay for the arena */
    POCKET_DEPTH = 16  /* records of a kind */
};

/* The records, by the number of chunks that each has. Guarded by `taken`. */
static struct {
    _Atomic bool taken;
    uint32_t count[POCKET_CHUNKS + 1];
    uint32_t records[POCKET_CHUNKS + 1][POCKET_DEPTH];
} pocket;

static bool take_pocket(void)
{
    return !atomic_exchange_explicit(&pocket.taken, true, memory_order_acquire);
}

static void return_pocket(void)
{
    atomic_store_explicit(&pocket.taken, false, memory_order_release);
}

/* How many records a pocket may hold of a kind: all pockets together must not hold much of what
 * there is. */
static uint32_t depth(const struct ledger_shared *shared)
{
    uint32_t fair = shared->chunk_count / 16 / ledger_process_count();
    return fair < POCKET_DEPTH ? fair : POCKET_DEPTH;
}

/* Fills the pocket half, so that there is room for records that are given back. Returns their
 * number. */
static uint32_t fill(uint32_t chunks, uint32_t owner)
{
    struct ledger_slice slices[POCKET_DEPTH / 2];
    uint32_t count = depth(ledger_map.shared) / 2;
    for (uint32_t i = 0; i < count; i++)
        slices[i] = (struct ledger_slice){.length = chunks ? chunks * LEDGER_CHUNK : 1};
    if (count < 2 || ledger_arena_take(slices, count, chunks > 0, owner) != 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        pocket.records[chunks][i] = slices[count - 1 - i].record;
    return pocket.count[chunks] = count;
}

/* Prefetches the record and the head of each page. The processor goes on from there by itself. */
static void prefetch(uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    const uint8_t *chunk = ledger_map.chunks + (uint64_t)record->chunk[0] * LEDGER_CHUNK;
    __builtin_prefetch(record, 1);
    for (uint32_t page = 0; page < LEDGER_CHUNK; page += 4096) {
        for (uint32_t line = 0; line < 256; line += 64)
            __builtin_prefetch(chunk + page + line, 1);
    }
}

uint32_t ledger_pocket_take(uint64_t base, uint32_t length, bool kept, uint32_t owner)
{
    uint32_t chunks = kept ? (length + LEDGER_CHUNK - 1) / LEDGER_CHUNK : 0, index = 0;
    if (chunks > POCKET_CHUNKS || !take_pocket())
        return 0;
    if (pocket.count[chunks] || fill(chunks, owner))
        index = pocket.records[chunks][--pocket.count[chunks]];
    if (pocket.count[chunks]) /* the next write's memory comes while this one is sent */
        prefetch(pocket.records[chunks][pocket.count[chunks] - 1]);
    return_pocket();
    if (index && !ledger_record_is_private(index))
        return 0;
    if (index)
        ledger_record_begin(ledger_record(index), base, length, kept);
    return index;
}

/* The number of chunks of a record that may be filled again, as no other record has them.
 * POCKET_CHUNKS + 1: the record is not fit for the pocket. */
static uint32_t usable_chunks(const struct ledger_record *record)
{
    uint32_t count = 0;
    while (count < POCKET_CHUNKS && record->chunk[count] &&
           __atomic_load_n(&ledger_map.chunk_users[record->chunk[count]], __ATOMIC_RELAXED) == 1)
        count++;
    for (uint32_t k = count; k < LEDGER_RECORD_CHUNKS; k++) {
        if (record->chunk[k])
            return POCKET_CHUNKS + 1;
    }
    return count;
}

uint32_t ledger_pocket_give(uint32_t first)
{
    uint32_t self = ledger_process_owner();
    if (!first || !self || !take_pocket())
        return first;
    uint32_t most = depth(ledger_map.shared);
    while (first && ledger_record_is_private(first)) {
        struct ledger_record *record = ledger_record(first);
        uint32_t chunks = usable_chunks(record);
        if (chunks > POCKET_CHUNKS || pocket.count[chunks] >= most)
            break; /* a chain is of one kind in most cases */
        atomic_store_explicit(&record->owner, self, memory_order_relaxed);
        pocket.records[chunks][pocket.count[chunks]++] = first;
        first = record->write_next;
    }
    return_pocket();
    return first;
}

void ledger_arena_give(uint32_t first)
{
    if (first)
        ledger_arena_free(ledger_pocket_give(first));
}

void ledger_pocket_empty(void)
{
    uint32_t chain = 0;
    if (!take_pocket())
        return;
    for (uint32_t chunks = 0; chunks <= POCKET_CHUNKS; chunks++) {
        while (pocket.count[chunks]) {
            uint32_t index = pocket.records[chunks][--pocket.count[chunks]];
            ledger_record(index)->write_next = chain;
            chain = index;
        }
    }
    return_pocket();
    ledger_arena_free(chain);
}

void ledger_pocket_after_fork(void)
{
    for (uint32_t chunks = 0; chunks <= POCKET_CHUNKS; chunks++)
        pocket.count[chunks] = 0;
    return_pocket();
}
