/* Adoption: which descriptors the engine serves, and the proof that it is the same file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/inode.h"
#include "host/stats.h"
#include "sys/critical.h"
#include "sys/log.h"

enum { PROOF_ATTEMPTS = 8, SAY_AT_MOST = 5 };

/* The absolute path of an open file, as the kernel names it. False when it has none any more. */
static bool path_of(int fd, char path[PATH_MAX])
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = sys_readlink(link, path, PATH_MAX - 1);
    if (length <= 0 || path[0] != '/')
        return false;
    path[length] = '\0';
    return true;
}

static int64_t nanoseconds(int64_t seconds, uint32_t part)
{
    return seconds * 1000000000 + part;
}

/*
 * One look at the file from both sides. True when the server's attributes lie between two looks at
 * the kernel's, and the sizes agree if nothing changed meanwhile.
 */
static int compare(struct file_inode *inode, const struct rpc_auth *auth, int fd, const char *path,
                   bool fresh, struct nfs3_attr *attr)
{
    enum { MASK = STATX_BASIC_STATS };
    struct statx before, after;
    int flags = AT_EMPTY_PATH | AT_STATX_FORCE_SYNC;
    int result = sys_statx(fd, "", flags, MASK, &before);
    if (result != 0)
        return result;
    struct nfs3_post_attr found = {.present = false};
    result = file_mount_lookup(inode->mount, auth, path, fresh, &inode->fh, &found);
    if (result == 0 && found.present) {
        *attr = found.attr;
    } else if (result == 0) {
        struct nfs3_client client = file_mount_client(inode->mount, auth);
        result = nfs3_getattr(&client, &inode->fh, attr);
    }
    if (result == 0)
        result = sys_statx(fd, "", flags, MASK, &after);
    if (result != 0)
        return result;
    if (attr->type != NFS3_REG || attr->fileid != before.stx_ino)
        return -EXDEV;
    int64_t at = nanoseconds(attr->ctime.sec, attr->ctime.nsec);
    int64_t first = nanoseconds(before.stx_ctime.tv_sec, before.stx_ctime.tv_nsec);
    int64_t last = nanoseconds(after.stx_ctime.tv_sec, after.stx_ctime.tv_nsec);
    if (at < first || at > last)
        return -EAGAIN;
    if (first == last && before.stx_size == after.stx_size && attr->size != before.stx_size)
        return -EAGAIN;
    return 0;
}

/* Fills inode->fh. 0, or -errno and the reason why the file is not known to be the same. */
static int prove(struct file_inode *inode, const struct rpc_auth *auth, int fd, const char *path,
                 struct nfs3_attr *attr, const char **reason)
{
    int result = -EAGAIN;
    for (int i = 0; i < PROOF_ATTEMPTS && result != 0; i++) {
        if (i > 1)
            sys_nanosleep_ms(1 << i);
        result = compare(inode, auth, fd, path, i > 0, attr);
        /* A cached directory handle may be of a directory that was renamed: the second look is
         * fresh. After that another file under this name will not become the same one. */
        if (i > 0 && result != -EAGAIN && result != -ENOENT && result != -ESTALE)
            break;
    }
    switch (result) {
    case 0:
        break;
    case -EXDEV:
        *reason = "not the same file on the server";
        break;
    case -EAGAIN:
        *reason = "attributes differ on the server";
        break;
    case -ENOENT:
    case -ESTALE:
        *reason = "not found on the server";
        break;
    case -ENAMETOOLONG:
        *reason = "name too long";
        break;
    default:
        *reason = "lookup failed";
    }
    return result;
}

