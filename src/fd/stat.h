/* What the program is told of size and times. */
#ifndef FD_STAT_H
#define FD_STAT_H

#include "file/inode.h"

/* The attributes that are known, or asked for; `times`: also what is dirty is at the server before,
 * which tells them. 0, -errno or FILE_KERNEL. */
int fd_attributes_of(struct file_open *open, bool times, struct ledger_attributes *attributes);

/* lseek(2). */
off_t fd_lseek(struct file_open *open, int fd, off_t offset, int whence);

/* fstat of a managed descriptor: overlays size, blocks and times. */
int fd_stat(struct file_open *open, int fd, struct stat *status);
/* Does the kernel's NFS client get no answers, so that whoever asks it would hang? */
bool fd_kernel_is_silent(const struct file_open *open);
/* Then all of it, by what the client knows and what ours is told. Else FILE_KERNEL: it can be
 * asked. */
int fd_stat_in_silence(struct file_open *open, int fd, struct stat *status);
/* What the kernel says, or in silence knows. 0 or -errno. */
int fd_stat_by_kernel(const struct file_open *open, int fd, struct stat *status);
/* What the kernel told of dirfd, path and flags, those of statx(2), if its device has a mount of
 * ours. */
void fd_stat_path(int dirfd, const char *path, int flags, struct stat *status);
void fd_statx_path(int dirfd, const char *path, int flags, struct statx *status);

/* True if files of this device may be ours: for calls that name a file by path, as truncate(). */
bool fd_on_mount(dev_t device);

#endif
