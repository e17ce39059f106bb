/* Adoption: which descriptors the engine serves, and the proof that the server has the same file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "fd/adopt.h"
#include "fd/closed.h"
#include "fd/descriptors.h"
#include "fd/life.h"
#include "fd/truncate.h"
#include "file/flags.h"
#include "mount/contact.h"
#include "mount/credentials.h"
#include "mount/facts.h"
#include "file/attributes.h"
#include "file/loss.h"
#include "mount/mounts.h"
#include "mount/root.h"
#include "mount/watch.h"
#include "reach/kernel.h"
#include "reach/server.h"
#include "durable/flush.h"
#include "mount/registry.h"
#include "file/inode.h"
#include "io/io.h"
#include "file/pages.h"
#include "mount/proof.h"
#include "mount/key.h"
#include "file/renew.h"
#include "durable/stray.h"
#include "durable/versions.h"
#include "fd/world.h"
#include "ledger/stamp.h"
#include "stats/count.h"
#include "sys/critical.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/proc.h"

enum { SAY_AT_MOST = 5 };

/* Proves by name. 0 with the handle, or -errno and the reason why the file is not known to be the
 * same. */
static int prove_by_name(const struct mount_claim *claim, struct mount_proof *proof,
                         const char **reason)
{
    struct nfs_attr attr;
    int result = mount_prove(claim, false, &proof->fh, &attr);
    if (result == -ESTALE && mount_renew(claim->mount, claim->auth) == 0)
        result = mount_prove(claim, true, &proof->fh, &attr);
    switch (result) {
    case 0:
        proof->current = true;
        file_attributes_convert(&attr, &proof->attributes);
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

static void attributes_shown(const struct statx *seen, struct ledger_attributes *attributes)
{
    *attributes =
        (struct ledger_attributes){.size = seen->stx_size,
                                   .used = seen->stx_blocks * 512,
                                   .mtime = {seen->stx_mtime.tv_sec, seen->stx_mtime.tv_nsec},
                                   .ctime = {seen->stx_ctime.tv_sec, seen->stx_ctime.tv_nsec}};
}

/*
 * Proves by a fact: a process of this user has proven the handle for this inode, by this path, and
 * the registry still knows the file by it. If the kernel shows just what the server has told of
 * that handle, the server need not be asked: a proof makes that very comparison. Else the proof is
 * made anew; also where the kernel cannot tell whether it is the same inode, and where nothing may
 * be out of date.
 */
static bool prove_by_fact(const struct mount_claim *claim, uint64_t asked_ns,
                          struct mount_proof *proof)
{
    struct statx seen;
    struct mount_fact fact;
    struct nfs_attr attr;
    if (mount_kernel_look(claim->fd, &seen) != 0 || !mount_fact_of_file(claim, &seen, &fact))
        return false;
    struct ledger_file_key key = mount_registry_key(makedev(seen.stx_dev_major, seen.stx_dev_minor),
                                                    seen.stx_ino, claim->mount, &fact.fh);
    attributes_shown(&seen, &proof->attributes);
    uint64_t epoch;
    enum ledger_confirmation known =
        ledger_key_confirmed(&key, &proof->attributes, asked_ns, &epoch);
    if (known == LEDGER_UNKNOWN)
        return false;
    if (known == LEDGER_CONFIRMED && fact.same_inode && mount_tunables.actimeo > 0) {
        proof->access = mount_fact_access(&fact, &seen);
    } else {
        proof->access_ns = sys_now_ns();
        if (mount_prove_handle(claim, &fact.fh, &proof->access, &attr) != 0)
            return false;
        file_attributes_convert(&attr, &proof->attributes);
        proof->epoch = epoch;
    }
    proof->fh = fact.fh;
    proof->current = proof->known = true;
    return true;
}

/*
 * Proves by the kernel: if it tells the server's handle, that is the file, whatever its name.
 * Nobody need be asked: in this very open (`opened`) the kernel has asked for access and for
 * attributes.
 */
static bool prove_by_kernel(const struct mount_claim *claim, const struct stat *status, bool opened,
                            struct mount_proof *proof)
{
    const struct reach_kernel_mount *kernel = &claim->mount->kernel;
    const struct conf_server *conf = claim->mount->server->conf;
    if (!atomic_load(&claim->mount->kernel_tells) ||
        reach_kernel_handle(claim->fd, "", status, &proof->fh) != 0)
        return false;
    proof->attributes = (struct ledger_attributes){.size = (uint64_t)status->st_size,
                                                   .used = (uint64_t)status->st_blocks * 512,
                                                   .mtime = status->st_mtim,
                                                   .ctime = status->st_ctim};
    proof->current = opened && kernel->close_to_open;
    proof->granted = opened && kernel->protection.security == claim->mount->security &&
                     conf->uid == CONF_ID_PROCESS && conf->gid == (gid_t)CONF_ID_PROCESS;
    return true;
}

/* The access that a descriptor with these flags needs. */
static uint32_t access_for(int flags)
{
    int mode = flags & O_ACCMODE;
    uint32_t wanted = mode == O_WRONLY ? 0 : NFS_ACCESS_READ;
    if (mode != O_RDONLY)
        wanted |= NFS_ACCESS_MODIFY | NFS_ACCESS_EXTEND;
    return wanted;
}

/* Notes the access that the server has granted to the kernel. */
static void note_access(struct file_inode *inode, const struct rpc_auth *auth, int flags)
{
    pthread_mutex_lock(&file_lock);
    inode->access = access_for(flags) | (inode->auth == auth ? inode->access : 0);
    inode->auth = auth;
    pthread_mutex_unlock(&file_lock);
}

static const char *why_refused(const struct mount *mount)
{
    struct reach_identity identity;
    reach_identity_now(mount->server->conf, &identity);
    return identity.groups_had > identity.group_count
               ? "server refuses access, told 16 groups of more"
               : "server refuses access";
}

/* Asks the server whether this credential may do what the descriptor was opened for, unless that is
 * known. */
static int ask_access(struct file_inode *inode, const struct rpc_auth *auth, int flags,
                      struct mount_proof *proof, const char **reason)
{
    uint32_t wanted = access_for(flags);
    pthread_mutex_lock(&file_lock);
    if ((proof->access & wanted) == wanted) {
        inode->auth = auth;
        inode->access = proof->access;
    }
    bool granted = inode->auth == auth && (inode->access & wanted) == wanted;
    pthread_mutex_unlock(&file_lock);
    if (granted)
        return 0;
    struct nfs_client client = mount_client(inode->mount, auth);
    struct nfs_post_attr attr;
    uint32_t access = MOUNT_ACCESS_ASKED;
    struct file_handle_use use = file_inode_use(inode);
    uint64_t asked_ns = sys_now_ns();
    int result;
    do
        result = nfs_access(&client, use.fh, &access, &attr);
    while (result == -ESTALE && file_inode_renew(inode, auth, &use));
    if (result == 0 && (access & wanted) != wanted)
        result = -EACCES;
    if (result != 0) {
        *reason = result == -EACCES ? why_refused(inode->mount) : "lookup failed";
        return result;
    }
    pthread_mutex_lock(&file_lock);
    inode->auth = auth;
    inode->access = access;
    pthread_mutex_unlock(&file_lock);
    proof->access = access;
    proof->access_ns = asked_ns;
    return 0;
}

/* Tells other processes what was found out in this open, so that they need not ask. */
static void tell_others(struct file_inode *inode, const struct mount_claim *claim,
                        const struct mount_proof *proof)
{
    struct statx seen;
    struct mount_fact fact = {.fh = *file_inode_use(inode).fh,
                              .access = proof->access_ns ? proof->access : 0,
                              .access_ns = proof->access_ns,
                              .mode = proof->status->st_mode,
                              .uid = proof->status->st_uid,
                              .gid = proof->status->st_gid};
    bool news = !proof->known || proof->access_ns;
    if (proof->by_name && news && mount_kernel_look(claim->fd, &seen) == 0)
        mount_fact_file_is(claim, &seen, &fact);
}

/* This process's inode of the file that was just proven to have this handle, with a user counted;
 * NULL: there is none. */
static struct file_inode *known_inode(const struct mount_claim *claim, const struct stat *status,
                                      const struct nfs_fh *fh, const struct ledger_file_key *key)
{
    struct file_inode *other = NULL, *found;
    while (!(found = file_inode_find(status->st_dev, status->st_ino, fh)) &&
           (other = file_inode_next(status->st_dev, status->st_ino, other))) {
        struct file_handle_use use = file_inode_use(other);
        if (other->mount != claim->mount)
            continue;
        if (ledger_file_root(&other->entry) != key->root) {
            /* The export was given new handles since, so it may be the same file. If this inode was
             * demoted, that cannot be found out, and the kernel goes on serving the file. */
            if (atomic_load(&other->demoted))
                return other;
            file_inode_renew(other, claim->auth, &use);
        } else if (atomic_load(&other->demoted)) {
            file_inode_forget(other); /* kept after its last close: mostly its file is gone */
        }
    }
    if (other)
        file_inode_release(other);
    return found;
}

/* Tells the ledger what was proven: it was true at `asked_ns`, when the file was opened. */
static void learn(struct ledger_file *entry, const struct mount_proof *proof, uint64_t asked_ns)
{
    struct ledger_attributes unused;
    uint64_t epoch = ledger_file_asking(entry), verified_ns;
    ledger_file_refresh(entry);
    ledger_cache_opened(entry, asked_ns);
    if (!proof->current)
        return;
    bool known = ledger_file_attributes(entry, &unused, &verified_ns);
    if (proof->epoch && (known || proof->known))
        ledger_file_learned(entry, proof->epoch, &proof->attributes, asked_ns);
    /* No process of this host knows the file, so none has changed it since the server answered. */
    else if (!known)
        ledger_file_learned(entry, epoch, &proof->attributes, asked_ns);
    else if (proof->by_name)
        ledger_file_confirmed(entry, &proof->attributes, asked_ns);
    else
        ledger_file_kernel_told(entry, &proof->attributes, asked_ns);
}

/*
 * The inode of a regular file on a mount, proven, with a user counted. It may be demoted already.
 * NULL with a reason.
 */
static struct file_inode *prove_inode(const struct mount_claim *claim, const struct stat *status,
                                      uint64_t asked_ns, bool opened, struct mount_proof *proof,
                                      const char **reason)
{
    struct file_inode fresh = {
        .device = status->st_dev, .inode = status->st_ino, .mount = claim->mount};
    uint64_t lost;
    *proof = (struct mount_proof){.status = status};
    if (status->st_nlink == 0) { /* O_TMPFILE, or removed meanwhile */
        *reason = "has no name";
        return file_inode_only(status->st_dev, status->st_ino);
    }
    proof->by_name = !prove_by_kernel(claim, status, opened, proof);
    if (proof->by_name && !prove_by_fact(claim, asked_ns, proof)) {
        *proof =
            (struct mount_proof){.status = status,
                                 .by_name = true,
                                 .epoch = ledger_number_asking(status->st_dev, status->st_ino)};
        if (prove_by_name(claim, proof, reason) != 0)
            return NULL;
    }
    struct ledger_file_key key =
        mount_registry_key(status->st_dev, status->st_ino, claim->mount, &proof->fh);
    struct file_inode *inode = known_inode(claim, status, &proof->fh, &key);
    if (inode) {
        file_inode_opened_at(inode, asked_ns);
        learn(&inode->entry, proof, asked_ns);
        return inode;
    }
    if (!ledger_file_attach(&fresh.entry, &key, &proof->attributes.ctime, &lost)) {
        *reason = file_no_room;
        return NULL;
    }
    fresh.first_fh = proof->fh;
    atomic_store(&fresh.opened_ns, asked_ns);
    learn(&fresh.entry, proof, asked_ns);
    inode = file_inode_make(&fresh, claim->path);
    if (inode) /* another thread may just have made it */
        file_inode_opened_at(inode, asked_ns);
    if (!inode)
        *reason = "no memory";
    else if (lost > 0)
        file_loss_report(inode, lost);
    return inode;
}

/*
 * Records that the kernel serves the file, and why. A surprising reason, when the server does not
 * agree with the kernel, is logged as a notice, a few times in a process. A reason that lies in how
 * the file is used is not. `directnfs stat files` shows all.
 */
static void stays_with_kernel(struct mount *mount, const struct stat *status, const char *path,
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
    struct directnfs_file_stats *stats =
        stats_file(path, mount->stats_id, (uint64_t)status->st_size, DIRECTNFS_FILE_KERNEL, reason);
    stats_file_is(stats, status->st_dev, status->st_ino);
    stats_file_close(stats);
}

/* Does what the file needs when the kernel keeps a descriptor of it. 0, or -EIO: the kernel must
 * not. `in_use`: see fd_world_claim(). */
static int leave_to_kernel(struct mount *mount, const struct stat *status, int fd, int flags,
                           const char *path, const char *reason, bool in_use)
{
    if ((flags & O_ACCMODE) != O_RDONLY) {
        int result = fd_world_claim(status, path, reason, in_use);
        if (result == 0) /* what the kernel writes may be a whole page of what it has */
            file_pages_fresh(mount, NULL, fd);
        return result;
    }
    bool open = mount_registry_open() == 0;
    if (open)
        (void)durable_flush_number(status->st_dev, status->st_ino); /* for the kernel's reads */
    if (!open || ledger_registry_was_gone() || mount_is_abroad(mount))
        fd_world_await_others(status->st_dev, status->st_ino, path);
    fd_show_kernel(mount, NULL, fd, status->st_dev, status->st_ino);
    return 0;
}

/* NULL: the engine may serve the descriptor; else why not. *surprising: the reason does not lie in
 * how the file is used. */
static const char *why_kernel(struct file_inode *inode, const struct mount_claim *claim,
                              struct mount_proof *proof, int flags, bool *surprising)
{
    const char *reason = NULL;
    *surprising = false;
    if (fd_world_is_ours(inode, claim->auth, claim->fd)) {
        if (proof->granted)
            note_access(inode, claim->auth, flags);
        else
            *surprising = ask_access(inode, claim->auth, flags, proof, &reason) != 0;
        if (!reason)
            tell_others(inode, claim, proof);
        return reason;
    }
    return fd_world_stay(inode);
}

/* The file's inode, proven, unless data that was written in the other version of NFS waits. NULL
 * with a reason. */
static struct file_inode *find_inode(const struct mount_claim *claim, const struct stat *status,
                                     uint64_t asked_ns, bool fresh, struct mount_proof *proof,
                                     const char **why)
{
    bool changed = false;
    if (!durable_versions_settle(claim->mount, status->st_dev, status->st_ino, &changed)) {
        *why = "other processes have data on the way there by another nfs_version";
        return NULL;
    }
    /* What the kernel was told when it opened the file is old by now. */
    return prove_inode(claim, status, changed ? sys_now_ns() : asked_ns, fresh && !changed, proof,
                       why);
}

/* The kernel has just opened it; or it is to serve it, perhaps for a stream of libc; or the
 * descriptor came from another process, in use. */
enum coming { OPENED, FOR_KERNEL, FOR_STREAM, RECEIVED };

/* Adopts a descriptor, or leaves it to the kernel. `reason` not NULL: it must stay with the kernel.
 * 0, or -EIO: nobody may use the descriptor. */
static int opened(int fd, int flags, enum coming coming, const char *reason)
{
    struct stat status;
    char path[PATH_MAX];
    bool writes = (flags & O_ACCMODE) != O_RDONLY, surprising = false;
    uint64_t asked_ns = sys_now_ns(); /* the contact may take long */
    if (sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !(mount_has_device(status.st_dev) || mount_watch_arrived(status.st_dev)) ||
        !mount_path_of(fd, path))
        return 0;
    struct mount *mount = mounts_find(status.st_dev, path);
    if (!mount)
        return coming == RECEIVED ? 0 : fd_closed_elsewhere(status.st_dev, path);
    mount_registry_look();
    /* Before the contact, which writes again what dead processes left: that must not go into the
     * emptied file. */
    if (flags & O_TRUNC && mount_registry_open() == 0)
        fd_truncated_by_kernel(fd, writes ? 0 : status.st_size);
    const char *why = reason;
    struct mount_claim claim = {mount, NULL, fd, path};
    struct mount_proof proof;
    struct file_inode *inode = NULL;
    /* A descriptor that must stay with the kernel, and only reads, needs no question to the server.
     */
    if ((!reason || writes) && mount_contact(mount, &why) == 0 &&
        (claim.auth = mount_auth_now(mount))) {
        why = reason;
        inode = find_inode(&claim, &status, asked_ns, coming == OPENED, &proof, &why);
        surprising = !inode && !reason && status.st_nlink > 0;
    }
    bool may_stay = coming == FOR_STREAM || coming == RECEIVED;
    bool closed = mount_is_closed(mount) && !may_stay;
    if (inode && reason && !closed)
        closed = fd_world_demote_stream(inode, claim.auth, reason,
                                        coming == RECEIVED ? UINT_MAX : 0) == -ENONET &&
                 coming != RECEIVED && mount_is_closed(mount);
    else if (inode && !reason) {
        struct committing c = durable_committing_of(inode, claim.auth);
        (void)durable_strays_settle(
            &c); /* before anybody reads the file; if that fails, a flush does it */
        why = why_kernel(inode, &claim, &proof, flags, &surprising);
    }
    bool shut = !reason && mount_is_shut(mount);
    if (inode && !why && !shut && fd_descriptor_enter(fd, inode, claim.auth, flags) == 0) {
        log_debug("%s: adopted as descriptor %d", path, fd);
        /* A thread that has left all files to the kernel meanwhile may not have seen this one. */
        const char *left = atomic_load(&mount_left_to_kernel);
        while (left && file_is_managed(fd) && !mount_is_closed(mount))
            (void)fd_demote(fd, left);
        return 0;
    }
    why = why ? why : "no memory";
    if (closed)
        shut = fd_closed_refuse(mount, path, why) != 0;
    else if (mount_is_closed(mount))
        fd_closed_is_open(mount, path, why);
    int refused =
        shut ? -EIO : leave_to_kernel(mount, &status, fd, flags, path, why, coming == RECEIVED);
    if (inode)
        file_inode_release(inode);
    if (!shut)
        stays_with_kernel(mount, &status, path, why, surprising);
    return refused;
}

static const char *reason_for_kernel(int fd)
{
    return fd >= FILE_TABLE_SIZE ? "descriptor number too high" : NULL;
}

int fd_opened(int fd, int flags)
{
    return opened(fd, flags, OPENED, reason_for_kernel(fd));
}

void fd_received(int fd, int flags, const char *reason)
{
    opened(fd, flags & ~(O_CREAT | O_TRUNC), RECEIVED, reason ? reason : reason_for_kernel(fd));
}

int fd_opened_for_stream(int fd, int flags, const char *reason)
{
    return opened(fd, flags, FOR_STREAM, reason);
}

int fd_opened_for_kernel(int fd, int flags, const char *reason)
{
    return opened(fd, flags, FOR_KERNEL, reason);
}

/* ---- descriptors that came over exec ---- */

struct directory_entry { /* linux_dirent64, getdents(2) */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* A standard descriptor. The process that gave it to us has done for it what is needed. But the
 * file must not come back to the engine now. */
static void inherited_stream(int fd, int flags, const struct stat *status)
{
    char path[PATH_MAX];
    struct mount *mount = mount_path_of(fd, path) ? mounts_find(status->st_dev, path) : NULL;
    if (mount && mount_is_closed(mount))
        fd_closed_is_open(mount, path, "standard descriptor");
    if (mount)
        leave_to_kernel(mount, status, fd, flags, path, "standard descriptor", true);
}

void fd_adopt_inherited(void)
{
    if (!fd_enabled())
        return;
    int directory = sys_proc_open("self/fd", O_RDONLY | O_DIRECTORY);
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
            if (fd < 0 || fd == directory || sys_fd_is_ours(fd) || sys_fstat(fd, &status) != 0 ||
                !S_ISREG(status.st_mode) || !mount_has_device(status.st_dev))
                continue;
            int flags = sys_fcntl(fd, F_GETFL, 0);
            if (flags < 0 || (flags & O_PATH))
                continue;
            flags &= ~(O_CREAT | O_TRUNC);
            if (fd <= STDERR_FILENO) {
                inherited_stream(fd, flags, &status);
            } else {
                fd_received(fd, flags, NULL);
                file_shared(fd);
            }
        }
    }
    sys_critical_leave();
    sys_close(directory);
}