/* Asks the server whether this credential may do what the descriptor was opened for. */
static int ask_access(struct file_inode *inode, const struct rpc_auth *auth, int flags,
                      const char **reason)
{
    int mode = flags & O_ACCMODE;
    uint32_t wanted = mode == O_WRONLY ? 0 : NFS3_ACCESS_READ;
    if (mode != O_RDONLY)
        wanted |= NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND;
    pthread_mutex_lock(&file_lock);
    bool granted = inode->auth == auth && (inode->access & wanted) == wanted;
    pthread_mutex_unlock(&file_lock);
    if (granted)
        return 0;
    struct nfs3_client client = file_mount_client(inode->mount, auth);
    struct nfs3_post_attr attr;
    uint32_t access = NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND;
    int result = nfs3_access(&client, &inode->fh, &access, &attr);
    if (result == 0 && (access & wanted) != wanted)
        result = -EACCES;
    if (result != 0) {
        *reason = result == -EACCES ? "server refuses access" : "lookup failed";
        return result;
    }
    pthread_mutex_lock(&file_lock);
    inode->auth = auth;
    inode->access = access;
    pthread_mutex_unlock(&file_lock);
    return 0;
}

/*
 * The inode of a regular file on a mount, proven, with a use counted; it may be demoted already.
 * NULL with a reason.
 */
static struct file_inode *prove_inode(struct file_mount *mount, const struct rpc_auth *auth, int fd,
                                      const struct stat *status, const char *path,
                                      const char **reason)
{
    struct file_inode *inode = file_inode_find(status->st_dev, status->st_ino);
    struct file_inode fresh = {.device = status->st_dev, .inode = status->st_ino, .mount = mount};
    struct nfs3_attr attr;
    struct host_attributes attributes;
    uint64_t asked_ns = sys_now_ns();
    if (inode && !atomic_load(&inode->demoted)) {
        atomic_store(&inode->opened_ns, asked_ns);
        return inode;
    }
    if (status->st_nlink == 0) { /* O_TMPFILE, or removed meanwhile */
        *reason = "has no name";
        return inode;
    }
    /* A demoted one is remembered after its last close: its number may be of another file now. */
    if (prove(&fresh, auth, fd, path, &attr, reason) != 0)
        return inode;
    if (inode && inode->fh.len == fresh.fh.len &&
        memcmp(inode->fh.data, fresh.fh.data, fresh.fh.len) == 0)
        return inode;
    if (inode) {
        file_inode_forget(inode);
        file_inode_release(inode);
    }
    struct host_file_key key = {.device = status->st_dev,
                                .inode = status->st_ino,
                                .server = mount->registry_key,
                                .handle_length = fresh.fh.len};
    memcpy(key.handle, fresh.fh.data, fresh.fh.len);
    if (!host_file_attach(&fresh.host, &key)) {
        *reason = file_no_room;
        return NULL;
    }
    atomic_store(&fresh.opened_ns, asked_ns);
    uint64_t epoch = host_file_asking(&fresh.host), verified_ns;
    if (!host_file_attributes(&fresh.host, &attributes, &verified_ns)) {
        /* No process of this host knows the file, so none has changed it since the server told. */
        file_attributes_convert(&attr, &attributes);
        host_file_learned(&fresh.host, epoch, &attributes, asked_ns);
    }
    inode = file_inode_make(&fresh, path);
    if (!inode)
        *reason = "no memory";
    return inode;
}

/*
 * Records that the kernel serves the file. What a file is used for explains itself; that the server
 * does not agree is said, a few times a process: `directnfs stat files` shows all.
 */
static void stays_with_kernel(struct file_mount *mount, const struct stat *status, const char *path,
                              const char *reason, bool surprising)
{
    static _Atomic unsigned said;
    unsigned times = surprising ? atomic_fetch_add(&said, 1) : SAY_AT_MOST;
    if (times < SAY_AT_MOST)
        log_notice("%s: stays with the kernel: %s%s", path, reason,
                   times == SAY_AT_MOST - 1 ? " (no more of this; see `directnfs stat files`)"
                                            : "");
    else
        log_info("%s: stays with the kernel: %s", path, reason);
    struct directnfs_file_stats *stats = host_stats_file(
        path, mount->stats_id, (uint64_t)status->st_size, DIRECTNFS_FILE_KERNEL, reason);
    host_stats_file_close(stats);
}

static void use_kernel_direct(const struct file_mount *mount, int fd)
{
    int flags = mount->kernel_nfs ? sys_fcntl(fd, F_GETFL, 0) : -1;
    if (flags >= 0)
        sys_fcntl(fd, F_SETFL, flags | O_DIRECT);
}

