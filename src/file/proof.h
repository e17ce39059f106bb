/* The proof that what the kernel shows and what the server has are one. Inside src/file only. */
#ifndef FILE_PROOF_H
#define FILE_PROOF_H

#include <errno.h>
#include <time.h>

#include "file/mount.h"
#include "ledger/attributes.h"

/* What is claimed: the open file `fd` is on the server what `path` (absolute, below the mount) is.
 */
struct file_claim {
    struct file_mount *mount;
    const struct rpc_auth *auth;
    int fd;
    const char *path;
};

/* What is known of a file on the server. */
struct file_proof {
    struct nfs3_fh fh;
    struct ledger_attributes attributes;
    bool current; /* the attributes are what the server said, not before the file was opened */
    bool granted; /* who opened the file was granted access by the server */
};

/*
 * Looks the path up (`fresh`: without cached directory handles), and compares: a regular file, the
 * same file number, a change time between two looks at the kernel's, the same size. Tries for about
 * half a second what may become so. 0 with the handle and attributes; -EXDEV: another file;
 * -EAGAIN: the attributes differ; or -errno of the lookup or of the kernel (statx(2)).
 */
int file_prove(const struct file_claim *claim, bool fresh, struct nfs3_fh *fh,
               struct nfs3_attr *attr);

/*
 * The same where the kernel cannot be asked: the file of this path must have this number, and
 * exactly the change time that it had last. 0, -EXDEV, or -errno of the lookup.
 */
int file_prove_unchanged(const struct file_claim *claim, ino_t number, const struct timespec *ctime,
                         struct nfs3_fh *fh, struct nfs3_attr *attr);

#endif
