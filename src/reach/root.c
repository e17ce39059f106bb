#include "reach/root.h"

#include "sys/sys.h"

enum { ATTEMPTS = 6, PAUSE_MS = 10 };

#define FRESH_NS UINT64_C(3000000000) /* a root that was seen so recently still counts */

/* ---- its handle ---- */

int reach_root_told(const char *path, dev_t device, ino_t inode, struct nfs_fh *root)
{
    struct stat status;
    int fd = sys_open(path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int result = sys_fstat(fd, &status);
    if (result == 0 && (status.st_dev != device || status.st_ino != inode))
        result = -EXDEV;
    if (result == 0)
        result = reach_kernel_handle(fd, "", &status, root);
    sys_close(fd);
    return result;
}

int reach_root_known(const struct nfs_client *client, const struct nfs_fh *root, ino_t inode)
{
    struct nfs_attr attr;
    int result = nfs_getattr(client, root, &attr);
    return result != 0 || (attr.type == NFS_DIR && attr.fileid == inode) ? result : -ESTALE;
}

/* ---- the mount point ---- */

static int64_t kernel_time(const struct statx_timestamp *time)
{
    return time->tv_sec * 1000000000 + time->tv_nsec;
}

bool reach_time_agrees(const struct nfs_attr *attr, const struct statx *before,
                       const struct statx *after)
{
    int64_t at = (int64_t)attr->ctime.sec * 1000000000 + attr->ctime.nsec;
    return at >= kernel_time(&before->stx_ctime) && at <= kernel_time(&after->stx_ctime);
}

int reach_statx_now(const void *context, const char *path, int flags, struct statx *status)
{
    (void)context;
    return sys_statx(AT_FDCWD, path, flags, STATX_BASIC_STATS, status);
}

static int found(struct reach_finding *finding, enum reach_what what, int error)
{
    finding->what = what;
    finding->error = error;
    return error;
}

int reach_prove_root(const char *path, reach_statx *look, const void *context,
                     const struct nfs_client *client, const struct nfs_fh *root,
                     struct reach_finding *finding)
{
    struct nfs_attr *attr = &finding->attr;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct statx before, after;
        /* What the kernel knows already is mostly true, and it need not ask. */
        int flags = attempt == 0 ? AT_STATX_SYNC_AS_STAT : AT_STATX_FORCE_SYNC;
        int result = look(context, path, flags, &before);
        if (result != 0)
            return found(finding, REACH_KERNEL_FAILED, result);
        result = nfs_getattr(client, root, attr);
        if (result != 0)
            return found(finding, REACH_SERVER_FAILED, result);
        result = look(context, path, flags, &after);
        if (result != 0)
            return found(finding, REACH_KERNEL_FAILED, result);
        finding->seen.fileid = before.stx_ino;
        finding->seen.ctime =
            (struct nfs_time){(uint32_t)before.stx_ctime.tv_sec, before.stx_ctime.tv_nsec};
        if (!S_ISDIR(before.stx_mode) || attr->type != NFS_DIR)
            return found(finding, REACH_NO_DIRECTORY, -EXDEV);
        if (attr->fileid != before.stx_ino)
            return found(finding, REACH_OTHER_FILE, -EXDEV);
        if (reach_time_agrees(attr, &before, &after))
            return found(finding, REACH_SAME, 0);
        if (attempt > 0)
            sys_nanosleep_ms(PAUSE_MS);
    }
    return found(finding, REACH_OTHER_TIME, -EXDEV);
}

/* ---- another path ---- */

static bool time_before(const struct nfs_time *a, const struct nfs_time *b)
{
    return a->sec != b->sec ? a->sec < b->sec : a->nsec < b->nsec;
}

int reach_prove_path(const struct nfs_client *here, const struct nfs_fh *root,
                     reach_root_look *look, void *context, struct reach_finding *finding)
{
    struct nfs_attr *seen = &finding->seen, *attr = &finding->attr;
    uint64_t now = sys_now_ns();
    int looked = look(context, now > FRESH_NS ? now - FRESH_NS : 1, seen);
    int result = nfs_getattr(here, root, attr);
    if (!reach_is_answer(result))
        return found(finding, REACH_SERVER_FAILED, result);
    if (result == -ESTALE && look(context, sys_now_ns(), seen) == -ESTALE)
        return found(finding, REACH_SAME, -EAGAIN); /* the root is about to get another handle */
    if (result != 0) {
        found(finding, REACH_UNKNOWN_HANDLE, result);
        return -EXDEV;
    }
    if (attr->type != NFS_DIR || attr->fileid != seen->fileid || attr->fsid != seen->fsid)
        return found(finding, REACH_OTHER_FILE, -EXDEV);
    bool later = looked == 0 && time_before(&seen->ctime, &attr->ctime);
    if (later)
        looked = look(context, sys_now_ns(), seen);
    if (later && looked == 0 ? time_before(&seen->ctime, &attr->ctime)
                             : time_before(&attr->ctime, &seen->ctime))
        return found(finding, REACH_OTHER_TIME, looked == 0 ? -EXDEV : -EAGAIN);
    return found(finding, REACH_SAME, 0);
}
