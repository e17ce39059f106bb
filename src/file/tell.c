/* What the kernel's client is asked to do, so that it learns what was written: see pages.h. */
#include <sys/sysmacros.h>

#include "file/flags.h"
#include "mount/mount.h"
#include "file/pages.h"
#include "ledger/store/hold.h"
#include "sys/sys.h"

pthread_mutex_t file_tell_lock = PTHREAD_MUTEX_INITIALIZER;

void file_tell_drop(int fd)
{
    sys_call4(SYS_fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED);
}

/*
 * POSIX_FADV_DONTNEED leaves pages that somebody has mapped. Linux's client unmaps them when direct
 * I/O of a file begins after I/O through the cache (fs/nfs/io.c). So both begin here, and do
 * nothing: await_readers() writes no bytes through the cache, and a direct read into no memory
 * fails before anything is sent. It may wait for processes that read the file, so no lock is held
 * then.
 */
enum direct { DIRECT_NOT, DIRECT_WAS, DIRECT_SET };

/* Under file_flags_lock(). O_APPEND beside O_DIRECT is refused. */
static enum direct set_direct(int fd)
{
    int flags = sys_fcntl(fd, F_GETFL, 0);
    if (flags < 0 || flags & O_APPEND || (flags & O_ACCMODE) == O_WRONLY)
        return DIRECT_NOT;
    if (flags & O_DIRECT)
        return DIRECT_WAS;
    return sys_fcntl(fd, F_SETFL, flags | O_DIRECT) == 0 ? DIRECT_SET : DIRECT_NOT;
}

static void clear_direct(int fd)
{
    sys_fcntl(fd, F_SETFL, sys_fcntl(fd, F_GETFL, 0) & ~O_DIRECT);
}

/* A function of its own: valgrind is told by its name that this is no error, and a test stops here.
 */
__attribute__((noinline)) void file_tell_begin_direct(int fd)
{
    sys_pread(fd, NULL, 1, 0);
}

static void unmap_pages(struct file_open *open, int fd)
{
    bool shared = file_flags_lock(open);
    enum direct direct = set_direct(fd);
    file_flags_unlock(open, shared);
    if (direct != DIRECT_NOT)
        file_tell_begin_direct(fd);
    if (direct != DIRECT_SET)
        return;
    shared = file_flags_lock(open);
    clear_direct(fd);
    file_flags_unlock(open, shared);
}

/* For the thread: is the descriptor still that of the caller, which waits? Under `file_tell_lock`.
 */
static bool is_awaited(const struct mount_teller *teller)
{
    return (int32_t)(teller->given_up - teller->first) <= 0;
}

/* Clears it by whichever descriptor the open file has: the one it had may be another file's by now.
 */
static void clear_direct_of(const struct file_open *open)
{
    pthread_mutex_lock(&file_lock);
    int limit = file_table_limit(), fd = 0;
    while (fd < limit && atomic_load(&file_table[fd]) != open)
        fd++;
    if (fd < limit)
        clear_direct(fd);
    pthread_mutex_unlock(&file_lock);
}

/* As unmap_pages(), by the thread. The caller that waits for it may give up, and close the
 * descriptor. */
static void unmap_pages_of(const struct mount_teller *teller, const struct mount_told *told)
{
    bool shared = file_flags_lock(told->open);
    pthread_mutex_lock(&file_tell_lock);
    enum direct direct = is_awaited(teller) ? set_direct(told->fd) : DIRECT_NOT;
    pthread_mutex_unlock(&file_tell_lock);
    file_flags_unlock(told->open, shared);
    if (direct != DIRECT_NOT)
        file_tell_begin_direct(told->fd);
    if (direct != DIRECT_SET)
        return;
    shared = file_flags_lock(told->open);
    pthread_mutex_lock(&file_tell_lock);
    bool awaited = is_awaited(teller);
    if (awaited)
        clear_direct(told->fd);
    pthread_mutex_unlock(&file_tell_lock);
    if (!awaited)
        clear_direct_of(told->open);
    file_flags_unlock(told->open, shared);
}

/*
 * POSIX_FADV_DONTNEED also leaves pages that are locked, as a READ of them is under way; its answer
 * may be from before the WRITE. A write of no bytes takes the inode's lock alone
 * (nfs_start_io_write()), so it waits for all readers. What comes after it does not wait.
 */
static void await_readers(int fd)
{
    char none = 0;
    sys_pread(fd, &none, 0, 0); /* the kernel may ask the server */
    sys_call4(SYS_pwrite64, fd, &none, 0, 0);
}

void file_tell_pages(const struct mount_teller *teller, const struct mount_told *told)
{
    if (told->fd < 0)
        return;
    await_readers(told->fd);
    unmap_pages_of(teller, told);
    file_tell_drop(told->fd);
}

static int look_at(struct file_inode *inode, int fd, int sync, struct statx *seen)
{
    if (fd >= 0)
        return sys_statx(fd, "", AT_EMPTY_PATH | sync, STATX_BASIC_STATS, seen);
    return sys_statx(AT_FDCWD, inode->path, sync, STATX_BASIC_STATS, seen);
}

bool file_tell_is_known(struct file_inode *inode, int fd, bool times)
{
    struct ledger_attributes known;
    struct statx seen;
    uint64_t verified_ns;
    return ledger_file_attributes(&inode->entry, &known, &verified_ns) &&
           look_at(inode, fd, AT_STATX_DONT_SYNC, &seen) == 0 && seen.stx_size == known.size &&
           (!times || (seen.stx_mtime.tv_sec == known.mtime.tv_sec &&
                       seen.stx_mtime.tv_nsec == known.mtime.tv_nsec));
}

/* Is it still a descriptor of the inode? The number may be another file's by now, and that file's
 * server may be away. */
static bool is_descriptor_of(const struct file_inode *inode, int fd)
{
    struct statx seen;
    return sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &seen) == 0 &&
           seen.stx_ino == inode->inode &&
           makedev(seen.stx_dev_major, seen.stx_dev_minor) == inode->device;
}

void file_tell_attributes(struct file_inode *inode, int fd)
{
    struct statx seen;
    if (fd < 0 || is_descriptor_of(inode, fd))
        look_at(inode, fd, AT_STATX_FORCE_SYNC, &seen);
}

/* ---- without the thread ---- */

int file_pages_sending(const struct file_inode *inode)
{
    int fd = inode && inode->mount->kernel_nfs ? file_inode_descriptor(inode) : -1;
    if (fd >= 0)
        file_tell_drop(fd);
    return fd;
}

void file_pages_sent(int fd)
{
    if (fd >= 0)
        file_tell_drop(fd);
}

void file_pages_fresh(const struct mount *mount, struct file_open *open, int fd)
{
    struct statx status;
    if (!mount->kernel_nfs)
        return;
    await_readers(fd);
    unmap_pages(open, fd);
    file_tell_drop(fd);
    /* The kernel learns the size: else a map would end where the file ended before. */
    sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &status);
}
