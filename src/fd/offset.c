/* Reading and writing at the kernel's offset. */
#include <sys/syscall.h>

#include "fd/offset.h"
#include "io/append.h"
#include "file/flags.h"
#include "file/inode.h"
#include "io/io.h"
#include "ahead/buffered.h"
#include "io/write.h"
#include "sys/sys.h"

/*
 * The kernel's offset is moved first, in one atomic step. So others that share it (threads, and
 * processes after fork) get the next range; what was not used is given back. But where a read may
 * meet the end of the file, the next range begins where it met it. Until then others wait, as they
 * do in the kernel for each read.
 */
struct moved {
    off_t offset; /* before it was moved */
    enum file_offset_lock lock;
    bool after; /* the offset is moved after the transfer, and the lock is held until then */
};

static int move_offset(struct file_open *open, int fd, ssize_t length, bool reads,
                       struct moved *moved)
{
    moved->lock = file_offset_lock(open);
    off_t end = sys_lseek(fd, length, SEEK_CUR);
    int result = end >= 0 ? 0 : (int)end;
    if (end == -EOVERFLOW || end == -EINVAL) /* beyond what a file can have, here or at all */
        result = sys_lseek(fd, 0, SEEK_CUR) > INT64_MAX - length ? -EINVAL : -EFBIG;
    if (result == 0 && !file_open_is_at(open, fd))
        result = FILE_KERNEL;
    moved->offset = end - length;
    moved->after =
        result == 0 && reads && (uint64_t)end > ledger_file_least_size(&open->inode->entry);
    if (result == FILE_KERNEL || moved->after)
        sys_lseek(fd, -length, SEEK_CUR);
    if (!moved->after)
        file_offset_unlock(open, moved->lock);
    return result;
}

/* Gives back what the call did not use, unless others have taken the range after it: they wrote
 * there. */
static void give_back(struct file_open *open, int fd, off_t end, ssize_t unused)
{
    enum file_offset_lock lock = file_offset_lock(open);
    if (file_open_is_at(open, fd) && sys_lseek(fd, 0, SEEK_CUR) == end)
        sys_lseek(fd, end - unused, SEEK_SET);
    file_offset_unlock(open, lock);
}

/* The kernel's call, as the file was handed over meanwhile. The range stays this call's, as others
 * have the next. */
static ssize_t by_kernel(int fd, const struct iovec *vectors, int count, off_t offset, int flags,
                         bool reads)
{
    ssize_t done;
    do
        done = sys_call6(reads ? SYS_preadv2 : SYS_pwritev2, fd, (long)vectors, count, offset, 0,
                         flags);
    while (done == -EINTR);
    return done;
}

static ssize_t
at_offset(struct file_open *open, int fd, const struct iovec *vectors, int count, int flags,
          ssize_t (*transfer)(struct file_open *, int, const struct iovec *, int, off_t, int))
{
    struct moved moved;
    bool reads = transfer == ahead_preadv;
    ssize_t length = file_total_length(vectors, count);
    if (length < 0)
        return length;
    file_offset_repay(open, fd);
    int result = move_offset(open, fd, length, reads, &moved);
    if (result != 0)
        return result;
    ssize_t done = transfer(open, fd, vectors, count, moved.offset, flags);
    if (done == FILE_KERNEL && file_open_is_at(open, fd))
        done = by_kernel(fd, vectors, count, moved.offset, flags, reads);
    ssize_t used = done > 0 ? done : 0;
    if (moved.after) {
        if (used > 0 && file_open_is_at(open, fd))
            sys_lseek(fd, used, SEEK_CUR);
        file_offset_unlock(open, moved.lock);
    } else if (used < length) {
        give_back(open, fd, moved.offset + length, length - used);
    }
    return done;
}

ssize_t fd_readv(struct file_open *open, int fd, const struct iovec *vectors, int count, int flags)
{
    return at_offset(open, fd, vectors, count, flags, ahead_preadv);
}

ssize_t fd_writev(struct file_open *open, int fd, const struct iovec *vectors, int count, int flags)
{
    if (file_appends(open, fd, flags))
        return io_append(open, fd, vectors, count, flags, true);
    return at_offset(open, fd, vectors, count, flags, io_pwritev);
}
