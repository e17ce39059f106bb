/*
 * The registry as this process has it mapped, and where the parts of its file are.
 */
#ifndef LEDGER_MAP_H
#define LEDGER_MAP_H

#include "ledger/store/layout.h"

/* Where this process sees the parts of the registry. Once ledger_registry_open() has succeeded,
 * only `looked` and `gone` change. */
struct ledger_map {
    struct ledger_shared *shared;
    struct ledger_bucket *buckets;
    uint32_t *free_chunks, *free_records;
    uint16_t *chunk_users; /* records that refer to a chunk: more than one after a split */
    struct ledger_entry *entries;
    struct ledger_record *records;
    uint8_t *chunks;
    struct ledger_frame *frames;
    uint8_t *frame_bytes;
    uint64_t frames_at, frame_bytes_at;
    uint64_t entries_at, records_at, chunks_at; /* offsets in the file */
    int fd;   /* open, with a shared flock(), as long as this process or a child lives */
    int mark; /* run_use(); or -1 */
    /* For ledger_registry_is_gone(): the file, when it was last looked at, and what was seen. */
    uint64_t device, inode, looked;
    bool gone;
};
extern struct ledger_map ledger_map;

/* See ledger_registry_was_gone(). */
static inline bool ledger_map_is_gone(void)
{
    return __atomic_load_n(&ledger_map.gone, __ATOMIC_ACQUIRE);
}

/* Reserves the memory of [offset, offset + length) of the file. 0 or -ENOSPC. */
int ledger_registry_back(uint64_t offset, uint64_t length);

enum {
    LEDGER_CHUNKS_MIN = 256,
    LEDGER_CHUNKS_MAX = 1 << 22,
    LEDGER_RECORDS_EXTRA = 16384, /* for writes without chunks, and for halves of split records */
    LEDGER_PARTS = 9
};

/* How much a registry has room for. */
struct ledger_counts {
    uint32_t chunks, records, buckets, groups;
};
/* Where the parts are in a file with these counts. Returns its size. */
uint64_t ledger_map_lay_out(struct ledger_counts counts, uint64_t at[LEDGER_PARTS]);
/* From now on the registry is mapped at `shared`; its file is open as `fd`. */
void ledger_map_set(struct ledger_shared *shared, int fd);

/* Does the header fit a file of this size? Only what stands before process_lock is read. */
bool ledger_registry_fits(const struct ledger_shared *start, uint64_t size);

/* The offset of the entries in the file, by what its header says. */
uint64_t ledger_registry_entries_at(const struct ledger_shared *shared);

static inline uint32_t ledger_stripe_of(uint32_t file)
{
    return (file / LEDGER_SET_SIZE) % LEDGER_STRIPES;
}
/* The next number of the stripe's sequence. Under the stripe's lock. */
static inline uint64_t ledger_stripe_next(struct ledger_stripe *stripe)
{
    uint64_t next = atomic_load_explicit(&stripe->sequence, memory_order_relaxed) + 1;
    atomic_store_explicit(&stripe->sequence, next, memory_order_release);
    return next;
}

#endif
