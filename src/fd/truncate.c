/* Changes of size, through the engine and by the kernel. */
#include "durable/commit.h"
#include "durable/sync.h"
#include "fd/truncate.h"
#include "file/attributes.h"
#include "file/inode.h"
#include "io/io.h"
#include "mount/key.h"
#include "file/pages.h"
#include "file/renew.h"
#include "fd/stat.h"
#include "file/upper.h"
#include "ledger/store/hold.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "mount/registry.h"
#include "stats/count.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

/* ---- through the engine ---- */

/*
 * Before the server is asked to change the size: commits what the cut will take away. If this
 * process is killed before the answer, nobody can tell what must come back; now nothing has to: the
 * file is as it was, or cut. The kernel's NFS client does the same (nfs_setattr()). An error does
 * not matter: what the server refuses here would be cut off.
 */
static void settle_beyond(struct file_open *open, uint64_t size)
{
    if (ledger_file_uncommitted_beyond(&open->inode->entry, size) &&
        !sys_test_unsafe(SYS_TEST_CUTS))
        (void)durable_commit(open->inode, open->auth, NULL);
}

static int set_size(struct file_open *open, uint64_t size)
{
    struct file_inode *inode = open->inode;
    struct nfs_client client = mount_client(inode->mount, open->auth);
    struct nfs_sattr sattr = {.set_size = true, .size = size};
    struct nfs_wcc wcc;
    file_upper.attend_all(); /* what follows waits for writes beyond the new size */
    settle_beyond(open, size);
    uint64_t asked_ns = sys_now_ns();
    int begun = ledger_file_truncate_begin(&inode->entry, size);
    if (begun != 0)
        return begun == LEDGER_OF_KERNEL ? begun : FILE_NO_ROOM;
    /* Not later: others write as soon as the change ends. */
    uint64_t epoch = ledger_file_asking(&inode->entry);
    struct file_handle_use use = file_inode_use(inode);
    bool unsettled, ever = false;
    int result;
    do {
        result = nfs_setattr(&client, use.fh, &sattr, &wcc, &unsettled);
        ever = ever || unsettled;
    } while (result == -ESTALE && file_inode_renew(inode, open->auth, &use));
    if (ever) /* a copy that is executed later would cut off what was written since */
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

int fd_ftruncate(struct file_open *open, int fd, off_t size)
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
    file_upper.attend_all();
    ledger_file_truncate_begin(file, (uint64_t)size);
    /* The kernel must know that the file grew: else it would have nothing to do. */
    sys_statx(fd, path, AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &seen);
    int result = cut(fd, path, size);
    /* If another file has the name by now, nobody knows which one was cut: then neither loses data.
     */
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

/* The kernel cuts, or has cut, one of several files of one number. None may lose what is before its
 * end, so it is committed; what comes back by that is cut off again. 0 or -errno. */
static int cut_one(int fd, const char *path, const struct ledger_file_key *key, off_t size)
{
    struct ledger_file file;
    uint32_t cursor = 0;
    int result = 0;
    file_upper.attend_all();
    (void)durable_commit_named(key);
    if (*path || is_longer(fd, size))
        result = cut(fd, path, size);
    while (ledger_file_find(key, &cursor, &file)) {
        if (ledger_file_truncate_begin(&file, UINT64_MAX) == 0)
            ledger_file_truncate_end(&file, UINT64_MAX, false); /* now the size must be asked for */
    }
    return result;
}

void fd_truncated_by_kernel(int fd, off_t size)
{
    struct stat status;
    struct ledger_file file;
    uint32_t cursor = 0;
    if (!ledger_registry_ready() || sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !mount_has_device(status.st_dev))
        return;
    struct ledger_file_key key = mount_key_of(fd, "", &status);
    if (!ledger_file_find(&key, &cursor, &file))
        return;
    if (ledger_file_find(&key, &cursor, &(struct ledger_file){.index = 0})) {
        cut_one(fd, "", &key, size);
        return;
    }
    key = file.key;
    bool beyond = ledger_file_truncated_by_kernel(&key, (uint64_t)size, &file);
    /* Older data may have been written again after the kernel cut the file, and before the ledger
     * was told. */
    if (beyond || (file.generation != 0 && is_longer(fd, size)))
        cut_known(fd, "", &status, &file, size);
}

int fd_truncate_path(const char *path, off_t size)
{
    struct stat status;
    struct ledger_file file;
    uint32_t cursor = 0;
    if (sys_fstatat(AT_FDCWD, path, &status, 0) != 0 || !S_ISREG(status.st_mode) ||
        !mount_has_device(status.st_dev))
        return FILE_KERNEL;
    if (!ledger_registry_ready())
        return -EMFILE;
    struct ledger_file_key key = mount_key_of(AT_FDCWD, path, &status);
    if (!ledger_file_find(&key, &cursor, &file))
        return FILE_KERNEL;
    if (ledger_file_find(&key, &cursor, &(struct ledger_file){.index = 0}))
        return cut_one(AT_FDCWD, path, &key, size);
    if (!sys_test_unsafe(SYS_TEST_CUTS))
        (void)durable_commit_named(&key);
    return cut_known(AT_FDCWD, path, &status, &file, size);
}

/* Does any file system have this mode? It is one way, some with FALLOC_FL_KEEP_SIZE, without which
 * there are no holes. */
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

int fd_allocate(struct file_open *open, int fd, int mode, off_t offset, off_t length, bool emulate)
{
    (void)fd;
    off_t end;
    /* These checks are in the kernel's order. */
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
    /* NFSv3 cannot reserve space: zeros are written beyond the end of the file. */
    for (;;) {
        struct ledger_attributes attributes;
        int result = fd_attributes_of(open, false, &attributes);
        if (result != 0)
            return result;
        if ((off_t)attributes.size > offset)
            offset = (off_t)attributes.size;
        if (offset >= end)
            return 0;
        if (file_size_is_limited() && file_size_room((uint64_t)end - 1) < 0)
            return -EFBIG;
        ssize_t written = io_extend(open, (uint64_t)offset, (size_t)(end - offset));
        if (written < 0)
            return (int)written;
        offset += written;
    }
}

/* ---- before the kernel changes a file ---- */

void fd_attributes_changing(dev_t device, ino_t number)
{
    /* Others may have written it, though this process has used no file of ours yet. */
    struct ledger_file_key key = {.device = device, .inode = number};
    if (!mount_has_device(device) || !ledger_registry_exists() || mount_registry_open() != 0)
        return;
    /* The later time of change will look like somebody else's change. Then what the server lost
     * would be given up (durable/rewrite.c). So nothing is left that could be lost, as with the
     * kernel's NFS client. */
    durable_commit_own(device, number);
    (void)durable_commit_named(&key);
}

void fd_truncating(int dirfd, const char *path)
{
    struct stat status;
    bool none = ledger_registry_ready() && ledger_uncommitted() == 0;
    if (!none && !sys_test_unsafe(SYS_TEST_CUTS) &&
        sys_fstatat(dirfd, path, &status, AT_EMPTY_PATH) == 0 && S_ISREG(status.st_mode))
        fd_attributes_changing(status.st_dev, status.st_ino);
}
