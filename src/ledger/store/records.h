/*
 * Records by their places in the file: which there are, which bytes newer records take away from
 * older ones, and what is cut off. Everything is under the stripe's lock.
 */
#ifndef LEDGER_RECORDS_H
#define LEDGER_RECORDS_H

#include "ledger/store/spans.h"

/* Enters a record in the tree of its bucket, and counts it in its entry. */
void ledger_record_link(uint32_t index);
/* Copies bytes [start, end) of the file from record `from` to record `to`. */
void ledger_record_overlay(uint32_t from, uint32_t to, uint64_t start, uint64_t end);
/* Enters a record, which is IN_FLIGHT or a GHOST, in the list of those of its file; takes it out.
 */
void ledger_sent_list(struct ledger_entry *entry, uint32_t index);
void ledger_sent_unlist(struct ledger_entry *entry, uint32_t index);
/* Appends a record, which is ACKED or will be, to the list of its file, and counts its bytes. */
void ledger_record_append(struct ledger_entry *entry, uint32_t index);
/* All acknowledged records of the entry are in its list again. Takes away the byte that rebuild.c
 * counted too many. */
void ledger_records_relisted(struct ledger_entry *entry);
/* A REPLAY was answered UNSTABLE: makes it ACKED again. */
void ledger_record_renew(struct ledger_entry *entry, uint32_t index, uint64_t verifier);
/* Takes a record out of all lists, makes it PRIVATE, and adds it to `garbage`. While it is held, or
 * if this process has no slot, only its data goes, and it becomes a GHOST. */
void ledger_record_drop(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage);
/* The time now, if any record of the file's stripe may be held. 0: none is held; the clock is not
 * read. */
uint64_t ledger_now_if_held(uint32_t file);
/* Is this record of the file in the way of [start, end) at time `now`? See
 * ledger_record_conflict(). */
bool ledger_record_blocks(uint32_t record, uint64_t start, uint64_t end, uint32_t own,
                          uint64_t now);
/*
 * A record that is IN_FLIGHT, REPLAY or held, and overlaps [start, end); 0: none. Neither the hold
 * of `own` counts, nor a record that has `own` for a twin: an older copy of the same bytes does no
 * harm.
 */
uint32_t ledger_record_conflict(uint32_t file, uint64_t start, uint64_t end, uint32_t own);
/*
 * Takes the bytes of record `own`, written with `verifier`, away from older acknowledged records.
 * If an older record has another verifier, that counts as a replay. True: `own` is consumed. Its
 * bytes were copied into an older record, or `own` itself became the second half of one.
 */
bool ledger_record_supersede(struct ledger_entry *entry, uint32_t own, uint64_t verifier,
                             struct ledger_garbage *garbage);
/* As ledger_record_supersede(), for records of one sequence: the halves of a split that a process
 * did not live to finish. */
void ledger_record_supersede_halves(struct ledger_entry *entry, uint32_t own,
                                    struct ledger_garbage *garbage);
/* Joins `own` and its neighbours into one record where they touch inside the last chunk of the
 * first. So small writes that follow one another leave few records. */
void ledger_record_join(struct ledger_entry *entry, uint32_t own, struct ledger_garbage *garbage);
enum { LEDGER_JOIN_MOST = 2048 }; /* bytes: to copy more is not worth it */
/* Cuts the records of the file, acknowledged and DIRTY, at `size`. A record that is being written
 * again stays until that is over. With `replays` it is dropped now. */
void ledger_record_cut(struct ledger_entry *entry, uint64_t size, bool replays,
                       struct ledger_garbage *garbage);
/* Cuts the DIRTY records at `size`. With `forget` records in flight are not promised any more. */
void ledger_dirty_cut(struct ledger_entry *entry, uint64_t size, bool forget,
                      struct ledger_garbage *garbage);
/* Calls `wanted` for records of the file that are linked, until it returns true. That record; 0:
 * none. For all of them; for those IN_FLIGHT and the GHOSTs; for those, and all that may be REPLAY
 * or held. `wanted` may drop the record. */
typedef bool ledger_record_wanted(uint32_t index, uint64_t argument);
uint32_t ledger_record_find(uint32_t file, ledger_record_wanted *wanted, uint64_t argument);
uint32_t ledger_record_find_sent(uint32_t file, ledger_record_wanted *wanted, uint64_t argument);
uint32_t ledger_record_find_busy(uint32_t file, ledger_record_wanted *wanted, uint64_t argument);
/* A record of the file that is IN_FLIGHT, REPLAY or held, and has bytes at `size` or beyond; 0:
 * none. */
uint32_t ledger_record_beyond(const struct ledger_entry *entry, uint64_t size);
/* Is a record of the file IN_FLIGHT or REPLAY? */
bool ledger_record_in_flight(const struct ledger_entry *entry);
/* A record of the file that is IN_FLIGHT or REPLAY and has a sequence below this one, or that is
 * held; 0: none. */
uint32_t ledger_record_pending(const struct ledger_entry *entry, uint64_t sequence);
/* The server may have lost what it had of the file until now, and no COMMIT will tell. Makes all
 * records of the file distrusted, those in flight as well. */
void ledger_records_distrust(uint32_t file);
/* Unlinks what is left of a file that is gone. Owners free their records when their writes end. */
void ledger_records_detach(uint32_t file, struct ledger_garbage *garbage);
/* Finds out again whether all records of the file have one verifier, and whether any is distrusted.
 */
void ledger_entry_verifiers(struct ledger_entry *entry);

#endif
