/*
 * Reading ahead, for open files that are read through the page cache's promises (no O_DIRECT).
 *
 * Who reads a file from front to back does not wait for a round trip each time: from the second
 * read on the next parts of the file are on their way before they are wanted. Who reads here and
 * there, and for the third time in the same 64 KiB, is given all of them. What a program announces
 * by posix_fadvise(2) is fetched as well. The bytes wait in memory of this process. They are given
 * out only while nobody of this host has begun to change them since they were asked for
 * (ledger/stamp.h), and for a second, or actimeo, at most: so late is seen what other hosts write,
 * and users of this host that have another registry. All else is an ordinary read.
 */
#ifndef AHEAD_AHEAD_H
#define AHEAD_AHEAD_H

#include "file/inode.h"
#include "ledger/attributes.h"
#include "sys/sys.h"

/* Where it is noted that a read ended at `offset`. */
static inline unsigned ahead_place(uint64_t offset)
{
    return (unsigned)(offset >> 20) % FILE_AHEAD_ENDS;
}
/* Does a read at `offset` follow one? The first of all follows, if it begins where the file does:
 * who reads the beginning mostly reads on. */
static inline bool ahead_follows(const struct file_open *open, uint64_t offset)
{
    uint64_t end =
        atomic_load_explicit(&open->ahead.ends[ahead_place(offset)], memory_order_relaxed);
    return end == offset || (offset == 0 && end == FILE_AHEAD_NONE);
}
/* Where it is noted how many reads began in the unit of `offset`, and what is noted of one. */
enum { AHEAD_UNIT = 64 << 10, AHEAD_NEAR = 2 /* reads, then there will be more */ };
static inline _Atomic uint32_t *ahead_noted(struct file_open *open, uint64_t offset)
{
    return &open->ahead.units[offset / AHEAD_UNIT % FILE_AHEAD_UNITS];
}
static inline uint32_t ahead_reads(uint64_t offset, unsigned reads)
{
    return (uint32_t)(offset / AHEAD_UNIT) << 2 | reads;
}
/* Were some of the last reads in the same unit? */
static inline bool ahead_is_near(struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(ahead_noted(open, offset), memory_order_relaxed) ==
           ahead_reads(offset, AHEAD_NEAR);
}
/* Is it worth to look for bytes that were fetched, or to fetch some? */
static inline bool ahead_wants(struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(&open->ahead.fetched, memory_order_relaxed) > 0 ||
           ahead_follows(open, offset) || ahead_is_near(open, offset);
}
/* There was a read of [offset, end): does the next one follow, or is it near? */
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
    size_t length; /* bytes that were given, from the offset on */
    int error;     /* 0 or -errno: then no more can be read; -EFAULT, -ETIMEDOUT */
    bool stream;   /* the read is one of a stream: it need not be noted */
};
/* Reads what was fetched at `offset`, and has more fetched; between enter and leave. What it does
 * not give, without an error, is for an ordinary read. */
void ahead_read(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                uint64_t offset, struct ahead_gift *gift);

/* Is it known that there is nothing at `offset`? */
bool ahead_ends(struct file_open *open, uint64_t offset);

/* posix_fadvise(2) with valid arguments. It is advice: nothing is waited for, nothing fails. */
void ahead_advise(struct file_open *open, off_t offset, off_t length, int advice);

#endif
