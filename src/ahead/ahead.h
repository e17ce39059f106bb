/*
 * Reading ahead, for open files that are read with the page cache's promises (no O_DIRECT).
 *
 * A program that reads a file from front to back does not wait for a round trip each time: from the
 * second read on, the next parts of the file are on their way before they are wanted. A program
 * that reads here and there, and for the third time in the same 64 KiB, is given all of those. What
 * a program announces by posix_fadvise(2) is fetched as well. The bytes wait in memory of this
 * process. They are given out only while nobody of this host has begun to change them since they
 * were asked for (ledger/stamp.h). And only for a second, or actimeo if that is less. So what other
 * hosts write is seen that late, and what users of this host write that have another registry. All
 * else is an ordinary read.
 */
#ifndef AHEAD_AHEAD_H
#define AHEAD_AHEAD_H

#include "file/inode.h"
#include "ledger/attributes.h"
#include "sys/sys.h"

/* The place that notes a read which ended at `offset`. */
static inline unsigned ahead_place(uint64_t offset)
{
    return (unsigned)(offset >> 20) % FILE_AHEAD_ENDS;
}
/* Does a read at `offset` follow another? The first of all does if it begins where the file does: a
 * program that reads the beginning mostly reads on. */
static inline bool ahead_follows(const struct file_open *open, uint64_t offset)
{
    uint64_t end =
        atomic_load_explicit(&open->ahead.ends[ahead_place(offset)], memory_order_relaxed);
    return end == offset || (offset == 0 && end == FILE_AHEAD_NONE);
}
/* The place that notes how many reads began in the unit of `offset`, and what it says for `reads`
 * of them. */
enum { AHEAD_UNIT = 64 << 10, AHEAD_NEAR = 2 /* after so many reads more are expected */ };
static inline _Atomic uint32_t *ahead_noted(struct file_open *open, uint64_t offset)
{
    return &open->ahead.units[offset / AHEAD_UNIT % FILE_AHEAD_UNITS];
}
static inline uint32_t ahead_reads(uint64_t offset, unsigned reads)
{
    return (uint32_t)(offset / AHEAD_UNIT) << 2 | reads;
}
/* Were AHEAD_NEAR of the last reads in the same unit? */
static inline bool ahead_is_near(struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(ahead_noted(open, offset), memory_order_relaxed) ==
           ahead_reads(offset, AHEAD_NEAR);
}
/* Is it worth looking for bytes that were fetched, or fetching some? */
static inline bool ahead_wants(struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(&open->ahead.fetched, memory_order_relaxed) > 0 ||
           ahead_follows(open, offset) || ahead_is_near(open, offset);
}
/* Does it go on with what was read ahead? */
static inline bool ahead_streams(const struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(&open->ahead.fetched, memory_order_relaxed) > 0 &&
           ahead_follows(open, offset);
}
/* Notes a read of [offset, end), so that the next one is known to follow it, or to be near. */
static inline void ahead_note(struct file_open *open, uint64_t offset, uint64_t end)
{
    _Atomic uint64_t *place = &open->ahead.ends[ahead_place(end)];
    _Atomic uint32_t *noted = ahead_noted(open, offset);
    if (atomic_load_explicit(place, memory_order_relaxed) == FILE_AHEAD_OFF)
        return;
    atomic_store_explicit(place, end, memory_order_relaxed);
    uint32_t before = atomic_load_explicit(noted, memory_order_relaxed);
    unsigned reads = before == ahead_reads(offset, 1) ? AHEAD_NEAR : 1;
    if (before != ahead_reads(offset, AHEAD_NEAR))
        atomic_store_explicit(noted, ahead_reads(offset, reads), memory_order_relaxed);
}

/* What ahead_read() came to. */
struct ahead_gift {
    size_t length; /* bytes that were given out, from the offset on */
    int error;     /* 0; -EFAULT, -ETIMEDOUT: no more can be read */
    bool stream;   /* the read is one of a stream: ahead_note() is not needed */
};
/* Gives out what was fetched at `offset`, and has more fetched; between enter and leave. What it
 * does not give out, without an error, is for an ordinary read. */
void ahead_read(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                uint64_t offset, struct ahead_gift *gift);

/* Is it known that the file ends at `offset` or before? */
bool ahead_ends(struct file_open *open, uint64_t offset);

/* posix_fadvise(2) with valid arguments. It is advice: nothing is waited for, nothing fails. */
void ahead_advise(struct file_open *open, off_t offset, off_t length, int advice);

#endif
