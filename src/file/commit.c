/* Durability: COMMIT, verifiers, writing again. */
#include <string.h>

#include "file/async.h"
#include "file/auth.h"
#include "file/commit.h"
#include "file/flush.h"
#include "file/inode.h"
#include "file/io.h"
#include "file/pages.h"
#include "file/rewrite.h"
#include "file/world.h"
#include "ledger/agent.h"
#include "ledger/dirty.h"
#include "ledger/hold.h"
#include "ledger/processes.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

enum { COMMITS_MAX = 6, COMMITS_UNSTABLE = 2, AWAITS_MAX = 3 };

_Atomic bool file_finishing;

/* The handle is stale for good. */
static void gone(struct committing *c)
{
    static _Atomic bool said;
    if (!file_is_removed(c->to.mount, c->to.client.auth, c->to.entry, c->to.inode)) {
        if (!atomic_exchange(&said, true))
            log_error(
                "%s: server %s gave its files new handles, and %llu bytes of one that are not "
                "committed wait for a process that opens it by name",
                c->path, c->to.mount->server->conf->name,
                (unsigned long long)ledger_file_uncommitted(c->to.entry));
        return;
    }
    uint64_t lost = ledger_file_forget(c->to.entry, false);
    if (lost > 0)
        log_notice("%s: removed on the server with %llu bytes not committed", c->path,
                   (unsigned long long)lost);
}

/*
 * One COMMIT. 0, -errno, or -EAGAIN when the server restarted: a newer write, which this COMMIT
 * does not vouch for, may have taken the place of lost data in the ledger.
 */
static int commit_once(struct committing *c)
{
    struct ledger_commit commit;
    uint64_t verifier, sent_ns;
    bool repeated;
    int result;
    if (!ledger_commit_begin(c->to.entry, &commit))
        return 0;
    do {
        sent_ns = sys_now_ns();
        result = nfs_commit(&c->to.client, c->to.use.fh, 0, 0, &verifier, &repeated);
    } while (file_target_again(&c->to, result));
    if (result == -ESTALE)
        gone(c);
    if (result != 0 || repeated)
        ledger_commit_failed(c->to.entry, &commit);
    if (result != 0)
        return result == -EAGAIN ? -EIO : result;
    file_server_saw(c->to.mount->server, verifier, sent_ns, 0);
    if (ledger_file_to_disk(c->to.entry))
        file_async_attend_all();
    uint64_t lost = ledger_commit_end(c->to.entry, &commit, verifier);
    if (lost == 0)
        return commit.again ? -EAGAIN : 0;
    bool restarted = ledger_file_verifier_differs(c->to.entry, verifier);
    if (restarted)
        stats_add(&stats_own->counters.verifier_changes, 1);
    bool say = file_commit_may_say(c, "rewrite");
    if (say && restarted)
        log_warning("%s: server %s restarted before it committed %llu bytes; writing them again",
                    c->path, c->to.mount->server->conf->name, (unsigned long long)lost);
    else if (say)
        log_notice("%s: what came of a COMMIT of %llu bytes is not known; writing them again",
                   c->path, (unsigned long long)lost);
    commit.to_disk = c->stable != NFS_UNSTABLE;
    result = file_commit_rewrite(c, &commit);
    if (result == -ESTALE)
        gone(c);
    return result == 0 ? -EAGAIN : result;
}

/* What was acknowledged before the call is on stable storage. -ENONET: nobody can be asked. */
static int commit_acknowledged(struct committing *c)
{
    struct net_server *net = c->to.mount->server->net;
    unsigned reconnects = atomic_load(&net->reconnects);
    int result = net_server_is_abroad(net) ? -ENONET : -EAGAIN;
    for (int i = 0; i < COMMITS_MAX && result == -EAGAIN; i++) {
        c->stable = i < COMMITS_UNSTABLE ? NFS_UNSTABLE : NFS_FILE_SYNC;
        result = commit_once(c);
    }
    if (result != -EAGAIN)
        return result;
    /* What was written before the call has been written again, FILE_SYNC. */
    file_commit_say_no_end(c, atomic_load(&net->reconnects) - reconnects);
    return 0;
}

/* What was written before the call is. */
static int commit(struct committing *c)
{
    int flushed = file_flush_all(c);
    if (flushed == -ESTALE)
        gone(c);
    if (flushed == -ESTALE || c->stored)
        return flushed;
    int result = commit_acknowledged(c);
    return result != 0 ? result : flushed;
}

