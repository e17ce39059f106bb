/*
 * The root of an export: its handle, and the proof that it is the directory at the mount point, and
 * the same over another path. What decides is said as a finding: the library logs it, and
 * `directnfs check` explains it.
 */
#ifndef REACH_ROOT_H
#define REACH_ROOT_H

#include <errno.h>

#include "nfs/nfs.h"
#include "reach/kernel.h"

enum reach_what {
    REACH_SAME,
    REACH_NO_DIRECTORY,   /* here or there */
    REACH_OTHER_FILE,     /* another number, or file system */
    REACH_OTHER_TIME,     /* another time of change */
    REACH_UNKNOWN_HANDLE, /* the server does not know the handle, or refuses it: `error` */
    REACH_KERNEL_FAILED,  /* `error` is the kernel's, */
    REACH_SERVER_FAILED   /* the server's, or that of reaching it, */
};

struct reach_finding {
    enum reach_what what;
    int error;
    struct nfs_attr attr; /* what was asked said of the root last; */
    struct nfs_attr
        seen; /* proven paths, or of the mount point (number and time of change) the kernel */
};

/* The root's handle as the kernel's NFS client tells it of its mount at `path`, which must have
 * this device and number. 0, or -errno: it does not. */
int reach_root_told(const char *path, dev_t device, ino_t inode, struct nfs_fh *root);

/* Does the server know this handle as the directory with this number? 0 or -errno; -ESTALE: not, or
 * as another. */
int reach_root_known(const struct nfs_client *client, const struct nfs_fh *root, ino_t inode);

/* Does the server's change time lie between two looks at the kernel's? */
bool reach_time_agrees(const struct nfs_attr *attr, const struct statx *before,
                       const struct statx *after);

/* statx(2), at once or for at most so long as the context says. 0 or -errno. */
typedef int reach_statx(const void *context, const char *path, int flags, struct statx *status);
reach_statx reach_statx_now;

/*
 * The directory at the mount point and the server's must be one: the same file number, and a change
 * time between two looks at the kernel's. 0, -EXDEV: they are not, or -errno of either.
 */
int reach_prove_root(const char *path, reach_statx *look, const void *context,
                     const struct nfs_client *client, const struct nfs_fh *root,
                     struct reach_finding *finding);

/*
 * Asks the paths that are proven for the root. What they said at `since_ns` or later will do. *attr
 * is the last that was heard, though it be older when this fails. 0 or -errno.
 */
typedef int reach_root_look(void *context, uint64_t since_ns, struct nfs_attr *attr);

/*
 * A path must say of the root what those say that are proven: the same file of the same file
 * system, with the change time that was seen in the last seconds, or a later one that they know
 * too; if none answers, not an earlier one. 0; -EXDEV: it leads elsewhere; -EAGAIN: that cannot be
 * told now; or -errno.
 */
int reach_prove_path(const struct nfs_client *here, const struct nfs_fh *root,
                     reach_root_look *look, void *context, struct reach_finding *finding);

/* An answer to a question for a root, though it may be a refusal: the path works. */
static inline bool reach_is_answer(int result)
{
    return result == 0 || result == -ESTALE || result == -EACCES || result == -ENOENT;
}

#endif
