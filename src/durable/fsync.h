/* What fsync() and close() tell: is the data safe, or was some of it lost? */
#ifndef DURABLE_FSYNC_H
#define DURABLE_FSYNC_H

#include "file/inode.h"

/* Of whichever world the file is: never FILE_KERNEL. 0 or -errno; -EIO once for each loss. */
int durable_fsync(struct file_open *open, int fd);
/*
 * Beside the kernel's fsync of a descriptor that is not managed: COMMITs what processes of this
 * host wrote to the same file through the engine. 0 or -errno, which the fsync must report. After
 * it, or before one that the kernel carries out on its own.
 */
int durable_fsynced_by_kernel(int fd);

/* At a close of what left data behind, and the last one of a file in this process: it tells what
 * fsync would, and does not keep it from telling that. As fsync. */
int durable_commit_closing(struct file_open *open);

#endif
