/*
 * Reading ahead, for open files that are read through the page cache's promises (no O_DIRECT).
 *
 * Who reads a file from front to back does not wait for a round trip each time: from the second
 * read on the next parts of the file are on their way before they are wanted. What a program
 * announces by posix_fadvise(2) is fetched as well. The bytes wait in memory of this process. They
 * are given out only while nobody of this host has begun to change them since they were asked for
 * (ledger/quiet.h), and for a second, or actimeo, at most: so late is seen what other hosts write,
 * and users of this host that have another registry. All else is an ordinary read.
 */
#ifndef FILE_AHEAD_H
#define FILE_AHEAD_H

#include "file/inode.h"

/* Is it worth to look for bytes that were fetched, or does the read follow the one before? */
static inline bool file_ahead_wants(const struct file_open *open, uint64_t offset)
{
    return atomic_load_explicit(&open->ahead.fetched, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&open->ahead.next, memory_order_relaxed) == offset;
}
/* The next read that follows is at `offset`. */
static inline void file_ahead_note(struct file_open *open, uint64_t offset)
{
    if (atomic_load_explicit(&open->ahead.next, memory_order_relaxed) != FILE_AHEAD_OFF)
        atomic_store_explicit(&open->ahead.next, offset, memory_order_relaxed);
}
/* Reads what was fetched at `offset`, and has more fetched; between enter and leave. How many bytes
 * it gave from there on: 0 if an ordinary read is to be made. -EFAULT. */
ssize_t file_ahead_read(struct file_open *open, const struct iovec *vectors, int count,
                        size_t length, uint64_t offset);

#endif
