/*
 * What the kernel's NFS client tells of its mounts: the server's handles.
 *
 * name_to_handle_at(2) asks no server and needs no privilege (Linux 4.13 and later). Filters of
 * system calls may forbid it: then files are proven by name.
 */
#ifndef REACH_KERNEL_H
#define REACH_KERNEL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "config/mountinfo.h"
#include "config/nfstab.h"
#include "nfs/nfs.h"

enum { REACH_LAYOUT_BYTES = 48 };

/* What the kernel's table of mounts says of a kernel NFS mount. */
struct reach_kernel_mount {
    const struct nfs_version *speaks; /* the version of its handles; NULL: none that we speak */
    bool close_to_open; /* the kernel asks the server for attributes at each open (no `nocto`) */
    struct conf_mount_protection protection;
    uint16_t port;    /* the server's port */
    char address[48]; /* the server's address, cut; "": the table does not tell */
};

/* Takes the server's handle out of one that the kernel's NFS client made (fs/nfs/export.c). True
 * only if all of it is right for a file of this type (S_IFMT) and number. */
bool reach_kernel_decode(const struct file_handle *handle, mode_t type, uint64_t number,
                         struct nfs_fh *fh);

/*
 * The server's handle of the file with this status on a kernel NFS mount: the one open as `fd` if
 * `path` is empty, else the one that `path` names.
 * 0: it is in *fh.
 * -EBADMSG: it is no handle of this file.
 * Another -errno: the kernel's.
 */
int reach_kernel_handle(int fd, const char *path, const struct stat *status, struct nfs_fh *fh);

/*
 * Does this device belong to the kernel's NFS client, in any version? Looks at the table of mounts,
 * as statfs(2) would ask the server.
 * 1: yes; *kernel has what the table says.
 * 0: no. Here and below, all of *kernel is zero.
 * -ENOENT: the table does not have the device.
 * Another -errno: the kernel's.
 */
int reach_kernel_mount_of(dev_t device, struct reach_kernel_mount *kernel);
/* The same of a table that was read already. */
int reach_kernel_mount_in(const struct conf_mountinfo *info, dev_t device,
                          struct reach_kernel_mount *kernel);

/*
 * Does the kernel's client get the data of this file system by layouts (pNFS), and of which type?
 * Then what it wrote need not be where the metadata server looks for it. Reads what the kernel
 * says.
 */
bool reach_kernel_has_layouts(dev_t device, char type[REACH_LAYOUT_BYTES]);

/* The version in which we ask the server for a mount's files: the stanza's, else the kernel's. */
const struct nfs_version *reach_version(enum conf_version wanted,
                                        const struct reach_kernel_mount *kernel);

/* The protection of a mount's calls: the export's or the stanza's, else the kernel's, else none.
 * Never AUTO. */
enum conf_security reach_security(enum conf_security wanted,
                                  const struct reach_kernel_mount *kernel);
enum conf_tls reach_tls(enum conf_tls wanted, const struct reach_kernel_mount *kernel);

/* "sys", "krb5p", "sys+tls", ... Static. */
const char *reach_protection_text(enum conf_security security, bool tls);

/* Does the kernel's mount protect its calls at least so? Kerberos within TLS hides what it sends as
 * krb5p does, and a mount with krb5p is not in clear. */
bool reach_kernel_covers(const struct reach_kernel_mount *kernel, enum conf_security security,
                         enum conf_tls tls);

#endif
