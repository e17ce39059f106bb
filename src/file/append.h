/* Writes to the end. */
#ifndef FILE_APPEND_H
#define FILE_APPEND_H

#include "file/inode.h"

/* A write at the end of the file; `move`: the offset goes to the end of it. As file_pwritev(). */
ssize_t file_append(struct file_open *open, int fd, const struct iovec *vectors, int count,
                    int flags, bool move);

#endif
