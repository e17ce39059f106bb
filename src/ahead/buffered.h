/* A read: what was fetched, what the host's cache has, and the rest from the server. */
#ifndef AHEAD_BUFFERED_H
#define AHEAD_BUFFERED_H

#include "file/inode.h"

/* preadv2(2): `flags` are RWF_*. Short only at the end of the file, or when an error came after
 * some bytes. FILE_KERNEL: make the real call. Else -errno. */
ssize_t ahead_preadv(struct file_open *open, int fd, const struct iovec *vectors, int count,
                     off_t offset, int flags);

#endif
