/*
 * Which records concern which bytes. The span of a record is its range together with what is held
 * of it. The linked records of a bucket are a tree, sorted by the starts of their spans. Each
 * record knows how far the spans below it reach. So those that overlap a range are found in a few
 * steps, however many others there are. Everything is under the stripe's lock. The tree can be made
 * again from the records.
 */
#ifndef LEDGER_SPANS_H
#define LEDGER_SPANS_H

#include "ledger/store/record.h"

enum { LEDGER_UNIT = 1 << LEDGER_UNIT_SHIFT };

/* The bucket of the records at an offset of a file. The top bits of the hash, as only they depend
 * on all of the file's number. */
static inline struct ledger_bucket *ledger_bucket(uint32_t file, uint64_t offset)
{
    uint32_t count = ledger_map.shared->bucket_count;
    uint64_t hash =
        ((uint64_t)file << 40 ^ offset >> LEDGER_UNIT_SHIFT) * UINT64_C(0x9e3779b97f4a7c15);
    return &ledger_map
                .buckets[ledger_stripe_of(file) * count + (hash >> (64 - __builtin_ctz(count)))];
}

static inline uint64_t ledger_span_start(const struct ledger_record *record)
{
    return record->base + record->span_from;
}

/* Enters a record in the tree of its bucket, and takes it out. */
void ledger_span_enter(uint32_t index);
void ledger_span_leave(uint32_t index);
/* The range of a linked record, or its hold, is another one now. */
void ledger_span_fit(uint32_t index);

/* As the two below, where there is more than one step to make. */
uint32_t ledger_span_first_of(uint32_t root, uint32_t file, uint64_t start, uint64_t end);
uint32_t ledger_span_next_of(uint32_t index, uint64_t start, uint64_t end);

/*
 * The linked records of the file whose spans overlap [start, end), by their starts. Only those in
 * the bucket of `start` are found, so a range that crosses a multiple of 64 KiB is looked for in
 * parts. 0: there is none, or no other. A caller that drops a record, or changes its range, asks
 * for the one behind it first.
 */
static inline uint32_t ledger_span_first(uint32_t file, uint64_t start, uint64_t end)
{
    uint32_t root = ledger_bucket(file, start)->root;
    return root && ledger_record(root)->reach > start ? ledger_span_first_of(root, file, start, end)
                                                      : 0;
}
static inline uint32_t ledger_span_next(uint32_t index, uint64_t start, uint64_t end)
{
    const struct ledger_record *record = ledger_record(index);
    return record->right || record->above ? ledger_span_next_of(index, start, end) : 0;
}
/* All records of a bucket, of whatever files. Before, or behind, the last one is 0. */
uint32_t ledger_bucket_first(const struct ledger_bucket *bucket);
uint32_t ledger_bucket_beside(uint32_t index, bool before);

/* The byte before `start`, and the end of the byte at `end`, where they are of the same 64 KiB: who
 * looks there finds the neighbours of [start, end), too. */
static inline uint64_t ledger_byte_before(uint64_t start)
{
    return start % LEDGER_UNIT ? start - 1 : start;
}
static inline uint64_t ledger_byte_behind(uint64_t end)
{
    return end % LEDGER_UNIT ? end + 1 : end;
}

#endif
