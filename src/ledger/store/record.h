/*
 * One record: a slice of a write in the ledger. Changes, and reads of more than one field, are made
 * under the stripe's lock.
 */
#ifndef LEDGER_RECORD_H
#define LEDGER_RECORD_H

#include "ledger/store/map.h"

static inline struct ledger_record *ledger_record(uint32_t index)
{
    return &ledger_map.records[index];
}
static inline uint32_t ledger_record_from(const struct ledger_record *record)
{
    return (uint32_t)(atomic_load_explicit(&record->range, memory_order_relaxed) >> 32);
}
static inline uint32_t ledger_record_to(const struct ledger_record *record)
{
    return (uint32_t)atomic_load_explicit(&record->range, memory_order_relaxed);
}
static inline uint64_t ledger_range(uint32_t from, uint32_t to)
{
    return (uint64_t)from << 32 | to;
}
/* A PRIVATE record gets a new life as [base, base + length). */
static inline void ledger_record_begin(struct ledger_record *record, uint64_t base, uint32_t length,
                                       bool kept)
{
    record->kept = kept;
    record->promised = record->changed = false;
    record->twins = 0;
    record->distrusted = 0;
    record->to_disk = LEDGER_NOT_TO_DISK;
    atomic_store_explicit(&record->writer, 0, memory_order_relaxed);
    record->held_until = 0;
    record->aside = 0;
    record->base = base;
    record->write_next = 0;
    atomic_store_explicit(&record->range, ledger_range(0, length), memory_order_relaxed);
    atomic_store_explicit(&record->file, LEDGER_NO_FILE, memory_order_relaxed);
}
static inline uint64_t ledger_record_start(const struct ledger_record *record)
{
    return record->base + ledger_record_from(record);
}
static inline uint64_t ledger_record_end(const struct ledger_record *record)
{
    return record->base + ledger_record_to(record);
}
static inline uint32_t ledger_record_state(const struct ledger_record *record)
{
    return atomic_load_explicit(&record->state, memory_order_acquire);
}
static inline void ledger_record_set_state(struct ledger_record *record, uint32_t state)
{
    atomic_store_explicit(&record->state, state, memory_order_release);
}

/*
 * This process sends a record that another one may have written: it owns the record until that is
 * over. The order of the stores matters to give_back_records() (dead.c), which looks for records of
 * a dead process without the lock.
 */
static inline void ledger_record_lend(struct ledger_record *record, uint32_t self)
{
    uint32_t owner = atomic_load_explicit(&record->owner, memory_order_relaxed);
    if (owner == self)
        return;
    atomic_store_explicit(&record->writer, (uint16_t)(owner ? owner : LEDGER_PROCESSES),
                          memory_order_release);
    atomic_store_explicit(&record->owner, self, memory_order_release);
}
/* Is it being sent, or written again, for a dead process? */
static inline bool ledger_record_is_lent_by_nobody(const struct ledger_record *record)
{
    return atomic_load_explicit(&record->writer, memory_order_relaxed) == LEDGER_PROCESSES;
}
/* The writer owns the record again. Call it after `state` says that it is not being sent. */
static inline void ledger_record_return(struct ledger_record *record)
{
    uint32_t writer = atomic_load_explicit(&record->writer, memory_order_relaxed);
    if (!writer)
        return;
    atomic_store_explicit(&record->owner, writer == LEDGER_PROCESSES ? 0 : writer,
                          memory_order_release);
    atomic_store_explicit(&record->writer, 0, memory_order_release);
}

/* The chunks that hold bytes [from, to) of a record: the first, and the one behind the last. */
static inline int ledger_first_chunk(uint32_t from)
{
    return (int)(from / LEDGER_CHUNK);
}
static inline int ledger_end_chunk(uint32_t to)
{
    return (int)((to + LEDGER_CHUNK - 1) / LEDGER_CHUNK);
}

static inline uint32_t ledger_record_length(const struct ledger_record *record)
{
    return ledger_record_to(record) - ledger_record_from(record);
}
static inline uint32_t ledger_record_file(const struct ledger_record *record)
{
    return atomic_load_explicit(&record->file, memory_order_relaxed);
}
static inline bool ledger_record_overlaps(const struct ledger_record *record, uint32_t file,
                                          uint64_t start, uint64_t end)
{
    return ledger_record_file(record) == file && ledger_record_start(record) < end &&
           start < ledger_record_end(record);
}
/* Is it certain that `old` has the bytes of `record`? Then it does not matter which of the two the
 * server executes last. */
static inline bool ledger_record_is_twin(const struct ledger_record *old,
                                         const struct ledger_record *record)
{
    return old->twins & LEDGER_TWIN_OLD && record->twins & LEDGER_TWIN_NEW &&
           old->sequence == record->sequence && !record->changed;
}
/* Is it acknowledged by the server, and not committed? */
static inline bool ledger_record_is_acked(const struct ledger_record *record)
{
    uint32_t state = ledger_record_state(record);
    return state == LEDGER_RECORD_ACKED || state == LEDGER_RECORD_REPLAY;
}
static inline bool ledger_record_is_busy(const struct ledger_record *record)
{
    uint32_t state = ledger_record_state(record);
    return state == LEDGER_RECORD_IN_FLIGHT || state == LEDGER_RECORD_REPLAY;
}
static inline bool ledger_record_is_dirty(const struct ledger_record *record)
{
    return ledger_record_state(record) == LEDGER_RECORD_DIRTY;
}
/* Is it being sent, and dirty again if that fails? */
static inline bool ledger_record_is_promised(const struct ledger_record *record)
{
    return ledger_record_state(record) == LEDGER_RECORD_IN_FLIGHT && record->promised;
}
/* Has a record IN_FLIGHT twins, so that its outcome does not matter? */
static inline bool ledger_record_is_replaced(const struct ledger_record *record)
{
    return ledger_record_state(record) == LEDGER_RECORD_IN_FLIGHT && !record->promised &&
           record->twins & LEDGER_TWIN_OLD;
}
static inline bool ledger_record_held(const struct ledger_record *record, uint64_t now)
{
    return record->held_until > now;
}

/* How many vectors its data has, where it is kept: one for each chunk. */
static inline int ledger_record_vectors(const struct ledger_record *record)
{
    return ledger_end_chunk(ledger_record_to(record)) -
           ledger_first_chunk(ledger_record_from(record));
}

#endif
