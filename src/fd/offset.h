/* Reading and writing at the kernel's offset. */
#ifndef FD_OFFSET_H
#define FD_OFFSET_H

#include "file/inode.h"

/* readv(2) and writev(2), with RWF_* flags: at the kernel's file offset, which they move. As
 * ahead_preadv() and io_pwritev(). */
ssize_t fd_readv(struct file_open *open, int fd, const struct iovec *vectors, int count, int flags);
ssize_t fd_writev(struct file_open *open, int fd, const struct iovec *vectors, int count,
                  int flags);

#endif
