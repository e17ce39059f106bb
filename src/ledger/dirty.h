/*
 * Dirty data: what a write(2) has written, which is over, and no server has yet. It is in the
 * ledger. Every process of the host reads it there, and any of them may send it. Dirty records of a
 * file do not overlap: a newer write takes the bytes away from older ones. They may overlap what is
 * in flight, which is older, and what is acknowledged.
 *
 * Sending makes a record IN_FLIGHT and `promised`. If the WRITE fails, or its process dies, the
 * record is DIRTY again. Only LEDGER_WRITE_LOST loses it.
 */
#ifndef LEDGER_DIRTY_H
#define LEDGER_DIRTY_H

#include "ledger/store/records.h"
#include "ledger/writes.h"

/* Bytes that are dirty or being sent. A load. */
uint64_t ledger_file_dirty(struct ledger_file *file);
/* The user (users.h) of the last write behind; 0: not known. A load. */
uint32_t ledger_file_user(struct ledger_file *file);

/* What the ledger has of the bytes of a read. */
enum ledger_dirty_found {
    LEDGER_DIRTY_NONE, /* no dirty byte is in the range */
    LEDGER_DIRTY_SOME, /* some are dirty; or all, but they could not be copied in one step: they
                          must be sent before the server is asked */
    LEDGER_DIRTY_ALL   /* all are dirty, up to `done`, or up to the end of the file */
};
/* If all of [offset, offset + length) is dirty, copies it in one step, unless `memory` is NULL.
 * *done: how much that is. `memory` must be ours: it is written again when a write came in between.
 * And memory of a program may have to be fetched from far away when it is touched. */
enum ledger_dirty_found ledger_dirty_read(struct ledger_file *file, uint64_t offset, size_t length,
                                          uint8_t *memory, size_t *done);

/* Might a READ of [start, end) lack dirty bytes, or meet the end of the file too early? */
bool ledger_dirty_concerns(struct ledger_file *file, uint64_t start, uint64_t end);
/* Is any file with this number dirty? Loads. */
bool ledger_number_dirty(uint64_t device, uint64_t inode);
/* Has a process of this user begun to write or cut a file with this number? True: that cannot be
 * told, either, as the registry has forgotten some files that were written. Loads. */
bool ledger_number_written(uint64_t device, uint64_t inode);

struct ledger_stamp;

/* What is to be sent of a file. */
struct ledger_sending {
    uint64_t start, end; /* dirty data that overlaps [start, end) ... */
    uint64_t sequence;   /* ... and was written up to this sequence: see ledger_dirty_now() */
    size_t least, most;  /* bytes of a run; shorter runs stay */
    uint32_t stopped;    /* slot: what this stopped process has in flight is sent; 0: none */
    struct ledger_stamp *stamp; /* result: taken with the run; NULL: not wanted */
    bool syncs;                 /* if a run is `all`, it is sent to the disk at once */
    bool strays;                /* only proven strays are sent (strays.h); else all but strays */
    bool all;                   /* result: the run is all that is not on the disk of the server */
};
/* All of a file that is dirty now, in runs of at most `most` bytes. Takes the stripe's lock. Data
 * of another process may become dirty later. From then on that process sees what the caller stored
 * before this call. */
struct ledger_sending ledger_dirty_now(struct ledger_file *file, size_t most);
/*
 * Takes a run of dirty records that follow one another. It is sent by ledger_write_data(), and
 * ended by ledger_write_end(). It may reach beyond [start, end). What a stopped process has in
 * flight is taken as well.
 *   1: a run is taken.
 *   0: no such data is left but runs that are too short, and none is in flight.
 *   -EAGAIN: what is left is in flight, or something is in its way, and the caller does not `wait`.
 *   -ENOSPC: this process has no slot.
 */
int ledger_dirty_take(struct ledger_file *file, struct ledger_sending *sending, bool wait,
                      struct ledger_write *write);

/* ---- under the stripe's lock ---- */

/* Makes twins of a promised record, and of the records of the same process that follow it. The
 * twins are in flight from this process, as `write`. False: no room. See twins.c. */
bool ledger_twins_take(struct ledger_entry *entry, uint32_t first, size_t most,
                       struct ledger_write *write);

/* Splits a DIRTY record at offset `at` of the file. The part behind becomes a record of its own,
 * with the same chunks: the result. 0: there is no room, or this process has no slot. */
uint32_t ledger_dirty_split(struct ledger_entry *entry, uint32_t index, uint64_t at);
/* Enters a new write, in a PRIVATE record that is filled. The record becomes DIRTY, or another one
 * gets its bytes. */
void ledger_dirty_enter(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage);
/* Makes a promised record DIRTY again. Its WRITE will not be executed, or the record is held. */
void ledger_dirty_return(struct ledger_entry *entry, uint32_t index,
                         struct ledger_garbage *garbage);
/* Some dirty data is lost. The server must be asked for the size; it is at least the end of what is
 * left. */
void ledger_dirty_lost(struct ledger_entry *entry);
/* For a stripe that is being put in order, where each file has a byte of dirty data too many.
 * recount: counts a record, if it is promised. relist: makes the list again from the DIRTY records,
 * which are chained by file_next and sorted by sequence. Each takes its bytes away from older ones.
 * Then takes the byte too many away. */
void ledger_dirty_recount(struct ledger_entry *entry, uint32_t index);
void ledger_dirty_relist(struct ledger_entry *entry, uint32_t sorted,
                         struct ledger_garbage *garbage);
/* Has the file a DIRTY record that overlaps [start, end)? */
bool ledger_dirty_overlaps(const struct ledger_entry *entry, uint64_t start, uint64_t end);

#endif
