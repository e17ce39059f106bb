/*
 * What was read or written lately, given out from the registry (ledger/cache.h). For reads that
 * would go through the page cache: not with O_DIRECT, not with actimeo = 0.
 */
#ifndef AHEAD_CACHE_H
#define AHEAD_CACHE_H

#include "file/inode.h"

struct ledger_stamp;

/* Reads from the cache: all of the read, or up to the end of the file; between enter and leave. May
 * ask the server whether the file changed. Bytes. -EAGAIN: the cache does not have it; -EFAULT. */
ssize_t ahead_cache_read(struct file_open *open, const struct iovec *vectors, int count,
                         size_t length, uint64_t offset);

/* What was read ahead at `offset`, and is given out now: keeps it. Not so of a long file that is
 * read in sequence (`streamed`): that would push out what is read again, and hardly waits. */
void ahead_cache_keep(struct file_open *open, const struct ledger_stamp *stamp, uint64_t offset,
                      const struct iovec *data, bool streamed);

/* As io_read_at(), and keeps in the cache what came. */
ssize_t ahead_cache_fill(struct file_open *open, const struct iovec *vectors, int count,
                         size_t length, uint64_t offset);

#endif
