/* Size and attributes at memory speed. */
#include <sys/sysmacros.h>

#include "file/append.h"
#include "file/async.h"
#include "file/commit.h"
#include "file/flush.h"
#include "file/getattr.h"
#include "file/inode.h"
#include "file/io.h"
#include "file/pages.h"
#include "file/renew.h"
#include "ledger/hold.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "stats/count.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

enum { ASK_MOST = 3 }; /* while writes of this host keep overtaking the answers */

/* Of what may be so old some milliseconds more do not matter. */
#define ABOUT_NS UINT64_C(500000000)

uint64_t file_fresh_since(struct file_inode *inode)
{
    uint64_t allowed_ns = (uint64_t)(file_tunables.actimeo * 1e9);
    uint64_t now_ns = allowed_ns >= ABOUT_NS ? sys_about_ns() : sys_now_ns();
    uint64_t opened_ns = atomic_load_explicit(&inode->opened_ns, memory_order_relaxed);
    uint64_t since_ns = now_ns > allowed_ns ? now_ns - allowed_ns : 0;
    return since_ns > opened_ns ? since_ns : opened_ns;
}

/* One question. *settled: what was told of the size needs no other. */
static int ask_once(struct file_inode *inode, const struct rpc_auth *auth,
                    struct ledger_attributes *attributes, bool *settled)
{
    uint64_t verified_ns;
    struct nfs_client client = file_mount_client(inode->mount, auth);
    struct nfs_attr attr;
    uint64_t asked_ns = sys_now_ns();
    uint64_t epoch = ledger_file_asking(&inode->entry);
    struct file_handle_use use = file_inode_use(inode);
    int result;
    do
        result = nfs_getattr(&client, use.fh, &attr);
    while (result == -ESTALE && file_inode_renew(inode, auth, &use));
    if (result != 0)
        return result;
    struct ledger_attributes fresh;
    file_attributes_convert(&attr, &fresh);
    ledger_file_learned(&inode->entry, epoch, &fresh, asked_ns);
    *settled = true;
    if (ledger_file_attributes(&inode->entry, attributes, &verified_ns)) {
        *settled = verified_ns >= asked_ns || fresh.size >= attributes->size;
    } else {
        uint64_t least = ledger_file_least_size(&inode->entry);
        *attributes = fresh;
        if (attributes->size < least)
            attributes->size = least;
    }
    return 0;
}

int file_inode_ask(struct file_inode *inode, const struct rpc_auth *auth,
                   struct ledger_attributes *attributes)
{
    bool settled = false;
    int result = 0;
    for (unsigned i = 0; i < ASK_MOST && result == 0 && !settled; i++)
        result = ask_once(inode, auth, attributes, &settled);
    return result;
}

bool file_inode_known(struct file_inode *inode, struct ledger_attributes *attributes)
{
    uint64_t verified;
    return ledger_file_attributes(&inode->entry, attributes, &verified) &&
           verified >= file_fresh_since(inode);
}

int file_inode_attributes(struct file_inode *inode, const struct rpc_auth *auth,
                          struct ledger_attributes *attributes)
{
    return file_inode_known(inode, attributes) ? 0 : file_inode_ask(inode, auth, attributes);
}

/* As between enter and leave; on ESTALE of a removed file the kernel takes over. `times` are told
 * by the server when it has what was written. */
static int attributes_of(struct file_open *open, bool times, struct ledger_attributes *attributes)
{
    if (!file_inode_enter(open->inode))
        return FILE_KERNEL;
    int result = times ? file_flush_range(open->inode, open->auth, 0, UINT64_MAX) : 0;
    if (result == 0)
        result = file_inode_attributes(open->inode, open->auth, attributes);
    if (result == 0)
        stats_set(&open->stats->size, attributes->size);
    return (int)file_finish_call(open, result);
}

