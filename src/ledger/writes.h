/*
 * Writes in flight. Invariants: acknowledged records of a file do not overlap (a newer write takes
 * the bytes away from older ones), so the order of writing again does not matter; writes in flight
 * of the whole host do not overlap either (a later one waits), so a replay never overtakes a newer
 * write. A write whose fate is unknown ("held") counts as one in flight for a time, whichever
 * process it was of.
 */
#ifndef LEDGER_WRITES_H
#define LEDGER_WRITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "ledger/attributes.h"
#include "ledger/file.h"

enum ledger_outcome {
    LEDGER_WRITE_FAILED,   /* nothing is promised: forget it. Dirty data stays dirty */
    LEDGER_WRITE_STABLE,   /* on stable storage: forget it, and older data it covers */
    LEDGER_WRITE_UNSTABLE, /* acknowledged with `verifier`: keep until a COMMIT returns the same */
    LEDGER_WRITE_LOST,     /* dirty data that the server will not take: fsync tells `error` */
};

/* One write of the application, or one replay. In the caller's memory, between begin and end. */
struct ledger_write {
    uint64_t offset;
    size_t length;
    bool kept; /* the data is in the ledger: send it from there */
    /* Set by the caller before ledger_write_end(): the request was sent over a connection that
     * died, and an older copy of it may still be executed. Whatever the outcome, the range is held.
     */
    bool unsettled;
    /* Set by the caller, too: the server was to write it to its disk at once, and met an error
     * there, or may have. As after a COMMIT that failed, all other data of the file must be
     * written again. */
    bool doubtful;
    uint32_t first_record;
    uint32_t record_count;
};

/* A write of at most LEDGER_WRITE_MAX bytes. */
struct ledger_beginning {
    uint64_t offset;
    const struct iovec *data;
    int count;
    size_t length;
    bool keep; /* copy the data into the ledger first */
    struct ledger_write *write;
    bool appends;  /* the caller has the turn to append */
    uint32_t user; /* of ledger_write_behind(): as whom (users.h); 0: not known */
};
/*
 * Announces it. Waits while another write in flight overlaps, or returns -EAGAIN unless `wait`: for
 * a caller whose own write may be in the way. Returns 0; -ENOSPC when the ledger has no room
 * (commit files and try again, or write with keep = false and FILE_SYNC); -EFAULT; -ESTALE when the
 * file may have another handle by now; LEDGER_OF_KERNEL; LEDGER_IS_DIRTY. A thread must end its
 * write before it begins one that overlaps.
 */
int ledger_write_start(struct ledger_file *file, const struct ledger_beginning *beginning,
                       bool wait);
/*
 * A write that is over when this returns 0: its data is dirty (dirty.h), and the file as long as
 * it makes it. *dirty: bytes of the file that are. Otherwise as ledger_write_start(), with `keep`;
 * or LEDGER_WRITE_NOW.
 */
int ledger_write_behind(struct ledger_file *file, const struct ledger_beginning *beginning,
                        bool wait, uint64_t *dirty);
/* Begins several writes of one file, in order and in one step, up to the first that cannot be begun
 * now: ledger_write_start() tells why. Returns how many. */
unsigned ledger_writes_try(struct ledger_file *file, const struct ledger_beginning *list,
                           unsigned count);

/* The kept data as vectors (at most LEDGER_WRITE_VECTORS); bytes [from, from + length) of the
 * write. Returns the number of vectors. Only this memory may be sent again later. */
int ledger_write_data(const struct ledger_write *write, size_t from, size_t length,
                      struct iovec *vectors);

/* (What was not kept cannot be LEDGER_WRITE_UNSTABLE: it is taken for stable.)
 * Ends it, wakes those who wait for the range, and lets the known size grow on success. */
void ledger_write_end(struct ledger_file *file, struct ledger_write *write,
                      enum ledger_outcome outcome, uint64_t verifier);

/* The end of a write, with what the reply said of the file: see ledger_file_learned(). */
struct ledger_ending {
    struct ledger_file *file;
    struct ledger_write *write;
    enum ledger_outcome outcome;
    uint64_t verifier;     /* of an outcome UNSTABLE */
    int error;             /* errno of an outcome LOST */
    int64_t before_ctime;  /* of the file, before the write; 0: not known */
    bool several;          /* WRITEs: others may have changed the file between them */
    bool attributes_known; /* what follows is */
    uint64_t epoch, asked_ns;
    struct ledger_attributes attributes;
    bool overtaken; /* result: before_ctime is not what this host knew of the file */
    bool is_old;    /* of ledger_writes_end(): see ledger_proof_goes_on() */
};
/* Ends several writes, in order, in one step for neighbours that are of one file. */
void ledger_writes_end(struct ledger_ending *endings, unsigned count);

#endif
