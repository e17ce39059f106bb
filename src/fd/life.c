/* Start and end of the process; what the configuration allows; locks. */
#include "durable/agent.h"
#include "durable/flush.h"
#include "durable/sync.h"
#include "fd/life.h"
#include "file/flags.h"
#include "durable/commit.h"
#include "file/inode.h"
#include "file/limits.h"
#include "file/table.h"
#include "io/io.h"
#include "mount/contact.h"
#include "mount/lease.h"
#include "mount/mount.h"
#include "ledger/cache.h"
#include "ledger/stamp.h"
#include "ledger/world.h"
#include "mount/places.h"
#include "stats/count.h"
#include "sys/critical.h"

static bool enabled;

void fd_start(void)
{
    durable_agent_prepare();
    file_size_limit_learn();
    mounts_when_ready(durable_commit_orphans);
    mounts_load();
    enabled = mounts_configured();
}

bool fd_enabled(void)
{
    return enabled;
}

bool fd_allows_raw_io_uring(void)
{
    return mount_tunables.raw_io_uring == CONF_RAW_IO_URING_KERNEL;
}

bool fd_allows_raw_calls(void)
{
    return mount_tunables.raw_calls == CONF_RAW_CALLS_SERVE;
}

void fd_finish(void)
{
    sys_critical_enter();
    atomic_store(&durable_finishing, true);
    durable_commit_all();
    mounts_end_sessions();
    stats_finish();
    sys_critical_leave();
}

void fd_locking(int fd)
{
    struct file_open *open = file_get(fd);
    if (!open)
        return;
    file_offset_repay(open, fd);
    durable_write_out(open, 0, 0, true);
    file_put(open);
}

void fd_locked(struct file_open *open)
{
    file_inode_opened_at(open->inode, sys_now_ns());
    atomic_store(&open->inode->locked, true);
    ledger_file_refresh(&open->inode->entry);
    ledger_cache_forget(&open->inode->entry);
}

bool fd_is_locked(dev_t device, ino_t number)
{
    struct file_inode *inode = NULL;
    bool locked = false;
    while ((inode = file_inode_next(device, number, inode)))
        locked = locked || atomic_load(&inode->locked);
    return locked;
}

bool fd_is_left_to_kernel(dev_t device, ino_t number)
{
    return ledger_world_reason(device, number) != NULL;
}
