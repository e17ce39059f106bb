/* The proof that a file which the kernel shows and a file which the server has are one. Inside the
 * engine only. */
#ifndef MOUNT_PROOF_H
#define MOUNT_PROOF_H

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "mount/mount.h"
#include "ledger/attributes.h"

/* What each ACCESS asks for. */
enum { MOUNT_ACCESS_ASKED = NFS_ACCESS_READ | NFS_ACCESS_MODIFY | NFS_ACCESS_EXTEND };

/* The claim: the open file `fd` is, on the server, what `path` (absolute, below the mount) names.
 */
struct mount_claim {
    struct mount *mount;
    const struct rpc_auth *auth;
    int fd;
    const char *path;
};

/* What is known of a file on the server. */
struct mount_proof {
    const struct stat *status; /* what the kernel showed before the proof */
    struct nfs_fh fh;
    struct ledger_attributes attributes;
    uint64_t epoch; /* ledger_file_asking() before the server told the attributes; 0: not taken */
    bool current;   /* the server said the attributes after the file was opened */
    bool granted;   /* the server granted access to the user that opened the file */
    bool by_name;   /* found by name, not by a handle from the kernel */
    bool known;     /* the handle was known, from another open */
    /* What the server grants, by ACCESS in this open or lately; 0: not asked. */
    uint32_t access;
    uint64_t access_ns; /* when ACCESS was asked; 0: not asked, or others know it already */
};

/*
 * Looks the path up (`fresh`: without cached directory handles), and compares: it is a regular
 * file, with the same file number, a change time between two looks at the kernel's, and the same
 * size. Waits for about a quarter of a second in all for what may yet agree.
 * 0: *fh and *attr are the file's.
 * -EXDEV: it is another file.
 * -EAGAIN: the attributes differ.
 * Else -errno of the lookup or of the kernel (statx(2)).
 */
int mount_prove(const struct mount_claim *claim, bool fresh, struct nfs_fh *fh,
                struct nfs_attr *attr);

/*
 * The comparison of mount_prove(), once, for a file that was proven to have the handle `fh` before.
 * Asks ACCESS, which tells what the server grants (*access), and mostly the attributes too.
 */
int mount_prove_handle(const struct mount_claim *claim, const struct nfs_fh *fh, uint32_t *access,
                       struct nfs_attr *attr);

/* Asks the kernel for the file's attributes, as its server has them now, not as it remembers them.
 * 0 or -errno. */
int mount_kernel_look(int fd, struct statx *status);

/*
 * The proof where the kernel cannot be asked: the file of this path must have this number, and
 * exactly the change time that it had last. 0, -EXDEV, or -errno of the lookup.
 */
int mount_prove_unchanged(const struct mount_claim *claim, ino_t number,
                          const struct timespec *ctime, struct nfs_fh *fh, struct nfs_attr *attr);

#endif
