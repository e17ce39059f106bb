/* Start and end of the process; flags of descriptors. */
#include "file/inode.h"
#include "host/stats.h"
#include "sys/critical.h"

static bool enabled;

void file_start(void)
{
    file_mounts_load();
    enabled = file_mount_count() > 0;
}

bool file_enabled(void)
{
    return enabled;
}

bool file_allows_raw_io_uring(void)
{
    return file_tunables.raw_io_uring == CONF_RAW_IO_URING_KERNEL;
}

void file_finish(void)
{
    sys_critical_enter();
    atomic_store(&file_finishing, true);
    file_commit_all();
    host_stats_finish();
    sys_critical_leave();
}

void file_locked(struct file_open *open)
{
    atomic_store(&open->inode->opened_ns, sys_now_ns());
}

int file_set_flags(struct file_open *open, int fd, int flags)
{
    (void)fd;
    if (!(flags & O_APPEND))
        return 0;
    int result = file_inode_demote(open->inode, open->auth, "O_APPEND");
    return result != 0 ? result : FILE_KERNEL;
}

int file_kernel_flags(int fd, int flags)
{
    struct stat status;
    int now = sys_fcntl(fd, F_GETFL, 0);
    if (now < 0 || !(now & O_DIRECT) || sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !file_mount_is_nfs(status.st_dev))
        return flags;
    return flags | O_DIRECT;
}
