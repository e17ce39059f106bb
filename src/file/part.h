/*
 * A part: one READ of bytes that nobody has asked for yet, its memory, and the bounds on all of it.
 * Inside src/file only.
 */
#ifndef FILE_PART_H
#define FILE_PART_H

#include "file/async.h"
#include "ledger/stamp.h"

enum {
    FILE_PART_LEAST = 64 << 10, /* what a part is worth asking for, where there is more to read */
    FILE_PART_MOST = LEDGER_STAMP_MAX
};

struct file_part {
    struct file_request request;
    struct iovec vector;
    _Atomic uint64_t asked_ns; /* when it was asked for; 0: it is not wanted any more */
    _Atomic bool done;
    /* Under the lock of the open file's `ahead`. */
    bool announced; /* by posix_fadvise(2), and not part of a sequence */
    bool around;    /* a read that follows no other: it stays until it is old, */
    bool proven;    /* and another read found it useful */
    bool removed;   /* it is in no list, and goes with its last user */
    unsigned users; /* threads that wait for it, or copy from it */
    size_t used;    /* bytes that were given */
    unsigned kind;  /* of its memory */
    struct file_part *next_spare;
};

/* A request for [offset, offset + length), at most FILE_PART_MOST bytes, that is not submitted yet.
 * NULL: no memory, or this process, or all of the host, have as much as they may have. */
struct file_part *file_part_new(struct file_open *open, uint64_t offset, size_t length);
/* One that is done, or was not submitted. */
void file_part_free(struct file_part *part);
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

/* Gives memory back that is kept for the next parts. */
void file_part_trim(void);
/* In the child of fork(), after all parts were freed that can be. */
void file_part_fork_child(void);

#endif
