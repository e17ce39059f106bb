/*
 * What was read ahead for open files and waits to be given out: its memory, its life, and the
 * thread that looks after it. Inside src/file only; ahead.h says what it is for.
 */
#ifndef FILE_FETCHED_H
#define FILE_FETCHED_H

#include "file/async.h"
#include "ledger/quiet.h"

enum { FILE_PARTS = 64 /* of one open file */ };

/* A READ of bytes that nobody has asked for yet, and the bytes. */
struct file_part {
    struct file_request request;
    struct iovec vector;
    struct ledger_quiet quiet; /* when it was asked for, */
    uint64_t asked_ns;         /* and when that was */
    _Atomic bool done;
    bool announced; /* by posix_fadvise(2), and not part of a sequence */
    size_t used;    /* bytes that were given */
};

/* What was fetched for an open file, in no order. Used by the one thread that has `taken`. */
struct file_fetched {
    struct file_lane *lane;
    struct file_open *open;    /* NULL: it was closed, and requests are on their way; `all_lock` */
    struct file_fetched *next; /* in `all`; `all_lock` */
    uint64_t end;              /* of what was asked for in sequence */
    size_t size;               /* that is to be ahead of who reads */
    unsigned count;
    struct file_part *parts[FILE_PARTS];
};

/* A request for [offset, offset + length) that is not submitted yet. NULL: no memory, or the
 * process has as much as it may have. */
struct file_part *file_part_new(struct file_open *open, uint64_t offset, size_t length);
/* Has its READ ended? `part` is a struct file_part, for file_lane_wait(). */
bool file_part_is_done(void *part);
static inline uint64_t file_part_start(const struct file_part *part)
{
    return (uint64_t)part->request.offset;
}

static inline uint64_t file_part_end(const struct file_part *part)
{
    return file_part_start(part) + part->vector.iov_len;
}

/* The part that has this byte, and where it is in `parts`; NULL: none. */
struct file_part *file_part_at(const struct file_fetched *fetched, uint64_t offset,
                               unsigned *index);

/* NULL: no memory, or no thread to look after it. */
struct file_fetched *file_fetched_new(struct file_open *open);
/* Frees a part that is done. */
void file_fetched_drop(struct file_fetched *fetched, unsigned index);
/* Drops what has arrived and has grown old, or is of a sequence and ends before `start`, or begins
 * at `end` or later. */
void file_fetched_drop_outside(struct file_fetched *fetched, uint64_t start, uint64_t end);
/* What was asked for earlier may not be given out any more. */
uint64_t file_fetched_fresh_since(struct file_inode *inode);
/* Tells file_ahead_wants() how much there is. */
void file_fetched_show(struct file_open *open);
/* Something was asked for. */
void file_fetched_wake(void);

/* The open file is new, with these flags of open(2), and nobody has it yet. */
void file_ahead_open(struct file_open *open, int flags);
/* Its flags are these from now on. */
void file_ahead_allow(struct file_open *open, int flags);
/* Before a file is entered that is opened with these flags: starts the thread that will be needed
 * (here, as a read may come in a handler of a signal that interrupted malloc()). */
void file_ahead_prepare(int flags);
/* Before this process leaves its registry, with one thread of the application: ends what is on its
 * way, and forgets all. */
void file_ahead_forget(void);
/* Nobody has the open file any more. */
void file_ahead_close(struct file_open *open);
/* In the child of fork(): what was on its way never arrives. */
void file_ahead_fork_child(void);

#endif
