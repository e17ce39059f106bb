/*
 * The root of an export: its handle, and the proofs that it is the directory at the mount point,
 * and that another path leads to it. The outcome is a finding: the library logs it, and `directnfs
 * check` explains it.
 */
#ifndef REACH_ROOT_H
#define REACH_ROOT_H

#include <errno.h>

#include "nfs/nfs.h"
#include "reach/kernel.h"

enum reach_what {
    REACH_SAME,
    REACH_NO_DIRECTORY,   /* here or at the server */
    REACH_OTHER_FILE,     /* another file number, or file system */
    REACH_OTHER_TIME,     /* another change time */
    REACH_UNKNOWN_HANDLE, /* the server does not know the handle, or refuses it; `error` */
    REACH_KERNEL_FAILED,  /* `error` is the kernel's */
    REACH_SERVER_FAILED   /* `error` is the server's, or that of reaching it */
};

struct reach_finding {
    enum reach_what what;
    int error;
    struct nfs_attr attr; /* what the server said of the root last, over the path that is asked */
    struct nfs_attr seen; /* what proven paths said of it; or for the mount point, number and change
                             time from the kernel */
};

/* The root's handle, as the kernel's NFS client tells it of its mount at `path`. 0, or -errno: it
 * does not tell. -EXDEV: `path` has another device or number. */
int reach_root_told(const char *path, dev_t device, ino_t inode, struct nfs_fh *root);

/* Does the server know this handle as the directory with this number? 0 or -errno; -ESTALE: it does
 * not know it, or as something else. */
int reach_root_known(const struct nfs_client *client, const struct nfs_fh *root, ino_t inode);

/* Does the server's change time lie between two looks at the kernel's? */
bool reach_time_agrees(const struct nfs_attr *attr, const struct statx *before,
                       const struct statx *after);

/* statx(2): at once, or for at most as long as the context says. 0 or -errno. */
typedef int reach_statx(const void *context, const char *path, int flags, struct statx *status);
reach_statx reach_statx_now;

/*
 * Proves that the directory at the mount point is the server's: the file number is equal, and the
 * change time lies between two looks at the kernel's.
 * 0: it is.
 * -EXDEV: it is not.
 * Another -errno: the kernel's or the server's.
 */
int reach_prove_root(const char *path, reach_statx *look, const void *context,
                     const struct nfs_client *client, const struct nfs_fh *root,
                     struct reach_finding *finding);

/* Asks the proven paths for the root. An answer from `since_ns` or later will do. *attr is the last
 * answer, even if that is older and this fails. 0 or -errno. */
typedef int reach_root_look(void *context, uint64_t since_ns, struct nfs_attr *attr);

/*
 * Proves that a path leads to the root that the proven paths show: the file and the file system are
 * equal, and so is the change time that was seen in the last seconds. A later time is right if the
 * proven paths then have it too. If none of them answers, only an earlier time is wrong.
 * 0: it does.
 * -EXDEV: it leads elsewhere.
 * -EAGAIN: that cannot be told now.
 * Another -errno: the path does not work.
 */
int reach_prove_path(const struct nfs_client *here, const struct nfs_fh *root,
                     reach_root_look *look, void *context, struct reach_finding *finding);

/* Is it an answer to a question for a root? A refusal is one: the path works. */
static inline bool reach_is_answer(int result)
{
    return result == 0 || result == -ESTALE || result == -EACCES || result == -ENOENT;
}

#endif
