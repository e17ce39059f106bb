/*
 * What was read or written lately, given out of the registry (ledger/cache.h) to reads that go
 * through the page cache elsewhere: not with O_DIRECT, not with actimeo = 0.
 */
#ifndef FILE_CACHE_H
#define FILE_CACHE_H

#include "file/inode.h"

/* All of the read, or up to the end of the file, out of the cache; between enter and leave. May ask
 * the server whether the file changed. -EAGAIN: it is not there; -EFAULT. */
ssize_t file_cache_read(struct file_open *open, const struct iovec *vectors, int count,
                        size_t length, uint64_t offset);

/* As file_read_at(), and keeps what came. */
ssize_t file_cache_fill(struct file_open *open, const struct iovec *vectors, int count,
                        size_t length, uint64_t offset);

/* The server has what the ledger has of this write, taken from it at `stamp`. Before its end. */
void file_cache_wrote(struct ledger_file *file, const struct ledger_write *write,
                      const struct ledger_stamp *stamp);

#endif
