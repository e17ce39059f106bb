/* Writes to the end of a file. */
#ifndef IO_APPEND_H
#define IO_APPEND_H

#include "file/inode.h"

/* Writes to the end of the file. `move`: the offset goes to the end of what was written. As
 * io_pwritev(). */
ssize_t io_append(struct file_open *open, int fd, const struct iovec *vectors, int count, int flags,
                  bool move);

#endif
