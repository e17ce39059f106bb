/*
 * A part: one READ of bytes that the program has not asked for yet, its memory, and the bounds on
 * all such memory. Inside the engine only.
 */
#ifndef AHEAD_PART_H
#define AHEAD_PART_H

#include "async/async.h"
#include "ledger/stamp.h"

enum {
    AHEAD_PART_LEAST = 64 << 10, /* less is not worth a READ, where there is more to read */
    AHEAD_PART_MOST = LEDGER_STAMP_MAX
};

struct ahead_part {
    struct async_request request;
    struct iovec vector;
    _Atomic uint64_t asked_ns; /* when it was asked for; 0: it is not wanted any more */
    _Atomic bool done;
    /* Under the lock of the open file's `ahead`. */
    bool announced; /* asked for by posix_fadvise(2), and in no stream */
    bool around;    /* fetched around a read in no stream: it stays until it is old, */
    bool proven;    /* and a second read has used it */
    bool removed;   /* it is in no list, and is freed with its last user */
    unsigned users; /* threads that wait for it, or copy from it */
    size_t used;    /* bytes that were given out */
    unsigned kind;  /* the size of its memory: 64 KiB << kind */
    struct ahead_part *next_spare;
};

/* Makes a request for [offset, offset + length), at most AHEAD_PART_MOST bytes, that is not
 * submitted yet. NULL: no memory, or this process, or the host, has as much as it may have. */
struct ahead_part *ahead_part_new(struct file_open *open, uint64_t offset, size_t length);
/* Frees a part that is done, or was not submitted. */
void ahead_part_free(struct ahead_part *part);
/* Has its READ ended? `part` is a struct ahead_part, for async_lane_wait(). */
bool ahead_part_is_done(void *part);
static inline uint64_t ahead_part_start(const struct ahead_part *part)
{
    return (uint64_t)part->request.offset;
}
static inline uint64_t ahead_part_end(const struct ahead_part *part)
{
    return ahead_part_start(part) + part->vector.iov_len;
}

/* Gives back memory that is kept for the next parts. */
void ahead_part_trim(void);
/* In the child of fork(), after all parts that can be freed were. */
void ahead_part_fork_child(void);

#endif
