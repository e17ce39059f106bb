/*
 * The arena: where records and chunks come from.
 */
#ifndef LEDGER_ARENA_H
#define LEDGER_ARENA_H

#include "ledger/store/record.h"

struct ledger_slice {
    uint64_t base;
    uint32_t length;
    uint32_t record; /* result */
};
/* Takes `count` records, with chunks for their lengths if `kept`. They are PRIVATE, and chained by
 * write_next. 0 or -ENOSPC. */
int ledger_arena_take(struct ledger_slice *slices, uint32_t count, bool kept, uint32_t owner);
/* Gives back PRIVATE records, which are chained by write_next; see also ledger_arena_give(). */
void ledger_arena_free(uint32_t first);
/* Frees the chunks of a record, which has no data any more. */
void ledger_arena_empty(uint32_t record);
/* Sets the range of a linked record, and frees the chunks that fall outside. */
void ledger_arena_trim(uint32_t record, uint32_t from, uint32_t to);
/* Exchanges `count` chunks of `from`, a PRIVATE record, and `to`, a linked one. */
void ledger_arena_exchange(uint32_t from, uint32_t to, int from_chunk, int to_chunk, int count);
/* Moves all chunks of `from`, a PRIVATE record, to `to`, a linked one, where they begin at
 * `to_chunk`. */
void ledger_arena_move(uint32_t from, uint32_t to, int to_chunk);
/*
 * A PRIVATE record for [from, to) of `source`, which shares its chunks. `reuse` is used for it, and
 * its own chunks are freed. If `reuse` is 0, a new record is taken; 0: there is none.
 */
uint32_t ledger_arena_share(uint32_t source, uint32_t from, uint32_t to, uint32_t reuse,
                            uint32_t owner);

/*
 * A record that is given out twice makes a ring of a bucket, and destroys data. So its state is
 * checked as it comes and goes. That costs nothing, as the state is then written anyway. A wrong
 * state is logged and counted, and the record is left alone.
 */
void ledger_arena_damaged(uint32_t record);
static inline bool ledger_record_is_free(uint32_t record)
{
    bool is = ledger_record_state(ledger_record(record)) == LEDGER_RECORD_FREE;
    if (__builtin_expect(!is, 0))
        ledger_arena_damaged(record);
    return is;
}
static inline bool ledger_record_is_private(uint32_t record)
{
    bool is = ledger_record_state(ledger_record(record)) == LEDGER_RECORD_PRIVATE;
    if (__builtin_expect(!is, 0))
        ledger_arena_damaged(record);
    return is;
}

#endif
