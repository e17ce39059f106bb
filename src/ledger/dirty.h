/*
 * Dirty data: what a write(2) that is over has written and no server has yet. It is in the ledger,
 * where every process of the host reads it, and any of them may send it. Dirty records of a file do
 * not overlap: a newer write takes the bytes away from older ones. They may overlap what is in
 * flight, which is older, and what is acknowledged.
 *
 * Sending makes a record IN_FLIGHT and `promised`: if the WRITE fails, or its process dies, it is
 * DIRTY again, and never lost but by LEDGER_WRITE_LOST.
 */
#ifndef LEDGER_DIRTY_H
#define LEDGER_DIRTY_H

#include "ledger/store/records.h"
#include "ledger/writes.h"

/* Bytes that are dirty or being sent. A load. */
uint64_t ledger_file_dirty(struct ledger_file *file);
/* As whom the file was written behind last, as long as something is left of that; 0: not known. */
uint32_t ledger_file_user(struct ledger_file *file);

/* The bytes of a read that the ledger has. */
enum ledger_dirty_found {
    LEDGER_DIRTY_NONE, /* no dirty byte is in the range */
    LEDGER_DIRTY_SOME, /* some, or the end of the file, or more than can be copied at a time: they
                          must be sent before the server is asked */
    LEDGER_DIRTY_ALL   /* up to `done`, or up to the end of the file */
};
/* Copies [offset, offset + length) if all of it is dirty, in one step, unless the memory is NULL;
 * *done: how much that is. The memory is ours: it is written again when a write came between, and
 * that of a program may be fetched from far away when it is touched. */
enum ledger_dirty_found ledger_dirty_read(struct ledger_file *file, uint64_t offset, size_t length,
                                          uint8_t *memory, size_t *done);

/* Might a READ of [start, end) lack something that is dirty, or meet the end of the file too early?
 */
bool ledger_dirty_concerns(struct ledger_file *file, uint64_t start, uint64_t end);
/* Is any file with this number dirty? Loads. */
bool ledger_number_dirty(uint64_t device, uint64_t inode);

struct ledger_stamp;

/* What of a file is to be sent. */
struct ledger_sending {
    uint64_t start, end; /* what overlaps this ... */
    uint64_t sequence;   /* ... and was written up to then: see ledger_dirty_now() */
    size_t least, most;  /* bytes of a run; shorter ones stay */
    uint32_t stopped;    /* process slot: what it has in flight is sent by who asks; 0: of none */
    struct ledger_stamp *stamp; /* result: as the run was taken; NULL: nobody wants to know */
    bool syncs;                 /* a run that is `all` is sent to the disk at once */
    bool strays;                /* strays, and nothing else (ledger/strays.h); else all but them */
    bool all; /* result: the run is all that the server does not have on its disk */
};
/* All of a file that is dirty now, in runs of at most `most` bytes. Takes the stripe's lock: a
 * writer whose data is not dirty yet sees, once it is, what the caller stored before. */
struct ledger_sending ledger_dirty_now(struct ledger_file *file, size_t most);
/*
 * Takes a run of dirty records that follow one another, to be sent by ledger_write_data() and ended
 * by ledger_write_end(). It may reach beyond [start, end). 1; 0: no such data is left, and none is
 * in flight; -EAGAIN: what is left is in flight, or something is in its way, and the caller does
 * not `wait`; -ENOSPC: this process has no slot. What is in flight from a process that is stopped
 * is taken as well.
 */
int ledger_dirty_take(struct ledger_file *file, struct ledger_sending *sending, bool wait,
                      struct ledger_write *write);

/* ---- under the stripe's lock ---- */

/* For a record that is promised, and those of its process that follow it: makes twins of them,
 * which are in flight from this process as `write`. False: no room. See twins.c. */
bool ledger_twins_take(struct ledger_entry *entry, uint32_t first, size_t most,
                       struct ledger_write *write);

/* What a DIRTY record has from the offset `at` on becomes a record of its own, with the same
 * chunks: the result. 0: there is no room, or this process has no slot. */
uint32_t ledger_dirty_split(struct ledger_entry *entry, uint32_t index, uint64_t at);
/* A PRIVATE record, filled, of a write that has just been made. */
void ledger_dirty_enter(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage);
/* An IN_FLIGHT one that is promised will not be executed, or be held: DIRTY again. */
void ledger_dirty_return(struct ledger_entry *entry, uint32_t index,
                         struct ledger_garbage *garbage);
/* Some dirty data is lost: where the file ends must be asked for, and is beyond what is left. */
void ledger_dirty_lost(struct ledger_entry *entry);
/* Of a stripe that is being put in order, where each file has a byte of dirty data too many: counts
 * a record, if it is promised; and makes the list again from the DIRTY ones, chained by file_next
 * and sorted by sequence, and takes that byte away. The bytes of each are taken away from older
 * ones. */
void ledger_dirty_recount(struct ledger_entry *entry, uint32_t index);
void ledger_dirty_relist(struct ledger_entry *entry, uint32_t sorted,
                         struct ledger_garbage *garbage);
/* Is a record of the file DIRTY in [start, end)? */
bool ledger_dirty_overlaps(const struct ledger_entry *entry, uint64_t start, uint64_t end);

#endif
