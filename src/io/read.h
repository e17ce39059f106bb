/* Reading. */
#ifndef IO_READ_H
#define IO_READ_H

#include "file/inode.h"

/* `flags` are RWF_*. Short only at end of file, or when an error came after some bytes. */
ssize_t io_preadv(struct file_open *open, int fd, const struct iovec *vectors, int count,
                  off_t offset, int flags);

#endif
