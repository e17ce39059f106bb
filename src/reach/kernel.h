/*
 * What the kernel's NFS client tells of its mounts: the server's handles.
 *
 * name_to_handle_at(2) asks nobody and needs no privilege (Linux 4.13 and later). Filters of system
 * calls may forbid it: then files are proven by name.
 */
#ifndef REACH_KERNEL_H
#define REACH_KERNEL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "config/nfstab.h"
#include "nfs/nfs.h"

enum { REACH_LAYOUT_BYTES = 48 };

/* What the kernel's table of mounts says of a kernel NFS mount. */
struct reach_kernel_mount {
    const struct nfs_version *speaks; /* the version whose handles it has; NULL: not one of ours */
    bool close_to_open; /* the kernel asks the server for attributes at each open (no `nocto`) */
    bool auth_sys;      /* it asks with the same credentials as we do */
    uint16_t port;      /* of the server, and */
    char address[48];   /* its address, cut; "": the table does not tell */
};

/*
 * The server's handle in one that the kernel's NFS client made (fs/nfs/export.c), if all of it is
 * as it must be for a file of this type (S_IFMT) and number.
 */
bool reach_kernel_decode(const struct file_handle *handle, mode_t type, uint64_t number,
                         struct nfs_fh *fh);

/* The server's handle of what has this status on a kernel NFS mount: what is open as `fd` if `path`
 * is empty, else what that names. 0; what the kernel said; or -EBADMSG: no handle of this file. */
int reach_kernel_handle(int fd, const char *path, const struct stat *status, struct nfs_fh *fh);

/*
 * Is the file system with this device one of the kernel's NFS client, of whatever version? The
 * table of mounts is looked at, as statfs(2) would ask the server. 1, with what the table says;
 * else all of that is false: 0; -ENOENT: the table does not have it; or what the kernel said.
 */
int reach_kernel_mount_of(dev_t device, struct reach_kernel_mount *kernel);

/* Does the kernel's client get the data of this file system by layouts (pNFS), of which type? What
 * it wrote then need not be where its metadata server looks for it. Reads what the kernel says. */
bool reach_kernel_has_layouts(dev_t device, char type[REACH_LAYOUT_BYTES]);

/* The version in which the server is asked for the files of a mount: as the stanza wants it, else
 * the one in which the kernel asks. */
const struct nfs_version *reach_version(enum conf_version wanted,
                                        const struct reach_kernel_mount *kernel);

#endif