/*
 * `reason` not NULL: the file must stay with the kernel. If it can be written there, the host is
 * told, and a managed use of it in this process ends.
 */
static void opened(int fd, int flags, const char *reason)
{
    struct stat status;
    char path[PATH_MAX];
    if (sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !file_mount_has_device(status.st_dev) || !path_of(fd, path))
        return;
    struct file_mount *mount = file_mount_find(status.st_dev, path);
    if (!mount)
        return;
    /* Before the contact, which writes again what dead processes left: not into the emptied file.
     */
    if (flags & O_TRUNC && file_registry_open() == 0)
        file_truncated_by_kernel(fd, status.st_size);
    const char *why;
    if (file_mount_contact(mount, &why) != 0) { /* said already */
        stays_with_kernel(mount, &status, path, why, false);
        return;
    }
    why = reason;
    const struct rpc_auth *auth = file_auth_now(mount);
    if (!auth)
        return;
    if (reason && (flags & O_ACCMODE) == O_RDONLY) {
        struct file_inode *inode = file_inode_find(status.st_dev, status.st_ino);
        if (inode) {
            file_inode_demote(inode, auth, reason);
            file_inode_release(inode);
        }
        stays_with_kernel(mount, &status, path, reason, false);
        return;
    }
    struct file_inode *inode = prove_inode(mount, auth, fd, &status, path, &why);
    if (!inode) {
        stays_with_kernel(mount, &status, path, why, !reason && status.st_nlink > 0);
        use_kernel_direct(mount, fd);
        return;
    }
    int result = 0;
    if (reason) {
        file_inode_demote(inode, auth, reason);
    } else if (atomic_load(&inode->demoted)) {
        if ((flags & O_ACCMODE) != O_RDONLY)
            host_file_set_kernel_writer(&inode->host);
        why = inode->reason;
        result = -EOPNOTSUPP;
    } else {
        result = ask_access(inode, auth, flags, &why);
    }
    if (reason || result != 0) {
        bool refused = !reason && !atomic_load(&inode->demoted);
        if ((flags & O_ACCMODE) != O_RDONLY) /* the kernel waits for no write of unknown fate */
            (void)host_file_settle(&inode->host);
        file_inode_release(inode);
        stays_with_kernel(mount, &status, path, why, refused);
        use_kernel_direct(mount, fd);
        return;
    }
    if (file_table_enter(fd, inode, auth, flags) != 0) {
        file_inode_release(inode);
        return;
    }
    log_debug("%s: adopted as descriptor %d", path, fd);
}

void file_opened(int fd, int flags)
{
    const char *reason = NULL;
    if (fd >= FILE_TABLE_SIZE)
        reason = "descriptor number too high";
    else if (flags & O_APPEND)
        reason = "O_APPEND";
    opened(fd, flags, reason);
}

void file_opened_for_kernel(int fd, int flags, const char *reason)
{
    opened(fd, flags, reason);
}

/* ---- descriptors that came over exec
 * --------------------------------------------------------------- */

struct directory_entry { /* linux_dirent64, getdents(2) */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

void file_adopt_inherited(void)
{
    if (!file_enabled())
        return;
    int directory = sys_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (directory < 0)
        return;
    sys_critical_enter();
    _Alignas(8) char entries[4096];
    ssize_t length;
    while ((length = sys_getdents64(directory, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < length;) {
            struct directory_entry *entry = (struct directory_entry *)(entries + at);
            at += entry->length;
            int fd = entry->name[0] == '.' ? -1 : atoi(entry->name);
            struct stat status;
            if (fd <= STDERR_FILENO || fd == directory || sys_fstat(fd, &status) != 0 ||
                !S_ISREG(status.st_mode) || !file_mount_has_device(status.st_dev))
                continue;
            int flags = sys_fcntl(fd, F_GETFL, 0);
            if (flags >= 0 && !(flags & O_PATH))
                file_opened(fd, flags & ~(O_CREAT | O_TRUNC));
        }
    }
    sys_critical_leave();
    sys_close(directory);
}
