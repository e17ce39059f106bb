/*
 * Records in their places of the file: which are there, what takes the bytes of older ones away,
 * and what is cut off. Everything is under the stripe's lock.
 */
#ifndef LEDGER_RECORDS_H
#define LEDGER_RECORDS_H

#include "ledger/store/record.h"

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
/* Copies bytes of record `from` over those of record `to` at the same place of the file. */
void ledger_record_overlay(uint32_t from, uint32_t to, uint64_t start, uint64_t end);
/* Appends a record, which is or becomes ACKED, to the list of its file and counts its bytes. */
void ledger_record_append(struct ledger_entry *entry, uint32_t index);
/* All of them are in the list, of an entry that counts a byte too many: see rebuild.c. */
void ledger_records_relisted(struct ledger_entry *entry);
/* A REPLAY was answered UNSTABLE: it is ACKED anew. */
void ledger_record_renew(struct ledger_entry *entry, uint32_t index, uint64_t verifier);
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
/* The same for records of the same sequence, which are halves of a split that a process did not
 * live to finish. */
void ledger_record_supersede_halves(struct ledger_entry *entry, uint32_t own,
                                    struct ledger_garbage *garbage);
/* Makes one record of `own` and its neighbours where they touch, in the last chunk of the first: so
 * small writes that follow one another leave few records. */
void ledger_record_join(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage);
enum { LEDGER_JOIN_MOST = 2048 }; /* bytes for which that is worth its cost */
/* Shortens the acknowledged records of the file, to end at `size`. A record that is being
 * written again stays until that is over, or is forgotten now if `replays`. */
void ledger_record_cut(struct ledger_entry *entry, uint64_t size, bool replays,
                       struct ledger_garbage *garbage);
/* The same for the DIRTY ones. With `forget` what is in flight is not promised any more. */
void ledger_dirty_cut(struct ledger_entry *entry, uint64_t size, bool forget,
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

#endif
