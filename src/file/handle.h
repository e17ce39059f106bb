/*
 * What the kernel's NFS client tells of its mounts: the server's handles. Inside src/file only.
 *
 * name_to_handle_at(2) asks nobody and needs no privilege (Linux 4.13 and later). Filters of system
 * calls may forbid it: then files are proven by name (proof.h).
 */
#ifndef FILE_HANDLE_H
#define FILE_HANDLE_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "file/mount.h"
#include "nfs/nfs3_types.h"

/*
 * The server's handle in one that the kernel's NFS client made (fs/nfs/export.c), if all of it is
 * as it must be for a file of this type (S_IFMT) and number.
 */
bool file_handle_decode(const struct file_handle *handle, mode_t type, uint64_t number,
                        struct nfs3_fh *fh);

/* The server's handle of what is open as `fd`, and has this status, on a kernel NFS mount. 0; what
 * the kernel said; or -EBADMSG: that is no handle of this file. */
int file_handle_of(int fd, const struct stat *status, struct nfs3_fh *fh);

/* What the kernel's table of mounts says of the NFS mount with this device. All false if it is
 * none, or not of version 3. */
struct file_kernel_mount file_kernel_mount_of(dev_t device);

#endif
