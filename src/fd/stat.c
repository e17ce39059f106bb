/* What the program is told of size and times. */
#include <sys/sysmacros.h>

#include "durable/commit.h"
#include "file/flags.h"
#include "durable/flush.h"
#include "file/attributes.h"
#include "file/inode.h"
#include "io/io.h"
#include "fd/stat.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "mount/credentials.h"
#include "mount/mounts.h"
#include "mount/registry.h"
#include "stats/count.h"
#include "sys/sys.h"

int fd_attributes_of(struct file_open *open, bool times, struct ledger_attributes *attributes)
{
    if (!file_inode_enter(open->inode))
        return FILE_KERNEL;
    int result = times ? durable_flush_range(open->inode, open->auth, 0, UINT64_MAX) : 0;
    if (result == 0)
        result = file_inode_attributes(open->inode, open->auth, attributes);
    if (result == 0)
        stats_set(&open->stats->size, attributes->size);
    return (int)file_finish_call(open, result);
}

off_t fd_lseek(struct file_open *open, int fd, off_t offset, int whence)
{
    file_offset_repay(open, fd);
    if (whence != SEEK_END && whence != SEEK_DATA && whence != SEEK_HOLE)
        return FILE_KERNEL; /* the offset is the kernel's */
    struct ledger_attributes attributes;
    int result = fd_attributes_of(open, false, &attributes);
    if (result != 0)
        return result;
    if (!file_open_is_at(open, fd))
        return FILE_KERNEL;
    off_t size = (off_t)attributes.size;
    if (whence == SEEK_END) {
        if (__builtin_add_overflow(size, offset, &offset))
            return -EINVAL;
        return sys_lseek(fd, offset, SEEK_SET);
    }
    if (offset < 0 || offset >= size)
        return -ENXIO;
    /* NFSv3 tells nothing of holes: all is data, up to the hole with which every file ends. */
    return sys_lseek(fd, whence == SEEK_DATA ? offset : size, SEEK_SET);
}

static void overlay_times(struct stat *status, const struct ledger_attributes *attributes)
{
    status->st_blocks = (blkcnt_t)((attributes->used + 511) / 512);
    status->st_mtim = attributes->mtime;
    status->st_ctim = attributes->ctime;
}

int fd_stat(struct file_open *open, int fd, struct stat *status)
{
    (void)fd;
    struct ledger_attributes attributes;
    int result = fd_attributes_of(open, true, &attributes);
    if (result != 0)
        return result;
    status->st_size = (off_t)attributes.size;
    /* utimensat() and fchmod() are the kernel's: the later change time wins. */
    if (ledger_nanoseconds(&attributes.ctime) >= ledger_nanoseconds(&status->st_ctim))
        overlay_times(status, &attributes);
    return 0;
}

bool fd_kernel_is_silent(const struct file_open *open)
{
    const struct mount_teller *teller = &open->inode->mount->teller;
    return atomic_load_explicit(&teller->silent, memory_order_relaxed) ||
           atomic_load_explicit(&teller->asking, memory_order_relaxed) > 0;
}

static struct timespec time_of(const struct statx_timestamp *time)
{
    return (struct timespec){.tv_sec = time->tv_sec, .tv_nsec = time->tv_nsec};
}

int fd_stat_by_kernel(const struct file_open *open, int fd, struct stat *status)
{
    struct statx told;
    if (!fd_kernel_is_silent(open))
        return sys_fstat(fd, status);
    int result = sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &told);
    if (result != 0)
        return result;
    *status = (struct stat){.st_dev = makedev(told.stx_dev_major, told.stx_dev_minor),
                            .st_ino = told.stx_ino,
                            .st_mode = told.stx_mode,
                            .st_nlink = told.stx_nlink,
                            .st_uid = told.stx_uid,
                            .st_gid = told.stx_gid,
                            .st_rdev = makedev(told.stx_rdev_major, told.stx_rdev_minor),
                            .st_size = (off_t)told.stx_size,
                            .st_blksize = (blksize_t)told.stx_blksize,
                            .st_blocks = (blkcnt_t)told.stx_blocks,
                            .st_atim = time_of(&told.stx_atime),
                            .st_mtim = time_of(&told.stx_mtime),
                            .st_ctim = time_of(&told.stx_ctime)};
    return 0;
}

int fd_stat_in_silence(struct file_open *open, int fd, struct stat *status)
{
    if (!fd_kernel_is_silent(open))
        return FILE_KERNEL;
    int result = fd_stat_by_kernel(open, fd, status);
    return result != 0 ? result : fd_stat(open, fd, status);
}

/* Two states of a file may have the same change time, as a server's clock stands still for some
 * milliseconds. If this process has the file open, the server is asked. Else the kernel, which
 * caches, is taken to have the older state. */
