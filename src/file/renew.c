/*
 * Stale handles. A server that exports a file system again may give all files new handles: with
 * another export identifier, or after a takeover by another node. The handles from before are then
 * stale, as are those of removed files. Handles are found again by name, from the export's root
 * down, and used only for a file that is proven to be the same.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "file/inode.h"
#include "mount/key.h"
#include "file/loss.h"
#include "mount/mounts.h"
#include "mount/proof.h"
#include "file/renew.h"
#include "mount/root.h"
#include "net/pool.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { PAUSE_MS = 100, RENEWALS_MAX = 4 };

/* How many names the file has, by a descriptor of it. False: it cannot be told. */
static bool links_of(const struct file_inode *inode, int fd, nlink_t *links)
{
    struct stat status;
    if (fd < 0 || sys_fstat(fd, &status) != 0 || status.st_dev != inode->device ||
        status.st_ino != inode->inode)
        return false;
    *links = status.st_nlink;
    return true;
}

/* The path that the file has now, below its mount. False: none is known; it may have been moved out
 * of the mount. */
static bool path_now(const struct file_inode *inode, int fd, char path[PATH_MAX])
{
    return fd >= 0 && mount_path_of(fd, path) && mounts_find(inode->device, path) == inode->mount;
}

/* Proves by what the kernel says of a descriptor. -ESTALE: the kernel cannot tell. */
static int prove_by_kernel(struct file_inode *inode, const struct rpc_auth *auth, int fd,
                           struct nfs_fh *fh, struct nfs_attr *attr)
{
    char path[PATH_MAX];
    struct mount_claim claim = {inode->mount, auth, fd, path};
    nlink_t links;
    if (!links_of(inode, fd, &links) || !path_now(inode, fd, path))
        return -ESTALE;
    if (links == 0)
        return -ENOENT;
    int result = mount_prove(&claim, true, fh, attr);
    return result != 0 || attr->fileid == inode->inode ? result : -EXDEV;
}

/* Proves by the change time that the server told last. */
static int prove_by_memory(struct file_inode *inode, const struct rpc_auth *auth, int fd,
                           struct nfs_fh *fh, struct nfs_attr *attr)
{
    char path[PATH_MAX];
    struct ledger_attributes known;
    uint64_t verified_ns;
    bool named = path_now(inode, fd, path);
    struct mount_claim claim = {inode->mount, auth, fd, named ? path : inode->path};
    if (!ledger_file_attributes(&inode->entry, &known, &verified_ns))
        return -ESTALE;
    return mount_prove_unchanged(&claim, inode->inode, &known.ctime, fh, attr);
}

/* Finds the handle that the file has now. Under mount->contact. */
static int find_again(struct file_inode *inode, const struct rpc_auth *auth, struct nfs_fh *fh,
                      struct nfs_attr *attr)
{
    struct nfs_client client = mount_client(inode->mount, auth);
    for (int i = 0;; i++) {
        int result = mount_root_renew(inode->mount, auth);
        if (result != 0)
            return result;
        int fd = file_inode_descriptor(inode);
        result = prove_by_kernel(inode, auth, fd, fh, attr);
        if (result == -ESTALE)
            result = prove_by_memory(inode, auth, fd, fh, attr);
        /* Or were new handles given once more meanwhile? */
        struct nfs_fh root = mount_root(inode->mount);
        struct nfs_attr unused;
        if (result != -ESTALE || i == RENEWALS_MAX ||
            nfs_getattr(&client, &root, &unused) != -ESTALE)
            return result;
    }
}

static int keep_handle(struct file_inode *inode, const struct nfs_fh *fh,
                       const struct nfs_attr *attr)
{
    struct file_former *former = sys_alloc(sizeof(*former));
    struct ledger_attributes now;
    uint64_t lost;
    if (!former)
        return -ENOMEM;
    struct ledger_file_key key = mount_registry_key(inode->device, inode->inode, inode->mount, fh);
    file_attributes_convert(attr, &now);
    if (!ledger_file_rename(&inode->entry, &key, &now.ctime, &lost)) {
        sys_free(former);
        return -ENOSPC;
    }
    if (lost > 0)
        file_loss_report(inode, lost);
    former->fh = *fh;
    former->next = inode->formers;
    inode->formers = former;
    atomic_store(&inode->fh, &former->fh);
    log_info("%s: found again by name: it has a new file handle", inode->path);
    return 0;
}

static int renew(struct file_inode *inode, const struct rpc_auth *auth)
{
    struct nfs_fh fh;
    struct nfs_attr attr;
    int result = find_again(inode, auth, &fh, &attr);
    if (result == -ENOENT) { /* removed while it is open: that is nobody's fault */
        log_info("%s: its file handle is stale, and the name is gone", inode->path);
        return result;
    }
    if (result != 0) {
        log_warning("%s: its file handle is stale, and by name it is not found again: %s",
                    inode->path, strerrordesc_np(-result));
        return result;
    }
    if (!nfs_same_fh(&fh, atomic_load(&inode->fh)))
        return keep_handle(inode, &fh, &attr);
    sys_nanosleep_ms(PAUSE_MS); /* a server that is just being set up again */
    return 0;
}

bool file_is_removed(struct mount *mount, const struct rpc_auth *auth,
                     const struct ledger_file *entry, const struct file_inode *inode)
{
    nlink_t links;
    struct nfs_client client = mount_client(mount, auth);
    struct nfs_fh none = {.len = 0}, root = mount_root(mount);
    struct nfs_attr attr;
    if (inode && links_of(inode, file_inode_descriptor(inode), &links) && links == 0)
        return true;
    return nfs_getattr(&client, &root, &attr) == 0 &&
           mount_registry_key(0, 0, mount, &none).root == ledger_file_root(entry);
}

bool file_inode_renew(struct file_inode *inode, const struct rpc_auth *auth,
                      struct file_handle_use *use)
{
    struct mount *mount = inode->mount;
    int result = 0;
    if (use->renewals++ == RENEWALS_MAX)
        return false;
    pthread_mutex_lock(&mount->contact);
    if (atomic_load(&inode->fh) == use->fh)
        result = renew(inode, auth);
    pthread_mutex_unlock(&mount->contact);
    use->fh = atomic_load(&inode->fh);
    return result == 0;
}
