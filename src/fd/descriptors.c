/* The life of descriptors: they come, go and are inherited; what each room must do then. */
#include "durable/behind.h"
#include "async/async.h"
#include "durable/flush.h"
#include "durable/fsync.h"
#include "fd/descriptors.h"
#include "durable/commit.h"
#include "ahead/fetched.h"
#include "file/flags.h"
#include "file/inode.h"
#include "file/table.h"
#include "io/io.h"
#include "file/loss.h"
#include "file/pages.h"
#include "ledger/append.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "mount/places.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/sys.h"

static enum nfs_stable stable_of(int flags)
{
    if (mount_tunables.stability == CONF_STABILITY_STABLE || (flags & O_SYNC) == O_SYNC)
        return NFS_FILE_SYNC;
    return flags & O_DSYNC ? NFS_DATA_SYNC : NFS_UNSTABLE;
}

int fd_descriptor_enter(int fd, struct file_inode *inode, const struct rpc_auth *auth, int flags)
{
    struct ledger_attributes attributes = {0};
    uint64_t verified;
    ledger_file_attributes(&inode->entry, &attributes, &verified);
    struct directnfs_file_stats *stats = stats_file(inode->path, inode->mount->stats_id,
                                                    attributes.size, DIRECTNFS_FILE_DIRECT, NULL);
    stats_file_is(stats, inode->device, inode->inode);
    durable_behind_prepare(inode->mount, flags & O_ACCMODE, flags);
    pthread_mutex_lock(&file_lock);
    struct file_open *open = file_open_take();
    struct file_open *old = NULL;
    if (open) {
        open->inode = inode;
        open->auth = auth;
        open->access = flags & O_ACCMODE;
        open->stable = stable_of(flags);
        open->stats = stats;
        file_flags_open(open, flags);
        ahead_open(open, flags);
        atomic_store(&open->behind, durable_behind_allows(open->access, flags));
        atomic_store(&open->left, false);
        file_seen_open(open);
        atomic_store(&open->references, 1);
        old = file_table_set(fd, open);
    }
    pthread_mutex_unlock(&file_lock);
    if (old) /* the program closed a descriptor without our notice */
        file_put(old);
    return open ? 0 : -ENOMEM;
}

int fd_closing(int fd)
{
    if (!file_is_managed(fd))
        return 0;
    pthread_mutex_lock(&file_lock);
    struct file_open *open = file_table_set(fd, NULL);
    bool last = open && open->inode->descriptors == 0;
    if (last)
        open->inode->closing = fd;
    pthread_mutex_unlock(&file_lock);
    if (!open)
        return 0;
    int result = 0;
    bool left = atomic_exchange_explicit(&open->left, false, memory_order_relaxed);
    if (last || left)
        result = durable_commit_closing(open);
    else if (atomic_load_explicit(&open->inode->locked, memory_order_relaxed))
        durable_write_out(open, 0, 0,
                          true); /* each close ends the process's locks: fcntl_locking(2) */
    /* As after the kernel's close, a program that opens the file now sees what was written. */
    bool old = open->access != O_RDONLY &&
               atomic_exchange_explicit(&open->inode->pages_old, false, memory_order_relaxed);
    if (old ||
        ((last || left) && atomic_load_explicit(&open->inode->written, memory_order_relaxed)))
        file_pages_drop_closing(open, fd);
    if (last) {
        pthread_mutex_lock(&file_lock);
        open->inode->closing = 0;
        pthread_mutex_unlock(&file_lock);
    }
    file_put(open);
    /* Nobody can read the data of a removed file. */
    return result == -ESTALE ? 0 : (int)file_posix_error(result);
}

/* ---- flags ---- */

void fd_flags_begin(struct fd_flags_change *change, int fd, int flags)
{
    file_offset_show(fd);
    struct file_open *open = file_get(fd);
    change->open = open;
    change->shared = file_flags_lock(open);
    int now = sys_fcntl(fd, F_GETFL, 0);
    if (open && now >= 0 && (now ^ flags) & O_DIRECT) {
        ahead_allow(open, flags);
        atomic_store(&open->behind, durable_behind_allows(open->access, flags));
    }
    change->appends = now >= 0 && (now ^ flags) & O_APPEND;
    if (change->appends)
        ledger_append_changed();
}

void fd_flags_end(struct fd_flags_change *change)
{
    if (change->appends)
        ledger_append_changed();
    file_flags_unlock(change->open, change->shared);
    if (change->open)
        file_put(change->open);
}

/* ---- fork ---- */

void fd_fork_prepare(void)
{
    sys_critical_enter();
    file_shared_all();
    file_pages_settle();
    mounts_fork_prepare();
    pthread_mutex_lock(&file_lock);
    file_seen_fork_prepare(file_table_limit());
    durable_behind_fork_prepare();
    sys_alloc_fork_prepare();
}

void fd_fork_parent(void)
{
    sys_alloc_fork_done();
    durable_behind_fork_parent();
    pthread_mutex_unlock(&file_lock);
    mounts_fork_parent();
    sys_critical_leave();
}

void fd_fork_child(void)
{
    sys_alloc_fork_done();
    file_table_after_fork();
    file_seen_fork_child();
    durable_behind_fork_parent();
    pthread_mutex_unlock(&file_lock);
    file_flags_lock_child();
    mounts_fork_child();
    async_fork_child();
    ahead_fork_child();
    durable_behind_fork_child();
    file_pages_fork_child();
    ledger_registry_after_fork();
    file_inodes_after_fork();
    stats_after_fork();
    sys_critical_leave();
}
