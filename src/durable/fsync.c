/* What fsync() and close() tell: is the data safe, or was some of it lost? */
#include "durable/commit.h"
#include "durable/committing.h"
#include "durable/fsync.h"
#include "durable/hinted.h"
#include "durable/sync.h"
#include "file/inode.h"
#include "file/enter.h"
#include "mount/key.h"
#include "file/pages.h"
#include "file/upper.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "mount/registry.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/sys.h"

/* Was data lost? True once for each loss: for each open file, or (NULL) for this process. *error:
 * what fsync says. */
static bool take_loss(struct file_inode *inode, struct file_open *open, int *error)
{
    bool others =
        open ? ledger_file_lost_by(&inode->entry, &open->seen) : ledger_file_lost(&inode->entry);
    bool own = atomic_exchange(&inode->loss_due, false);
    *error = own || !others ? -EIO : -ledger_file_loss_error(&inode->entry);
    return own || others;
}

/* As take_loss(), but an fsync still tells it. A process may close a copy of a descriptor that
 * others go on with, or open the file later to fsync it: it relies on that. */
static bool has_loss(struct file_open *open, int *error)
{
    struct file_inode *inode = open->inode;
    bool others = ledger_file_loses_by(&inode->entry, &open->seen);
    bool own = atomic_load(&inode->loss_due);
    *error = own || !others ? -EIO : -ledger_file_loss_error(&inode->entry);
    return own || others;
}

int durable_commit_closing(struct file_open *open)
{
    struct file_inode *inode = open->inode;
    int loss, result = 0;
    if (durable_owes_commit(inode))
        result = durable_commit(inode, open->auth, NULL);
    if (result != -ESTALE && atomic_load_explicit(&inode->written, memory_order_relaxed) &&
        has_loss(open, &loss))
        result = loss;
    return result;
}

/* fsync of what the kernel wrote of the file, and of what others of this host wrote through the
 * engine. */
static int fsync_by_kernel(int fd)
{
    int result = sys_fsync(fd);
    return result == 0 ? durable_fsynced_by_kernel(fd) : result;
}

int durable_fsync(struct file_open *open, int fd)
{
    struct file_inode *inode = open->inode;
    if (!file_inode_enter(inode))
        return fsync_by_kernel(fd);
    uint64_t waiting = ledger_file_uncommitted(&inode->entry), began_ns = sys_now_ns();
    int result = durable_hinted_is_done(inode) ? 0 : durable_commit(inode, open->auth, NULL);
    int loss = 0;
    if (result == -ESTALE && waiting > 0)
        atomic_store(&inode->loss_due, true);
    /* An fsync that fails tells the loss, too. */
    bool lost = result != -ESTALE && take_loss(inode, open, &loss);
    if (lost)
        result = loss;
    if (result == 0)
        file_pages_drop(open, fd, false);
    file_inode_leave(inode);
    stats_file_synced(open->stats, sys_now_ns() - began_ns);
    bool abroad = net_server_fails_abroad(inode->mount->server->net, result);
    if (result != -ESTALE && !abroad)
        return (int)file_posix_error(result);
    result =
        file_upper.demote(inode, open->auth, abroad ? reach_reason(REACH_ABROAD) : "stale handle");
    if (lost || result == -ENONET) /* take_loss() tells it once */
        return (int)file_posix_error(lost ? loss : result);
    return fsync_by_kernel(fd);
}

/* As take_loss(), for the file that the key names. If it may name several, each one's own fsync
 * tells it as well. */
static bool take_loss_of(const struct ledger_file_key *key)
{
    struct nfs_fh fh = durable_handle_of(key);
    struct file_inode *inode = fh.len ? file_inode_find(key->device, key->inode, &fh)
                                      : file_inode_only(key->device, key->inode);
    int error;
    bool lost = inode && take_loss(inode, NULL, &error);
    if (inode) {
        file_inode_release(inode);
        return lost;
    }
    while (!fh.len && (inode = file_inode_next(key->device, key->inode, inode)))
        lost = lost || atomic_load(&inode->loss_due);
    return lost;
}

int durable_fsynced_by_kernel(int fd)
{
    struct stat status;
    if (sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !mount_has_device(status.st_dev) || mount_registry_open() != 0)
        return 0;
    struct ledger_file_key key = mount_key_of(fd, "", &status);
    bool lost = take_loss_of(&key);
    return lost && status.st_nlink > 0 ? -EIO : durable_commit_named(&key);
}
