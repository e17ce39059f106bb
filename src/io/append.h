/* Writes to the end. */
#ifndef IO_APPEND_H
#define IO_APPEND_H

#include "file/inode.h"

/* A write at the end of the file; `move`: the offset goes to the end of it. As io_pwritev(). */
ssize_t io_append(struct file_open *open, int fd, const struct iovec *vectors, int count, int flags,
                  bool move);

#endif
