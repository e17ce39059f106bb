/* The proof that what the kernel shows and what the server has are one. Inside the engine only. */
#ifndef MOUNT_PROOF_H
#define MOUNT_PROOF_H

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "mount/mount.h"
#include "ledger/attributes.h"

/* What ACCESS is always asked for. */
enum { MOUNT_ACCESS_ASKED = NFS_ACCESS_READ | NFS_ACCESS_MODIFY | NFS_ACCESS_EXTEND };

/* What is claimed: the open file `fd` is on the server what `path` (absolute, below the mount) is.
 */
struct mount_claim {
    struct mount *mount;
    const struct rpc_auth *auth;
    int fd;
    const char *path;
};

/* What is known of a file on the server. */
struct mount_proof {
    const struct stat *status; /* what the kernel showed before */
    struct nfs_fh fh;
    struct ledger_attributes attributes;
    uint64_t epoch; /* as of ledger_file_asking(), before the server told them; 0: not taken */
    bool current;   /* the attributes are what the server said, not before the file was opened */
    bool granted;   /* who opened the file was granted access by the server */
    bool by_name;   /* not by what the kernel told */
    bool known;     /* the handle was: by another open */
    /* What ACCESS told that the server grants, if that was asked in this open, or lately; else 0.
     */
    uint32_t access;
    uint64_t access_ns; /* when it was asked; 0: it was not, or is known to others already */
};

/*
 * Looks the path up (`fresh`: without cached directory handles), and compares: a regular file, the
 * same file number, a change time between two looks at the kernel's, the same size. Tries for about
 * half a second what may become so. 0 with the handle and attributes; -EXDEV: another file;
 * -EAGAIN: the attributes differ; or -errno of the lookup or of the kernel (statx(2)).
 */
int mount_prove(const struct mount_claim *claim, bool fresh, struct nfs_fh *fh,
                struct nfs_attr *attr);

/*
 * The same comparison, once, for a file that was proven to have the handle `fh` before: ACCESS is
 * asked, which tells what the server grants (*access) and mostly the attributes as well.
 */
int mount_prove_handle(const struct mount_claim *claim, const struct nfs_fh *fh, uint32_t *access,
                       struct nfs_attr *attr);

/* What the kernel says of the file now, and not what it remembers. 0 or -errno. */
int mount_kernel_look(int fd, struct statx *status);

/*
 * The same where the kernel cannot be asked: the file of this path must have this number, and
 * exactly the change time that it had last. 0, -EXDEV, or -errno of the lookup.
 */
int mount_prove_unchanged(const struct mount_claim *claim, ino_t number,
                          const struct timespec *ctime, struct nfs_fh *fh, struct nfs_attr *attr);

#endif
