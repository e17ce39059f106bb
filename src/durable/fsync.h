/* What fsync() and close() tell: is the data safe, or was some of it lost? */
#ifndef DURABLE_FSYNC_H
#define DURABLE_FSYNC_H

#include "file/inode.h"

/* fsync(2) of a file of either world: never FILE_KERNEL. 0 or -errno; -EIO once for each loss. */
int durable_fsync(struct file_open *open, int fd);
/*
 * Beside the kernel's fsync of a descriptor that is not managed: COMMITs what processes of this
 * host wrote to the same file through the engine. To be called after the kernel's fsync, or before
 * one that the kernel carries out on its own. 0 or -errno, which the fsync must report.
 */
int durable_fsynced_by_kernel(int fd);

/* At the close of an open file that left data behind, and at the last close of a file in this
 * process. It tells what fsync would tell, and fsync still tells that. As durable_fsync(). */
int durable_commit_closing(struct file_open *open);

#endif