struct committing file_committing_of(struct file_inode *inode, const struct rpc_auth *auth)
{
    return (struct committing){.to = file_target_of(inode, auth), .path = inode->path};
}

int file_inode_commit_acknowledged(struct file_inode *inode, const struct rpc_auth *auth)
{
    struct committing c = file_committing_of(inode, auth);
    return commit_acknowledged(&c);
}

int file_inode_commit(struct file_inode *inode, const struct rpc_auth *auth, uint64_t *rewritten)
{
    struct committing c = file_committing_of(inode, auth);
    int result = commit(&c);
    if (rewritten)
        *rewritten = c.rewritten;
    return result;
}

void file_inode_report_loss(struct file_inode *inode, uint64_t bytes)
{
    atomic_store(&inode->loss_due, true);
    log_error(
        "%s: %llu bytes that were not committed may be lost: the server gave the file another "
        "handle, and it was changed meanwhile; the next fsync fails",
        inode->path, (unsigned long long)bytes);
}

static struct nfs_fh handle_of(const struct ledger_file_key *key)
{
    struct nfs_fh fh = {.len = key->handle_length};
    memcpy(fh.data, key->handle, fh.len);
    return fh;
}

/* Of a file of which an entry in the registry is known, and no more. */
static struct committing committing_entry(struct file_mount *mount, const struct rpc_auth *auth,
                                          const struct nfs_fh *fh, struct ledger_file *file)
{
    return (struct committing){
        .to = {.mount = mount,
               .client = file_mount_client(mount, file_auth_of_writer(file, auth)),
               .use = {.fh = fh},
               .entry = file},
        .path = mount->path};
}

/* COMMITs a file of which an entry in the registry is known, and perhaps no more: only one that
 * this process has open can get a new handle. */
static int commit_entry(struct file_mount *mount, const struct rpc_auth *auth,
                        struct ledger_file *file)
{
    struct nfs_fh fh = handle_of(&file->key);
    struct file_inode *inode = file_inode_find(file->key.device, file->key.inode, &fh);
    if (inode) {
        int result = file_inode_commit(inode, auth, NULL);
        file_inode_release(inode);
        return result;
    }
    struct committing c = committing_entry(mount, auth, &fh, file);
    return commit(&c);
}

static int commit_for_kernel(struct committing *c)
{
    int result = 0, awaited = -ETIMEDOUT;
    for (int i = 0; i < AWAITS_MAX && awaited != 0 && result == 0; i++) {
        file_async_attend_all(); /* what is in flight may be of this process */
        awaited = ledger_file_await_writes(c->to.entry);
        if (ledger_file_uncommitted(c->to.entry) > 0 && !sys_test_unsafe(SYS_TEST_ARRIVED))
            result = commit(c);
    }
    if (awaited != 0)
        log_warning("%s: handed to the kernel while another process writes it", c->path);
    if (result == 0)
        ledger_world_arrived(c->to.entry);
    return result;
}

int file_inode_commit_for_kernel(struct file_inode *inode, const struct rpc_auth *auth)
{
    struct committing c = file_committing_of(inode, auth);
    return commit_for_kernel(&c);
}

int file_commit_for_kernel(struct file_mount *mount, const struct rpc_auth *auth,
                           struct ledger_file *file)
{
    struct nfs_fh fh = handle_of(&file->key);
    struct committing c = committing_entry(mount, auth, &fh, file);
    return commit_for_kernel(&c);
}

/*
 * The handle that the registry has of a file is good no more. An inode of this process may have
 * another one, older or newer, and can ask for a new one by name; that it is of this very file is
 * seen from what is left. 0, or -errno of what is left.
 */
static int commit_renewed(const struct rpc_auth *auth, struct ledger_file *file)
{
    struct file_inode *inode = NULL;
    if (ledger_file_uncommitted(file) > 0)
        inode = file_inode_only(file->key.device, file->key.inode);
    int result = inode ? file_inode_commit(inode, auth, NULL) : -ESTALE;
    if (inode)
        file_inode_release(inode);
    if (ledger_file_uncommitted(file) == 0)
        return 0;
    return result == 0 || result == -ESTALE ? -EIO : result;
}