off_t file_lseek(struct file_open *open, int fd, off_t offset, int whence)
{
    file_offset_repay(open, fd);
    if (whence != SEEK_END && whence != SEEK_DATA && whence != SEEK_HOLE)
        return FILE_KERNEL; /* the offset is the kernel's */
    struct ledger_attributes attributes;
    int result = attributes_of(open, false, &attributes);
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
    /* NFSv3 tells nothing of holes: all is data, up to the hole that every file ends with. */
    return sys_lseek(fd, whence == SEEK_DATA ? offset : size, SEEK_SET);
}

static void overlay_times(struct stat *status, const struct ledger_attributes *attributes)
{
    status->st_blocks = (blkcnt_t)((attributes->used + 511) / 512);
    status->st_mtim = attributes->mtime;
    status->st_ctim = attributes->ctime;
}

int file_stat(struct file_open *open, int fd, struct stat *status)
{
    (void)fd;
    struct ledger_attributes attributes;
    int result = attributes_of(open, true, &attributes);
    if (result != 0)
        return result;
    status->st_size = (off_t)attributes.size;
    /* utimensat() and fchmod() are the kernel's: the later change time wins. */
    if (ledger_nanoseconds(&attributes.ctime) >= ledger_nanoseconds(&status->st_ctim))
        overlay_times(status, &attributes);
    return 0;
}

bool file_kernel_is_silent(const struct file_open *open)
{
    return atomic_load_explicit(&open->inode->mount->teller.silent, memory_order_relaxed);
}

static struct timespec time_of(const struct statx_timestamp *time)
{
    return (struct timespec){.tv_sec = time->tv_sec, .tv_nsec = time->tv_nsec};
}

