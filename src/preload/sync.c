/* Flushing. */
#include "durable/flush.h"
#include "durable/fsync.h"
#include "durable/sync.h"
#include "fd/stat.h"
#include "preload/preload.h"

PRELOAD_SLOW static int managed_fsync(int fd)
{
    pthread_testcancel();
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    int result = durable_fsync(open, fd);
    preload_leave(open);
    return (int)preload_result(result);
}

int preload_sync_others(int fd)
{
    if (!preload_active())
        return 0;
    struct preload_stay stay = preload_stay_begin();
    int result = durable_fsynced_by_kernel(fd);
    preload_stay_end(stay);
    return (int)preload_result(result);
}

static int flush(int fd, int (*by_kernel)(int fd))
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed_fsync(fd));
    int result = by_kernel(fd);
    return result == 0 ? preload_sync_others(fd) : result;
}

PRELOAD_EXPORT int fsync(int fd)
{
    return flush(fd, PRELOAD_REAL(fsync));
}

PRELOAD_EXPORT int fdatasync(int fd)
{
    return flush(fd, PRELOAD_REAL(fdatasync));
}

PRELOAD_SLOW static void write_range(int fd, off_t offset, off_t length, unsigned flags)
{
    struct file_open *open = preload_enter(fd);
    if (!open)
        return;
    durable_write_out(open, offset, length,
                      flags & (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER));
    preload_leave(open);
}

/* A hint that vouches for nothing: sync_file_range(2), WARNING. If it failed where the kernel does
 * not, PostgreSQL would panic and RocksDB abort. */
PRELOAD_EXPORT int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags)
{
    const unsigned known =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (preload_managed(fd)) {
        bool valid =
            !(flags & ~known) && offset >= 0 && length >= 0 && length <= INT64_MAX - offset;
        if (valid)
            write_range(fd, offset, length, flags);
        return valid ? 0 : preload_fail(EINVAL);
    }
    return PRELOAD_REAL(sync_file_range)(fd, offset, length, flags);
}

static int sync_all(void)
{
    struct preload_stay stay = preload_stay_begin();
    int result = durable_sync_all();
    preload_stay_end(stay);
    return (int)preload_result(result);
}

PRELOAD_EXPORT void sync(void)
{
    PRELOAD_REAL(sync)();
    if (preload_active())
        (void)sync_all();
}

PRELOAD_EXPORT int syncfs(int fd)
{
    struct stat status;
    int result = PRELOAD_REAL(syncfs)(fd);
    if (result == 0 && preload_active() && sys_fstat(fd, &status) == 0 &&
        fd_on_mount(status.st_dev))
        result = sync_all();
    return result;
}
