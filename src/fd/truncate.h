/* Changes of size, through the engine and by the kernel. */
#ifndef FD_TRUNCATE_H
#define FD_TRUNCATE_H

#include "file/inode.h"

/* Before the kernel changes owner, mode or times of a regular file, of any mount or none: what was
 * written to it until now is sent. */
void fd_attributes_changing(dev_t device, ino_t number);
/* ftruncate(2). */
int fd_ftruncate(struct file_open *open, int fd, off_t size);
/* Before the kernel changes the size of what this names (the file of `dirfd`, if the path is
 * empty), by open(O_TRUNC) or an unmanaged descriptor: what was written until now is at the server
 * for good. Whether it was cut off, nobody could tell later if this process were killed. */
void fd_truncating(int dirfd, const char *path);
/* After the kernel changed the size of an unmanaged descriptor's file: what the ledger has beyond
 * it, by other processes, must not come back. */
void fd_truncated_by_kernel(int fd, off_t size);
/*
 * truncate(2) where no descriptor can be had, or closed: the kernel does it, and the ledger hears
 * of it. 0 or -errno; -EMFILE where the ledger is not at hand; FILE_KERNEL: nobody need hear of it.
 */
int fd_truncate_path(const char *path, off_t size);
/* fallocate(2): -EOPNOTSUPP for what NFSv3 cannot do. `emulate`: as posix_fallocate(3), by writing.
 */
int fd_allocate(struct file_open *open, int fd, int mode, off_t offset, off_t length, bool emulate);

#endif