int file_stat_by_kernel(const struct file_open *open, int fd, struct stat *status)
{
    struct statx told;
    if (!file_kernel_is_silent(open))
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

int file_stat_in_silence(struct file_open *open, int fd, struct stat *status)
{
    if (!file_kernel_is_silent(open))
        return FILE_KERNEL;
    int result = file_stat_by_kernel(open, fd, status);
    return result != 0 ? result : file_stat(open, fd, status);
}

/* Two states may have the same change time, as the clock of a server stands still for some
 * milliseconds. If this process has the file open, the server is asked; else the state of a
 * kernel that caches is taken for the older one. */
static void break_tie(dev_t device, uint64_t number, struct ledger_attributes *attributes)
{
    struct ledger_attributes asked;
    struct file_inode *inode = file_inode_next(device, number, NULL);
    const struct rpc_auth *auth = inode ? file_auth_now(inode->mount) : NULL;
    if (auth && file_inode_enter(inode)) {
        if (file_inode_ask(inode, auth, &asked) == 0)
            *attributes = asked;
        file_inode_leave(inode);
    }
    if (inode)
        file_inode_release(inode);
}

/* What the kernel shows of a file by its name. It may have cached what was true before this host
 * wrote; the later change time wins. */
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
    if (!file_mount_is_nfs(shown->device))
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

/* Others may have written it, though this process used no file of ours yet. False: it cannot send
 * that, and reads the file by the kernel, which does not have it: so the kernel tells the size. */
static bool flush_for_stat(dev_t device, uint64_t number)
{
    if (!ledger_registry_ready() && ledger_registry_exists())
        (void)file_registry_open();
    return file_flush_number(device, number) == 0 || is_served(device, number);
}

/* The number was another file's, which is gone, or is another file's, too: then only the kernel
 * knows which file has the name. What it has cached may be older than what the server has by now.
 * True if it was told anew. */
static bool refresh_shared(dev_t device, uint64_t number, int dirfd, const char *path, int flags,
                           unsigned mask, struct statx *told)
{
    flags = (flags & ~AT_STATX_SYNC_TYPE) | AT_STATX_FORCE_SYNC;
    return ledger_number_is_shared(device, number) && file_mount_is_nfs(device) &&
           sys_statx(dirfd, path, flags, mask, told) == 0;
}

void file_stat_path(int dirfd, const char *path, int flags, struct stat *status)
{
    struct ledger_attributes attributes;
    struct statx told;
    struct stat again;
    const struct shown shown = {status->st_dev, status->st_ino, (uint64_t)status->st_size,
                                ledger_nanoseconds(&status->st_ctim)};
    if (!S_ISREG(status->st_mode) || !file_mount_has_device(status->st_dev))
        return;
    bool flushed = flush_for_stat(status->st_dev, status->st_ino);
    if (refresh_shared(status->st_dev, status->st_ino, dirfd, path, flags, STATX_BASIC_STATS,
                       &told) &&
        sys_fstatat(dirfd, path, &again, flags) == 0)
        *status = again;
    if (!flushed || !known_better(&shown, &attributes))
        return;
    status->st_size = (off_t)attributes.size;
    overlay_times(status, &attributes);
}

void file_statx_path(int dirfd, const char *path, int flags, struct statx *status)
{
    struct ledger_attributes attributes;
    struct statx told;
    dev_t device = makedev(status->stx_dev_major, status->stx_dev_minor);
    const struct shown shown = {device, status->stx_ino, status->stx_size,
                                ledger_nanoseconds(&(struct timespec){status->stx_ctime.tv_sec,
                                                                      status->stx_ctime.tv_nsec})};
    if (!S_ISREG(status->stx_mode) || !file_mount_has_device(device))
        return;
    bool flushed = flush_for_stat(device, status->stx_ino);
    if (refresh_shared(device, status->stx_ino, dirfd, path, flags, status->stx_mask, &told))
        *status = told;
    if (!flushed || !known_better(&shown, &attributes))
        return;
    status->stx_size = attributes.size;
    status->stx_blocks = (attributes.used + 511) / 512;
    status->stx_mtime.tv_sec = attributes.mtime.tv_sec;
    status->stx_mtime.tv_nsec = (uint32_t)attributes.mtime.tv_nsec;
    status->stx_ctime.tv_sec = attributes.ctime.tv_sec;
    status->stx_ctime.tv_nsec = (uint32_t)attributes.ctime.tv_nsec;
}

void file_attributes_changing(dev_t device, ino_t number)
{
    /* Others may have written it, though this process used no file of ours yet. */
    struct ledger_file_key key = {.device = device, .inode = number};
    if (!file_mount_has_device(device) || !ledger_registry_exists() || file_registry_open() != 0)
        return;
    (void)file_flush_number(device, number);
    /* A later time of change looks like somebody else's: what the server lost then would be given
     * up (rewrite.c). So nothing is left to be lost, as with the kernel's NFS client. */
    (void)file_commit_named(&key);
}

void file_truncating(int dirfd, const char *path)
{
    struct stat status;
    bool none = ledger_registry_ready() && ledger_uncommitted() == 0;
    if (!none && !sys_test_unsafe(SYS_TEST_CUTS) &&
        sys_fstatat(dirfd, path, &status, AT_EMPTY_PATH) == 0 && S_ISREG(status.st_mode))
        file_attributes_changing(status.st_dev, status.st_ino);
}

bool file_on_mount(dev_t device)
{
    return file_mount_has_device(device);
}

/* ---- changes of size ---- */

/*
 * Before the server is asked for the change: what a cut takes away is on its disk. If this process
 * is killed before the answer, nobody can tell what must come back, and now nothing has to: the
 * file is as it was, or cut. The kernel's NFS client does the same (nfs_setattr()). An error is no
 * matter: what the server refuses here would be cut off.
 */
static void settle_beyond(struct file_open *open, uint64_t size)
{
    if (ledger_file_uncommitted_beyond(&open->inode->entry, size) &&
        !sys_test_unsafe(SYS_TEST_CUTS))
        (void)file_inode_commit(open->inode, open->auth, NULL);
}

static int set_size(struct file_open *open, uint64_t size)
{
    struct file_inode *inode = open->inode;
    struct nfs_client client = file_mount_client(inode->mount, open->auth);
    struct nfs_sattr sattr = {.set_size = true, .size = size};
    struct nfs_wcc wcc;
    file_async_attend_all(); /* it waits for writes beyond the new size */
    settle_beyond(open, size);
    uint64_t asked_ns = sys_now_ns();
    int begun = ledger_file_truncate_begin(&inode->entry, size);
    if (begun != 0)
        return begun == LEDGER_OF_KERNEL ? begun : FILE_NO_ROOM;
    /* Not later: others write as soon as it ends. */
    uint64_t epoch = ledger_file_asking(&inode->entry);
    struct file_handle_use use = file_inode_use(inode);
    bool unsettled, ever = false;
    int result;
    do {
        result = nfs_setattr(&client, use.fh, &sattr, &wcc, &unsettled);
        ever = ever || unsettled;
    } while (result == -ESTALE && file_inode_renew(inode, open->auth, &use));
    if (ever) /* executed later, it would cut off what was written since */
        ledger_hold_wait();
    ledger_file_truncate_end(&inode->entry, size, result == 0);
    if (result == 0 && wcc.after.present && wcc.after.attr.size == size) {
        struct ledger_attributes attributes;
        file_attributes_convert(&wcc.after.attr, &attributes);
        ledger_file_learned(&inode->entry, epoch, &attributes, asked_ns);
    }
    if (result == 0)
        stats_set(&open->stats->size, size);
    file_inode_note_written(inode);
    return result;
}

/* May the process make the file this long? 0 or -errno. */
static int check_growth(struct file_open *open, uint64_t size)
{
    struct ledger_attributes attributes;
    if (size == 0 || !file_size_is_limited())
        return 0;
    int result = file_inode_attributes(open->inode, open->auth, &attributes);
    if (result == 0 && size > attributes.size && file_size_room(size - 1) < 0)
        result = -EFBIG;
    return result;
}

int file_ftruncate(struct file_open *open, int fd, off_t size)
{
    if (size < 0 || open->access == O_RDONLY)
        return -EINVAL;
    if (!file_inode_enter(open->inode))
        return FILE_KERNEL;
    int result = check_growth(open, (uint64_t)size);
    if (result == 0)
        result = set_size(open, (uint64_t)size);
    if (result == 0)
        file_pages_drop(open, fd, false);
    return (int)file_finish_call(open, result);
}

/* ---- by the kernel: of a descriptor, if `path` is empty, or of what that names ---- */

static int cut(int fd, const char *path, off_t size)
{
    return *path ? sys_truncate(path, size) : sys_ftruncate(fd, size);
}

static bool still_is(int fd, const char *path, const struct stat *status)
{
    struct stat now;
    return sys_fstatat(fd, path, &now, AT_EMPTY_PATH) == 0 && now.st_dev == status->st_dev &&
           now.st_ino == status->st_ino;
}

/* The kernel cuts a file that processes of this host use through the engine. 0 or -errno. */
static int cut_known(int fd, const char *path, const struct stat *status, struct ledger_file *file,
                     off_t size)
{
    struct statx seen;
    file_async_attend_all();
    ledger_file_truncate_begin(file, (uint64_t)size);
    /* A kernel that does not know that the file grew would have nothing to do. */
    sys_statx(fd, path, AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &seen);
    int result = cut(fd, path, size);
    /* If another file has the name by now, nobody knows which one was cut: none loses data. */
    bool done = result == 0 && still_is(fd, path, status);
    ledger_file_truncate_end(file, (uint64_t)size, done);
    return result;
}

static bool is_longer(int fd, off_t size)
{
    struct statx seen;
    return sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &seen) == 0 &&
           seen.stx_size > (uint64_t)size;
}

