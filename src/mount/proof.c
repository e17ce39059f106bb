/* The proof that a file which the kernel shows and a file which the server has are one. */
#include "mount/proof.h"

#include "mount/lookup.h"
#include "mount/mounts.h"
#include "reach/root.h"
#include "sys/sys.h"

enum { ATTEMPTS = 8 };

static int64_t kernel_time(const struct statx_timestamp *time)
{
    return time->tv_sec * 1000000000 + time->tv_nsec;
}

static int look_up(const struct mount_claim *claim, bool fresh, struct nfs_fh *fh,
                   struct nfs_attr *attr)
{
    struct nfs_post_attr found = {.present = false};
    int result = mount_lookup(claim->mount, claim->auth, claim->path, fresh, fh, &found);
    if (result != 0)
        return result;
    if (found.present) {
        *attr = found.attr;
        return 0;
    }
    struct nfs_client client = mount_client(claim->mount, claim->auth);
    return nfs_getattr(&client, fh, attr);
}

static int ask_handle(const struct mount_claim *claim, const struct nfs_fh *fh, uint32_t *access,
                      struct nfs_attr *attr)
{
    struct nfs_client client = mount_client(claim->mount, claim->auth);
    struct nfs_post_attr found = {.present = false};
    *access = MOUNT_ACCESS_ASKED;
    int result = nfs_access(&client, fh, access, &found);
    if (result == 0 && !found.present)
        return nfs_getattr(&client, fh, attr);
    *attr = found.attr;
    return result;
}

int mount_kernel_look(int fd, struct statx *status)
{
    return sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS | STATX_BTIME,
                     status);
}

/*
 * 0: the server's attributes lie between two looks at the kernel's, and the sizes agree if nothing
 * changed meanwhile. -EXDEV, -EAGAIN: see mount_prove().
 */
static int judge(const struct nfs_attr *attr, const struct statx *before, const struct statx *after)
{
    if (attr->type != NFS_REG || attr->fileid != before->stx_ino)
        return -EXDEV;
    if (!reach_time_agrees(attr, before, after))
        return -EAGAIN;
    bool quiet = kernel_time(&before->stx_ctime) == kernel_time(&after->stx_ctime) &&
                 before->stx_size == after->stx_size;
    return quiet && attr->size != before->stx_size ? -EAGAIN : 0;
}

/* One look at the file from both sides. */
static int compare(const struct mount_claim *claim, bool fresh, struct nfs_fh *fh,
                   struct nfs_attr *attr)
{
    struct statx before, after;
    int result = mount_kernel_look(claim->fd, &before);
    if (result == 0)
        result = look_up(claim, fresh, fh, attr);
    if (result == 0)
        result = mount_kernel_look(claim->fd, &after);
    return result == 0 ? judge(attr, &before, &after) : result;
}

int mount_prove_handle(const struct mount_claim *claim, const struct nfs_fh *fh, uint32_t *access,
                       struct nfs_attr *attr)
{
    struct statx before, after;
    int result = mount_kernel_look(claim->fd, &before);
    if (result == 0)
        result = ask_handle(claim, fh, access, attr);
    if (result == 0)
        result = mount_kernel_look(claim->fd, &after);
    return result == 0 ? judge(attr, &before, &after) : result;
}

int mount_prove(const struct mount_claim *claim, bool fresh, struct nfs_fh *fh,
                struct nfs_attr *attr)
{
    int result = -EAGAIN;
    for (int i = 0; i < ATTEMPTS && result != 0; i++) {
        if (i > 1)
            sys_nanosleep_ms(1 << i);
        result = compare(claim, fresh || i > 0, fh, attr);
        /* A cached handle may be of a directory that was renamed: the second look is fresh. After
         * that another file under this name will not become the right one. */
        if (i > 0 && result != -EAGAIN && result != -ENOENT && result != -ESTALE)
            break;
    }
    return result;
}

int mount_prove_unchanged(const struct mount_claim *claim, ino_t number,
                          const struct timespec *ctime, struct nfs_fh *fh, struct nfs_attr *attr)
{
    int result = look_up(claim, true, fh, attr);
    if (result != 0)
        return result;
    bool same = attr->type == NFS_REG && attr->fileid == number &&
                attr->ctime.sec == ctime->tv_sec && attr->ctime.nsec == ctime->tv_nsec;
    return same ? 0 : -EXDEV;
}