/* May the file of the registry be of this mount? Before the contact not more is known. */
static bool may_be_of(const struct file_mount *mount, const struct ledger_file *file)
{
    uint64_t own = atomic_load(&mount->registry_key);
    return file->key.server == own ||
           (file->key.device == mount->device && !((file->key.server | own) & LEDGER_APART) &&
            !((file->key.server ^ own) & (LEDGER_ADDRESS | LEDGER_SECOND)));
}

/* Is it? Who wrote it may have an nfstab that names the server in another way: then it is, if its
 * handle was got below the same root. */
static bool is_of(struct file_mount *mount, const struct ledger_file *file)
{
    static const struct nfs_fh none = {.len = 0};
    return file->key.server == atomic_load(&mount->registry_key) ||
           (may_be_of(mount, file) &&
            file->key.root == file_registry_key(mount->device, 0, mount, &none).root);
}

/* 0, or the error of the first that failed. What was removed is no error. */
static int commit_all_of(struct file_mount *mount, const struct rpc_auth *auth, bool orphans)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    int result = 0;
    while (ledger_uncommitted_next(&cursor, 0, orphans, &file)) {
        if (!is_of(mount, &file))
            continue;
        if (orphans)
            ledger_file_owes(&file, false);
        int one = commit_entry(mount, auth, &file);
        if (one == -ESTALE)
            one = commit_renewed(auth, &file);
        if (orphans && one != 0)
            ledger_file_owes(&file, true);
        result = result ? result : one;
    }
    return result;
}

/* Sends what is dirty of a file of which an entry in the registry is known. */
static void flush_entry(struct file_mount *mount, const struct rpc_auth *auth,
                        struct ledger_file *file)
{
    struct nfs_fh fh = handle_of(&file->key);
    struct file_inode *inode = file_inode_find(file->key.device, file->key.inode, &fh);
    struct committing c = committing_entry(mount, auth, &fh, file);
    if (!inode)
        (void)file_flush_all(&c);
    else if (file_inode_enter(inode)) {
        (void)file_flush_range(inode, auth, 0, UINT64_MAX);
        file_inode_leave(inode);
    }
    if (inode)
        file_inode_release(inode);
}

/* Also what others wrote: whose it is is not known of all data, and a child of fork() may have
 * closed what its parent writes. */
static void flush_mount(struct file_mount *mount)
{
    const struct rpc_auth *auth = file_auth_now(mount);
    uint32_t cursor = 0;
    struct ledger_file file;
    while (auth && ledger_uncommitted_next(&cursor, 0, false, &file)) {
        if (is_of(mount, &file) && ledger_file_dirty(&file))
            flush_entry(mount, auth, &file);
    }
}

/* The kernel shall not show old pages of it. */
static void flush_open(int fd)
{
    struct file_open *open = file_get(fd);
    if (!open)
        return;
    bool dirty = ledger_file_dirty(&open->inode->entry);
    if (dirty)
        file_write_out(open, 0, 0, true);
    if (atomic_exchange_explicit(&open->inode->pages_old, false, memory_order_relaxed) || dirty)
        file_pages_drop(open, fd, false);
    file_put(open);
}

void file_write_out_all(void)
{
    bool behind = false;
    file_shared_all();
    for (unsigned i = 0; i < file_mount_count(); i++)
        behind = behind || atomic_load_explicit(&file_mount_at(i)->behind, memory_order_relaxed);
    if (!ledger_registry_ready())
        return;
    for (int fd = 0, limit = file_table_limit(); fd < limit; fd++)
        if (file_is_managed(fd))
            flush_open(fd);
    for (unsigned i = 0; behind && ledger_uncommitted() > 0 && i < file_mount_count(); i++) {
        if (atomic_load(&file_mount_at(i)->behind))
            flush_mount(file_mount_at(i));
    }
    file_pages_settle();
}

void file_commit_for_room(struct file_inode *inode, const struct rpc_auth *auth)
{
    if (ledger_file_uncommitted(&inode->entry) > 0)
        file_inode_commit(inode, auth, NULL);
    else
        (void)commit_all_of(inode->mount, auth, false);
}

int file_commit_dead(struct file_mount *mount, const struct rpc_auth *auth)
{
    return commit_all_of(mount, auth, true);
}