/* One of several files of one number is cut, or was. None may lose what is before its end, so it is
 * committed: what comes back by that is cut off again. 0 or -errno. */
static int cut_one(int fd, const char *path, const struct ledger_file_key *key, off_t size)
{
    struct ledger_file file;
    uint32_t cursor = 0;
    int result = 0;
    file_async_attend_all();
    (void)file_commit_named(key);
    if (*path || is_longer(fd, size))
        result = cut(fd, path, size);
    while (ledger_file_find(key, &cursor, &file)) {
        if (ledger_file_truncate_begin(&file, UINT64_MAX) == 0)
            ledger_file_truncate_end(&file, UINT64_MAX, false); /* the size must be asked for */
    }
    return result;
}

void file_truncated_by_kernel(int fd, off_t size)
{
    struct stat status;
    struct ledger_file file;
    uint32_t cursor = 0;
    if (!ledger_registry_ready() || sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !file_mount_has_device(status.st_dev))
        return;
    struct ledger_file_key key = file_key_of(fd, "", &status);
    if (!ledger_file_find(&key, &cursor, &file))
        return;
    if (ledger_file_find(&key, &cursor, &(struct ledger_file){.index = 0})) {
        cut_one(fd, "", &key, size);
        return;
    }
    key = file.key;
    bool beyond = ledger_file_truncated_by_kernel(&key, (uint64_t)size, &file);
    /* Older data may have been written again after the kernel did it, and before we said it. */
    if (beyond || (file.generation != 0 && is_longer(fd, size)))
        cut_known(fd, "", &status, &file, size);
}