static void break_tie(dev_t device, uint64_t number, struct ledger_attributes *attributes)
{
    struct ledger_attributes asked;
    struct file_inode *inode = file_inode_next(device, number, NULL);
    const struct rpc_auth *auth = inode ? mount_auth_now(inode->mount) : NULL;
    if (auth && file_inode_enter(inode)) {
        if (file_inode_ask(inode, auth, &asked) == 0)
            *attributes = asked;
        file_inode_leave(inode);
    }
    if (inode)
        file_inode_release(inode);
}

/* What the kernel shows of a file by its name. That may be from before this host wrote: the later
 * change time wins. */
struct shown {
    dev_t device;
    uint64_t inode, size;
    int64_t ctime; /* nanoseconds */
};

static bool known_better(const struct shown *shown, struct ledger_attributes *attributes)
{
    if (!ledger_file_peek(shown->device, shown->inode, attributes))
        return false;
    int64_t known = ledger_nanoseconds(&attributes->ctime);
    if (known != shown->ctime)
        return known > shown->ctime;
    if (!mount_is_nfs_device(shown->device))
        return false;
    if (attributes->size != shown->size)
        break_tie(shown->device, shown->inode, attributes);
    return true;
}

static bool is_served(dev_t device, uint64_t number)
{
    struct file_inode *inode = file_inode_next(device, number, NULL);
    bool served = inode && file_inode_descriptors(inode) > 0;
    if (inode)
        file_inode_release(inode);
    return served;
}

/* Sends what was written to the file. Others may have written it, though this process has used no
 * file of ours yet. *number: what the host knows by this number afterwards. False: this process
 * cannot send that, and reads the file through the kernel, which does not have it: so the kernel
 * tells the size. */
static bool flush_for_stat(dev_t device, uint64_t inode, struct ledger_number *number)
{
    if (!ledger_registry_ready() && ledger_registry_exists())
        (void)mount_registry_open();
    ledger_number_look(device, inode, number);
    if (!number->dirty)
        return true;
    bool flushed = durable_flush_number(device, inode) == 0 || is_served(device, inode);
    ledger_number_look(device, inode, number);
    return flushed;
}

/* The number is shared: it may be, or have been, another file's, too. Then only the kernel knows
 * which file has the name, and what it has cached may be older than what the server has by now.
 * True: the kernel has asked the server anew. */
static bool refresh_shared(dev_t device, int dirfd, const char *path, int flags, unsigned mask,
                           struct statx *told)
{
    flags = (flags & ~AT_STATX_SYNC_TYPE) | AT_STATX_FORCE_SYNC;
    return mount_is_nfs_device(device) && sys_statx(dirfd, path, flags, mask, told) == 0;
}

void fd_stat_path(int dirfd, const char *path, int flags, struct stat *status)
{
    struct ledger_attributes attributes;
    struct ledger_number number;
    struct statx told;
    struct stat again;
    const struct shown shown = {status->st_dev, status->st_ino, (uint64_t)status->st_size,
                                ledger_nanoseconds(&status->st_ctim)};
    if (!S_ISREG(status->st_mode) || !mount_has_device(status->st_dev))
        return;
    bool flushed = flush_for_stat(status->st_dev, status->st_ino, &number);
    if (number.shared &&
        refresh_shared(status->st_dev, dirfd, path, flags, STATX_BASIC_STATS, &told) &&
        sys_fstatat(dirfd, path, &again, flags) == 0)
        *status = again;
    if (!flushed || !number.known || number.shared || !known_better(&shown, &attributes))
        return;
    status->st_size = (off_t)attributes.size;
    overlay_times(status, &attributes);
}

void fd_statx_path(int dirfd, const char *path, int flags, struct statx *status)
{
    struct ledger_attributes attributes;
    struct ledger_number number;
    struct statx told;
    dev_t device = makedev(status->stx_dev_major, status->stx_dev_minor);
    const struct shown shown = {device, status->stx_ino, status->stx_size,
                                ledger_nanoseconds(&(struct timespec){status->stx_ctime.tv_sec,
                                                                      status->stx_ctime.tv_nsec})};
    if (!S_ISREG(status->stx_mode) || !mount_has_device(device))
        return;
    bool flushed = flush_for_stat(device, status->stx_ino, &number);
    if (number.shared && refresh_shared(device, dirfd, path, flags, status->stx_mask, &told))
        *status = told;
    if (!flushed || !number.known || number.shared || !known_better(&shown, &attributes))
        return;
    status->stx_size = attributes.size;
    status->stx_blocks = (attributes.used + 511) / 512;
    status->stx_mtime.tv_sec = attributes.mtime.tv_sec;
    status->stx_mtime.tv_nsec = (uint32_t)attributes.mtime.tv_nsec;
    status->stx_ctime.tv_sec = attributes.ctime.tv_sec;
    status->stx_ctime.tv_nsec = (uint32_t)attributes.ctime.tv_nsec;
}

bool fd_on_mount(dev_t device)
{
    return mount_has_device(device);
}