int file_flush_old(struct file_mount *mount, const struct rpc_auth *auth,
                   const struct ledger_moments *moments)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    int result = 0;
    while (ledger_uncommitted_next(&cursor, 0, false, &file)) {
        if (!is_of(mount, &file) || !ledger_file_dirty(&file))
            continue;
        struct nfs_fh fh = handle_of(&file.key);
        struct committing c = committing_entry(mount, auth, &fh, &file);
        int one = file_flush_until(&c, ledger_file_moment(&file, moments));
        result = result ? result : one;
    }
    return result;
}

void file_commit_orphans(struct file_mount *mount, const struct rpc_auth *auth)
{
    ledger_process_sweep(0);
    atomic_store(&mount->orphans_failed, file_commit_dead(mount, auth));
}

/* Once for each loss; of an open file, or else of this process. */
static bool take_loss(struct file_inode *inode, struct file_open *open, int *error)
{
    bool others =
        open ? ledger_file_lost_by(&inode->entry, &open->seen) : ledger_file_lost(&inode->entry);
    bool own = atomic_exchange(&inode->loss_due, false);
    *error = own || !others ? -EIO : -ledger_file_loss_error(&inode->entry);
    return own || others;
}

/* The same, and an fsync still tells it: who closes a copy of what others go on with, or opens the
 * file later to fsync it, relies on that. */
static bool has_loss(struct file_open *open, int *error)
{
    struct file_inode *inode = open->inode;
    bool others = ledger_file_loses_by(&inode->entry, &open->seen);
    bool own = atomic_load(&inode->loss_due);
    *error = own || !others ? -EIO : -ledger_file_loss_error(&inode->entry);
    return own || others;
}

bool file_inode_owes_commit(struct file_inode *inode)
{
    bool wrote = atomic_load_explicit(&inode->written, memory_order_relaxed);
    return ledger_file_uncommitted_here(&inode->entry, wrote);
}

int file_commit_closing(struct file_open *open)
{
    struct file_inode *inode = open->inode;
    int loss, result = 0;
    if (file_inode_owes_commit(inode))
        result = file_inode_commit(inode, open->auth, NULL);
    if (result != -ESTALE && atomic_load_explicit(&inode->written, memory_order_relaxed) &&
        has_loss(open, &loss))
        result = loss;
    return result;
}

/* What the kernel wrote of it, and what others of this host wrote through the engine. */
static int fsync_by_kernel(int fd)
{
    int result = sys_fsync(fd);
    return result == 0 ? file_fsynced_by_kernel(fd) : result;
}

int file_fsync(struct file_open *open, int fd)
{
    struct file_inode *inode = open->inode;
    if (!file_inode_enter(inode))
        return fsync_by_kernel(fd);
    uint64_t waiting = ledger_file_uncommitted(&inode->entry), began_ns = sys_now_ns();
    int result = file_inode_commit(inode, open->auth, NULL), loss = 0;
    if (result == -ESTALE && waiting > 0)
        atomic_store(&inode->loss_due, true);
    /* One that fails tells of it, too. */
    bool lost = result != -ESTALE && take_loss(inode, open, &loss);
    if (lost)
        result = loss;
    if (result == 0)
        file_pages_drop(open, fd, false);
    file_inode_leave(inode);
    stats_file_synced(open->stats, sys_now_ns() - began_ns);
    bool abroad = net_server_fails_abroad(inode->mount->server->net, result);
    if (result != -ESTALE && !abroad)
        return (int)file_posix_error(result);
    result =
        file_inode_demote(inode, open->auth, abroad ? reach_reason(REACH_ABROAD) : "stale handle");
    if (lost || result == -ENONET) /* a loss is told once */
        return (int)file_posix_error(lost ? loss : result);
    return fsync_by_kernel(fd);
}

struct file_mount *file_commit_mount(const struct ledger_file *file, const struct rpc_auth **auth)
{
    const char *reason;
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_mount *mount = file_mount_at(i);
        if (!may_be_of(mount, file) || file_mount_is_past(mount) ||
            (ledger_registry_was_gone() && atomic_load(&mount->state) != FILE_MOUNT_READY))
            continue;
        *auth = file_auth_now(mount);
        if (*auth && file_mount_contact(mount, &reason) == 0 && is_of(mount, file))
            return mount;
    }
    *auth = NULL;
    return NULL;
}

