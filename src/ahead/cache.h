/*
 * What was read or written lately, given out of the registry (ledger/cache.h) to reads that go
 * through the page cache elsewhere: not with O_DIRECT, not with actimeo = 0.
 */
#ifndef AHEAD_CACHE_H
#define AHEAD_CACHE_H

#include "file/inode.h"

/* All of the read, or up to the end of the file, out of the cache; between enter and leave. May ask
 * the server whether the file changed. -EAGAIN: it is not there; -EFAULT. */
ssize_t ahead_cache_read(struct file_open *open, const struct iovec *vectors, int count,
                         size_t length, uint64_t offset);

/* As io_read_at(), and keeps what came. */
ssize_t ahead_cache_fill(struct file_open *open, const struct iovec *vectors, int count,
                         size_t length, uint64_t offset);

#endif
