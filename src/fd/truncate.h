/* Changes of size, through the engine and by the kernel. */
#ifndef FD_TRUNCATE_H
#define FD_TRUNCATE_H

#include "file/inode.h"

/* Before the kernel changes owner, mode or times of a regular file, of any mount or none: sends and
 * commits what was written to it until now. */
void fd_attributes_changing(dev_t device, ino_t number);
/* ftruncate(2). 0, -errno or FILE_KERNEL. */
int fd_ftruncate(struct file_open *open, int fd, off_t size);
/* Before the kernel changes the size of a file, by open(O_TRUNC) or a descriptor that is not
 * managed: commits what was written until now. An empty path: the file of `dirfd`. If this process
 * were killed, nobody could tell later whether it was cut off. */
void fd_truncating(int dirfd, const char *path);
/* After the kernel changed the size of the file, by a descriptor that is not managed: what the
 * ledger has beyond the new size, of other processes, must not come back. */
void fd_truncated_by_kernel(int fd, off_t size);
/*
 * truncate(2) where no descriptor can be opened, or closed: the kernel does it, and the ledger is
 * told. 0 or -errno; -EMFILE: this process does not have the ledger; FILE_KERNEL: nobody need be
 * told, make the real call.
 */
int fd_truncate_path(const char *path, off_t size);
/* fallocate(2). -EOPNOTSUPP: NFSv3 cannot do it. `emulate`: as posix_fallocate(3), by writing. */
int fd_allocate(struct file_open *open, int fd, int mode, off_t offset, off_t length, bool emulate);

#endif
