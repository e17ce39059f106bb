/* What the program is told of size and times. */
#ifndef FD_STAT_H
#define FD_STAT_H

#include "file/inode.h"

/* The attributes: those that are known, or asked for. `times`: what is dirty is sent first, as its
 * times are the server's. 0, -errno or FILE_KERNEL. */
int fd_attributes_of(struct file_open *open, bool times, struct ledger_attributes *attributes);

/* lseek(2). The new offset, -errno or FILE_KERNEL. */
off_t fd_lseek(struct file_open *open, int fd, off_t offset, int whence);

/* fstat(2) of a managed descriptor: overlays size, blocks and times of what the kernel said. 0,
 * -errno or FILE_KERNEL. */
int fd_stat(struct file_open *open, int fd, struct stat *status);
/* Does the kernel's NFS client get no answers, or does it wait for one now, so that a process that
 * asks it could hang? */
bool fd_kernel_is_silent(const struct file_open *open);
/* fstat(2) in that silence: what the kernel's client remembers, overlaid with what the engine
 * knows. FILE_KERNEL: the client is not silent, and can be asked. */
int fd_stat_in_silence(struct file_open *open, int fd, struct stat *status);
/* What the kernel says, or in that silence remembers. 0 or -errno. */
int fd_stat_by_kernel(const struct file_open *open, int fd, struct stat *status);
/* Corrects what the kernel told of dirfd, path and flags (those of statx(2)), if the file is on a
 * mount of ours. */
void fd_stat_path(int dirfd, const char *path, int flags, struct stat *status);
void fd_statx_path(int dirfd, const char *path, int flags, struct statx *status);

/* May files of this device be ours? For calls that name a file by its path, such as truncate(). */
bool fd_on_mount(dev_t device);

#endif
