/* Start and end of the process; locks. */
#include "file/agent.h"
#include "file/flags.h"
#include "file/commit.h"
#include "file/inode.h"
#include "file/io.h"
#include "file/mount.h"
#include "ledger/cache.h"
#include "ledger/stamp.h"
#include "ledger/world.h"
#include "stats/count.h"
#include "sys/critical.h"

static bool enabled;

void file_start(void)
{
    file_agent_prepare();
    file_size_limit_learn();
    file_mounts_when_ready(file_commit_orphans);
    file_mounts_load();
    enabled = file_mounts_configured();
}

bool file_enabled(void)
{
    return enabled;
}

bool file_allows_raw_io_uring(void)
{
    return file_tunables.raw_io_uring == CONF_RAW_IO_URING_KERNEL;
}

bool file_is_any_managed(void)
{
    return file_table_limit() > 0;
}

bool file_allows_raw_calls(void)
{
    return file_tunables.raw_calls == CONF_RAW_CALLS_SERVE;
}

void file_finish(void)
{
    sys_critical_enter();
    atomic_store(&file_finishing, true);
    file_commit_all();
    file_mounts_end_sessions();
    stats_finish();
    sys_critical_leave();
}

void file_locking(int fd)
{
    struct file_open *open = file_get(fd);
    if (!open)
        return;
    file_offset_repay(open, fd);
    file_write_out(open, 0, 0, true);
    file_put(open);
}

void file_locked(struct file_open *open)
{
    file_inode_opened_at(open->inode, sys_now_ns());
    atomic_store(&open->inode->locked, true);
    ledger_file_refresh(&open->inode->entry);
    ledger_cache_forget(&open->inode->entry);
}

bool file_is_locked(dev_t device, ino_t number)
{
    struct file_inode *inode = NULL;
    bool locked = false;
    while ((inode = file_inode_next(device, number, inode)))
        locked = locked || atomic_load(&inode->locked);
    return locked;
}

bool file_is_left_to_kernel(dev_t device, ino_t number)
{
    return ledger_world_reason(device, number) != NULL;
}