int file_commit_known(struct ledger_file *file)
{
    const struct rpc_auth *auth;
    struct file_mount *mount = file_commit_mount(file, &auth);
    int result = mount ? commit_entry(mount, auth, file) : -EIO; /* nobody here can */
    return result == -ESTALE ? -EIO : (int)file_posix_error(result);
}

int file_commit_named(const struct ledger_file_key *key)
{
    struct ledger_file file;
    uint32_t cursor = 0;
    int result = 0;
    while (ledger_file_find(key, &cursor, &file)) {
        int one = ledger_file_uncommitted(&file) > 0 ? file_commit_known(&file) : 0;
        result = result ? result : one;
    }
    return result;
}

/* Of a file that the key names. If that may be several, each is told by its own fsync as well. */
static bool take_loss_of(const struct ledger_file_key *key)
{
    struct nfs_fh fh = handle_of(key);
    struct file_inode *inode = fh.len ? file_inode_find(key->device, key->inode, &fh)
                                      : file_inode_only(key->device, key->inode);
    int error;
    bool lost = inode && take_loss(inode, NULL, &error);
    if (inode) {
        file_inode_release(inode);
        return lost;
    }
    while (!fh.len && (inode = file_inode_next(key->device, key->inode, inode)))
        lost = lost || atomic_load(&inode->loss_due);
    return lost;
}

int file_fsynced_by_kernel(int fd)
{
    struct stat status;
    if (sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !file_mount_has_device(status.st_dev) || file_registry_open() != 0)
        return 0;
    struct ledger_file_key key = file_key_of(fd, "", &status);
    bool lost = take_loss_of(&key);
    return lost && status.st_nlink > 0 ? -EIO : file_commit_named(&key);
}

/* Others may have written to a mount that this process never used. */
static bool has_uncommitted(const struct file_mount *mount)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    bool found = false;
    while (!found && ledger_uncommitted_next(&cursor, 0, false, &file))
        found = may_be_of(mount, &file);
    return found;
}

static int sync_mount(struct file_mount *mount)
{
    const char *reason;
    const struct rpc_auth *auth = file_auth_now(mount);
    if (file_mount_is_past(mount) || !has_uncommitted(mount))
        return 0;
    if (!auth || file_mount_contact(mount, &reason) != 0)
        return -EIO;
    int failed = atomic_exchange(&mount->orphans_failed, 0); /* at the contact, maybe just now */
    int result = commit_all_of(mount, auth, false);
    return (int)file_posix_error(result ? result : failed);
}

int file_sync_all(void)
{
    int result = 0;
    if (!ledger_registry_exists())
        return 0;
    if (file_mount_count() > 0 && file_registry_open() != 0)
        return -EIO;
    for (unsigned i = 0; i < file_mount_count(); i++) {
        int one = sync_mount(file_mount_at(i));
        result = result ? result : one;
    }
    return result;
}

static void commit_own(struct file_inode *inode, void *context)
{
    int *result = context;
    const struct rpc_auth *auth = file_inode_auth(inode);
    if (atomic_load(&inode->demoted) || !auth || !file_inode_owes_commit(inode))
        return;
    int one = file_inode_commit(inode, auth, NULL);
    if (one != 0 && one != -ESTALE)
        *result = one;
}

/* What this process wrote to files of which it has no inode any more: a close that came during
 * another thread's call commits nothing. */
static void commit_closed(struct file_mount *mount, int *result)
{
    const struct rpc_auth *auth = file_auth_now(mount);
    uint32_t cursor = 0;
    struct ledger_file file;
    while (auth && ledger_uncommitted_next(&cursor, 0, false, &file)) {
        if (!is_of(mount, &file) || !ledger_file_uncommitted_here(&file, false))
            continue;
        int one = commit_entry(mount, auth, &file);
        if (one != 0 && one != -ESTALE)
            *result = one;
    }
}

int file_commit_all(void)
{
    int result = 0;
    file_shared_all(); /* with the program that exec starts */
    if (!ledger_registry_ready())
        return 0;
    file_async_finish(); /* exec and exit wait for requests in flight: io_setup(2) */
    file_inode_each(commit_own, &result);
    for (unsigned i = 0; i < file_mount_count() && ledger_uncommitted() > 0; i++) {
        if (atomic_load(&file_mount_at(i)->state) == FILE_MOUNT_READY)
            commit_closed(file_mount_at(i), &result);
    }
    file_pages_drop_all();
    return result;
}
