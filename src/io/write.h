/* Writing. */
#ifndef IO_WRITE_H
#define IO_WRITE_H

#include "file/inode.h"

/* `flags` are RWF_*. As ahead_preadv(). */
ssize_t io_pwritev(struct file_open *open, int fd, const struct iovec *vectors, int count,
                   off_t offset, int flags);

#endif
