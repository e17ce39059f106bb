/*
 * Records: slices of writes in the ledger. Everything is under the stripe's lock.
 */
#ifndef LEDGER_RECORDS_H
#define LEDGER_RECORDS_H

#include "ledger/layout.h"
#include "ledger/stripes.h"

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
 * A process sends what may be another's: the record is its own until that is over. These stores
 * have an order for who looks for what a dead process left, without the lock: see
 * give_back_records().
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
/* Is it sent, or written again, for a process that is dead? */
static inline bool ledger_record_is_lent_by_nobody(const struct ledger_record *record)
{
    return atomic_load_explicit(&record->writer, memory_order_relaxed) == LEDGER_PROCESSES;
}
/* After its state says that it is not being sent any more. */
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
/* Has `old` the bytes of `record`, for sure? Then it does not matter which of the two the server
 * executes last. */
static inline bool ledger_record_is_twin(const struct ledger_record *old,
                                         const struct ledger_record *record)
{
    return old->twins & LEDGER_TWIN_OLD && record->twins & LEDGER_TWIN_NEW &&
           old->sequence == record->sequence && !record->changed;
}
/* Acknowledged by the server, and not committed. */
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

/* Where the records at an offset of a file are. */
static inline struct ledger_bucket *ledger_bucket(uint32_t file, uint64_t offset)
{
    uint32_t count = ledger_map.shared->bucket_count;
    uint64_t hash =
        ((uint64_t)file << 40 ^ offset >> LEDGER_UNIT_SHIFT) * UINT64_C(0x9e3779b97f4a7c15);
    return &ledger_map
                .buckets[ledger_stripe_of(file) * count + ((uint32_t)(hash >> 36) & (count - 1))];
}
/* Enters a record in its bucket and counts it in its entry. */
void ledger_record_link(uint32_t index);
/* Enters a record behind `previous` in a list; 0: at its head. */
void ledger_record_chain(uint32_t *first, uint32_t *last, uint32_t previous, uint32_t index);
void ledger_record_unchain(uint32_t *first, uint32_t *last, uint32_t index);
/* Adds to a counter of an entry and to that of its stripe. */
void ledger_count(_Atomic uint64_t *own, _Atomic uint64_t *all, int64_t bytes);
/* Copies bytes of record `from` over those of record `to` at the same place of the file. */
void ledger_record_overlay(uint32_t from, uint32_t to, uint64_t start, uint64_t end);
/* Appends a record, which is or becomes ACKED, to the list of its file and counts its bytes. */
void ledger_record_append(struct ledger_entry *entry, uint32_t index);
/* All of them are in the list, of an entry that counts a byte too many: see rebuild.c. */
void ledger_records_relisted(struct ledger_entry *entry);
/* A REPLAY was answered UNSTABLE: it is ACKED anew. */
void ledger_record_renew(struct ledger_entry *entry, uint32_t index, uint64_t verifier);
void ledger_garbage_add(struct ledger_garbage *garbage, uint32_t index);
/* Takes a record out of all lists, makes it PRIVATE and adds it to `garbage`; while it is held, and
 * where this process has no slot, only its data goes, and it becomes a GHOST. `entry` is not needed
 * for a GHOST. */
void ledger_record_drop(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage);
/* The time if any record of the file's stripe may be held, else 0, at which none is looked at. */
uint64_t ledger_now_if_held(uint32_t file);
/* Is this record of the file, at that time, one that ledger_record_conflict() looks for? */
bool ledger_record_blocks(uint32_t record, uint64_t start, uint64_t end, uint32_t own,
                          uint64_t now);
/*
 * A record IN_FLIGHT, REPLAY or held that overlaps [start, end); 0: none. The hold of `own` does
 * not count, nor a record that has it for a twin: an older copy of the same bytes does no harm.
 * Everything else does.
 */
uint32_t ledger_record_conflict(uint32_t file, uint64_t start, uint64_t end, uint32_t own);
/*
 * Takes the bytes of record `own`, written with `verifier`, away from older acknowledged records;
 * where those have another one, this counts as a replay. True if `own` was consumed:
 * its bytes were copied into an older record, or `own` itself became the second half of one.
 */
bool ledger_record_supersede(struct ledger_entry *entry, uint32_t own, uint64_t verifier,
                             struct ledger_garbage *garbage);
/* Makes one record of `own` and its neighbours where they touch, in the last chunk of the first: so
 * small writes that follow one another leave few records. */
void ledger_record_join(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage);
enum { LEDGER_JOIN_MOST = 2048 }; /* bytes for which that is worth its cost */
/* The same for records of the same sequence, which are halves of a split that a process did not
 * live to finish. */
void ledger_record_supersede_halves(struct ledger_entry *entry, uint32_t own,
                                    struct ledger_garbage *garbage);
/* Shortens the acknowledged records of the file, to end at `size`. A record that is being
 * written again stays until that is over, or is forgotten now if `replays`. */
void ledger_record_cut(struct ledger_entry *entry, uint64_t size, bool replays,
                       struct ledger_garbage *garbage);
/* Calls back for every record of the file in any list, until it returns true; that record, or 0. */
uint32_t ledger_record_find(uint32_t file, bool (*wanted)(uint32_t index, uint64_t argument),
                            uint64_t argument);
/* A record IN_FLIGHT, REPLAY or held of the file with bytes at `size` or beyond; 0: none. */
uint32_t ledger_record_beyond(const struct ledger_entry *entry, uint64_t size);
/* Is a record of the file IN_FLIGHT or REPLAY? */
bool ledger_record_in_flight(const struct ledger_entry *entry);
/* A record IN_FLIGHT or REPLAY of the file that began before this sequence, or one that is held; 0:
 * none. */
uint32_t ledger_record_pending(const struct ledger_entry *entry, uint64_t sequence);
/* The server may have lost what it had of the file until now, and no COMMIT will tell: all of it is
 * distrusted, what is in flight as well. */
void ledger_records_distrust(uint32_t file);
/* Unlinks what remains of a file that is gone; owners free such records when their write ends. */
void ledger_records_detach(uint32_t file, struct ledger_garbage *garbage);
/* Recomputes whether the records of a file have one verifier. */
void ledger_entry_verifiers(struct ledger_entry *entry);

/* Under the stripe's lock: nobody may write over a linked record for a while. */
void ledger_record_hold(uint32_t record);
/* Under the stripe's lock: that is over. Until now the write may have been executed. */
void ledger_record_hold_over(struct ledger_record *record);
static inline bool ledger_record_held(const struct ledger_record *record, uint64_t now)
{
    return record->held_until > now;
}

#endif