int file_truncate_path(const char *path, off_t size)
{
    struct stat status;
    struct ledger_file file;
    uint32_t cursor = 0;
    if (sys_fstatat(AT_FDCWD, path, &status, 0) != 0 || !S_ISREG(status.st_mode) ||
        !file_mount_has_device(status.st_dev))
        return FILE_KERNEL;
    if (!ledger_registry_ready())
        return -EMFILE;
    struct ledger_file_key key = file_key_of(AT_FDCWD, path, &status);
    if (!ledger_file_find(&key, &cursor, &file))
        return FILE_KERNEL;
    if (ledger_file_find(&key, &cursor, &(struct ledger_file){.index = 0}))
        return cut_one(AT_FDCWD, path, &key, size);
    if (!sys_test_unsafe(SYS_TEST_CUTS))
        (void)file_commit_named(&key);
    return cut_known(AT_FDCWD, path, &status, &file, size);
}

/* Some file system has it: one way, and for some of them KEEP_SIZE, without which there are no
 * holes. */
static bool is_mode(int mode)
{
    switch (mode & ~FALLOC_FL_KEEP_SIZE) {
    case FALLOC_FL_PUNCH_HOLE:
        return mode & FALLOC_FL_KEEP_SIZE;
    case FALLOC_FL_COLLAPSE_RANGE:
    case FALLOC_FL_INSERT_RANGE:
        return !(mode & FALLOC_FL_KEEP_SIZE);
    default:
        return (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_UNSHARE_RANGE)) == 0 ||
               (mode & ~FALLOC_FL_KEEP_SIZE) == FALLOC_FL_ZERO_RANGE;
    }
}

int file_allocate(struct file_open *open, int fd, int mode, off_t offset, off_t length,
                  bool emulate)
{
    (void)fd;
    off_t end;
    /* In the kernel's order. */
    if (offset < 0 || length <= 0)
        return -EINVAL;
    if (!is_mode(mode))
        return -EOPNOTSUPP;
    if (open->access == O_RDONLY)
        return -EBADF;
    if (__builtin_add_overflow(offset, length, &end))
        return -EFBIG;
    if (mode != 0 || !emulate)
        return -EOPNOTSUPP;
    /* NFSv3 cannot reserve space: what is beyond the end of the file is written. */
    for (;;) {
        struct ledger_attributes attributes;
        int result = attributes_of(open, false, &attributes);
        if (result != 0)
            return result;
        if ((off_t)attributes.size > offset)
            offset = (off_t)attributes.size;
        if (offset >= end)
            return 0;
        if (file_size_is_limited() && file_size_room((uint64_t)end - 1) < 0)
            return -EFBIG;
        ssize_t written = file_extend(open, (uint64_t)offset, (size_t)(end - offset));
        if (written < 0)
            return (int)written;
        offset += written;
    }
}
