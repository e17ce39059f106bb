/* A read: of what was fetched or the host has, and else of the server. */
#ifndef AHEAD_BUFFERED_H
#define AHEAD_BUFFERED_H

#include "file/inode.h"

/* `flags` are RWF_*. Short only at end of file, or when an error came after some bytes. */
ssize_t ahead_preadv(struct file_open *open, int fd, const struct iovec *vectors, int count,
                     off_t offset, int flags);

#endif
