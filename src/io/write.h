/* A write of the program. */
#ifndef IO_WRITE_H
#define IO_WRITE_H

#include "file/inode.h"

/* pwritev2(2): `flags` are RWF_*. Short only when an error came after some bytes, or at a limit of
 * the file's size. FILE_KERNEL: make the real call. Else -errno. */
ssize_t io_pwritev(struct file_open *open, int fd, const struct iovec *vectors, int count,
                   off_t offset, int flags);

#endif
