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
#ifndef FILE_AHEAD_H
#define FILE_AHEAD_H

#include "file/inode.h"
#include "ledger/attributes.h"
#include "sys/sys.h"

/* Is the file read as through the page cache, and may be read ahead? */
static inline bool file_ahead_allowed(const struct file_open *open)
{
    return atomic_load_explicit(&open->ahead.allowed, memory_order_relaxed);
}
/* Where it is noted that a read ended at `offset`. */
static inline unsigned file_ahead_place(uint64_t offset)
{
    return (unsigned)(offset >> 20) % FILE_AHEAD_ENDS;
}
/* Does a read at `offset` follow one? The first of all follows, if it begins where the file does:
 * who reads the beginning mostly reads on. */
static inline bool file_ahead_follows(const struct file_open *open, uint64_t offset)
{
    uint64_t end =
        atomic_load_explicit(&open->ahead.ends[file_ahead_place(offset)], memory_order_relaxed);
    return end == offset || (offset == 0 && end == FILE_AHEAD_NONE);
}
/* Where it is noted how many reads began in the unit of `offset`, and what is noted of one. */
enum { FILE_AHEAD_UNIT = 64 << 10, FILE_AHEAD_NEAR = 2 /* reads, then there will be more */ };
static inline _Atomic uint32_t *file_ahead_noted(struct file_open *open, uint64_t offset)
{
    return &open->ahead.units[offset / FILE_AHEAD_UNIT % FILE_AHEAD_UNITS];
}
static inline uint32_t file_ahead_reads(uint64_t offset, unsigned reads)
{
    return (uint32_t)(offset / FILE_AHEAD_UNIT) << 2 | reads;
}
/* Were some of the last reads in the same unit? */
static inline bool file_ahead_is_near(struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(file_ahead_noted(open, offset), memory_order_relaxed) ==
           file_ahead_reads(offset, FILE_AHEAD_NEAR);
}
/* Is it worth to look for bytes that were fetched, or to fetch some? */
static inline bool file_ahead_wants(struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(&open->ahead.fetched, memory_order_relaxed) > 0 ||
           file_ahead_follows(open, offset) || file_ahead_is_near(open, offset);
}
/* There was a read of [offset, end): does the next one follow, or is it near? */
static inline void file_ahead_note(struct file_open *open, uint64_t offset, uint64_t end)
{
    _Atomic uint64_t *place = &open->ahead.ends[file_ahead_place(end)];
    _Atomic uint32_t *noted = file_ahead_noted(open, offset);
    if (atomic_load_explicit(place, memory_order_relaxed) == FILE_AHEAD_OFF)
        return;
    atomic_store_explicit(place, end, memory_order_relaxed);
    uint32_t before = atomic_load_explicit(noted, memory_order_relaxed);
    unsigned reads = before == file_ahead_reads(offset, 1) ? FILE_AHEAD_NEAR : 1;
    if (before != file_ahead_reads(offset, FILE_AHEAD_NEAR))
        atomic_store_explicit(noted, file_ahead_reads(offset, reads), memory_order_relaxed);
}

/* What file_ahead_read() came to. */
struct file_gift {
    size_t length; /* bytes that were given, from the offset on */
    int error;     /* 0 or -errno: then no more can be read; -EFAULT, -ETIMEDOUT */
    bool stream;   /* the read is one of a stream: it need not be noted */
};
/* Reads what was fetched at `offset`, and has more fetched; between enter and leave. What it does
 * not give, without an error, is for an ordinary read. */
void file_ahead_read(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                     uint64_t offset, struct file_gift *gift);

/* After a READ that was sent at `asked_ns`: what came with the answer tells whether others changed
 * the file since the stamp was taken. */
void file_ahead_told(struct file_inode *inode, const struct ledger_stamp *stamp, uint64_t asked_ns,
                     uint64_t offset, const struct nfs_transfer *transfer);

/* The answer of a READ may also tell where the file ends: then that is known, until somebody of
 * this host changes or opens the file, and as long as bytes that were fetched may be given out. */
void file_ahead_note_end(struct file_open *open, const struct ledger_stamp *stamp,
                         uint64_t asked_ns, uint64_t offset, const struct nfs_transfer *transfer);
/* Is it known that there is nothing at `offset`? */
bool file_ahead_ends(struct file_open *open, uint64_t offset);

#endif
