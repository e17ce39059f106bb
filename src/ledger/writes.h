/*
 * Writes in flight. Two invariants:
 *   - Acknowledged records of a file do not overlap: a newer write takes the bytes away from older
 *     ones. So the order of writing again does not matter.
 *   - Writes in flight of the whole host do not overlap: a later one waits. So a replay never
 *     overtakes a newer write.
 * A write of unknown fate ("held") counts as in flight for a time, of whatever process it was.
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
    LEDGER_WRITE_FAILED,   /* the write is forgotten; dirty data is dirty again */
    LEDGER_WRITE_STABLE,   /* on stable storage: it is forgotten, and older data that it covers */
    LEDGER_WRITE_UNSTABLE, /* acknowledged with `verifier`: kept until a COMMIT returns the same */
    LEDGER_WRITE_LOST,     /* dirty data that the server does not take: fsync tells `error` */
};

/* One write of the application, or one replay. In the caller's memory, between begin and end. */
struct ledger_write {
    uint64_t offset;
    size_t length;
    bool kept; /* the data is in the ledger: send it from there */
    /* The caller sets it before ledger_write_end(): the request was sent over a connection that
     * died, and an older copy of it may still be executed. Whatever the outcome, the range is held.
     */
    bool unsettled;
    /* The caller sets it, too: the server was to write to its disk at once, and met an error there,
     * or may have. As after a COMMIT that failed, all other data of the file must be written again.
     */
    bool doubtful;
    uint32_t first_record;
    uint32_t record_count;
};

/* What is to be written: at most LEDGER_WRITE_MAX bytes. */
struct ledger_beginning {
    uint64_t offset;
    const struct iovec *data;
    int count;
    size_t length;
    bool keep; /* copy the data into the ledger first */
    struct ledger_write *write;
    bool appends;  /* the caller has the turn to append */
    uint32_t user; /* of ledger_write_behind(): the user (users.h); 0: not known */
};
/*
 * Announces a write. Waits while another write in flight overlaps. A thread must end its write
 * before it begins one that overlaps.
 *   0: it is announced.
 *   -EAGAIN: another one overlaps, and the caller does not `wait`: its own may be in the way.
 *   -ENOSPC: the ledger has no room. Commit files and try again, or write with keep = false and
 *     FILE_SYNC.
 *   -EFAULT, -EINVAL.
 *   -ESTALE: the file may have another handle by now.
 *   LEDGER_OF_KERNEL, LEDGER_IS_DIRTY.
 */
int ledger_write_start(struct ledger_file *file, const struct ledger_beginning *beginning,
                       bool wait);
/*
 * A write behind. When this returns 0, the write is over: its data is dirty (dirty.h), and the file
 * is as long as the write makes it. *dirty: how many bytes of the file are dirty. Otherwise as
 * ledger_write_start(), with `keep`; or LEDGER_WRITE_NOW.
 */
int ledger_write_behind(struct ledger_file *file, const struct ledger_beginning *beginning,
                        bool wait, uint64_t *dirty);
/* Announces several writes of one file, in order and in one step, up to the first that cannot be
 * announced now. ledger_write_start() tells why. Returns how many. */
unsigned ledger_writes_try(struct ledger_file *file, const struct ledger_beginning *list,
                           unsigned count);

/* The kept data as vectors (at most LEDGER_WRITE_VECTORS): bytes [from, from + length) of the
 * write. Returns the number of vectors. Only this memory may be sent again later. */
int ledger_write_data(const struct ledger_write *write, size_t from, size_t length,
                      struct iovec *vectors);

/* Ends a write, wakes the threads that wait for the range, and on success lets the known size grow.
 * A write that was not kept cannot be LEDGER_WRITE_UNSTABLE: it is taken for stable. */
void ledger_write_end(struct ledger_file *file, struct ledger_write *write,
                      enum ledger_outcome outcome, uint64_t verifier);

/* The end of a write, with what the reply said of the file: see ledger_file_learned(). */
struct ledger_ending {
    struct ledger_file *file;
    struct ledger_write *write;
    enum ledger_outcome outcome;
    uint64_t verifier;     /* if the outcome is UNSTABLE */
    int error;             /* errno, if the outcome is LOST */
    int64_t before_ctime;  /* of the file, before the write; 0: not known */
    bool several;          /* there were several: others may have changed the file in between */
    bool attributes_known; /* `epoch`, `asked_ns` and `attributes` are set */
    uint64_t epoch, asked_ns;
    struct ledger_attributes attributes;
    bool overtaken; /* result: before_ctime is not what this host knew of the file */
    bool is_old;    /* used by ledger_writes_end(): see ledger_proof_goes_on() */
};
/* Ends several writes, in order. Neighbours of one file are ended in one step. */
void ledger_writes_end(struct ledger_ending *endings, unsigned count);

#endif
