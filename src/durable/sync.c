/* Making many files safe: those of a mount, of a dead process, of this process, or all. */
#include "durable/sync.h"
#include "file/table.h"
#include "mount/contact.h"
#include "mount/credentials.h"
#include "durable/commit.h"
#include "file/flags.h"
#include "durable/flush.h"
#include "file/inode.h"
#include "file/enter.h"
#include "mount/key.h"
#include "file/pages.h"
#include "file/upper.h"
#include "ledger/agent.h"
#include "ledger/care.h"
#include "ledger/dirty.h"
#include "ledger/store/processes.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "mount/registry.h"

/* May the file of the registry belong to this mount? Before the first contact no more is known. */
static bool may_be_of(const struct mount *mount, const struct ledger_file *file)
{
    uint64_t own = atomic_load(&mount->registry_key);
    return file->key.server == own ||
           (file->key.device == mount->device && !((file->key.server | own) & LEDGER_APART) &&
            !((file->key.server ^ own) & (LEDGER_ADDRESS | LEDGER_SECOND)));
}

/* Does it belong to this mount? The process that wrote it may have an nfstab that names the server
 * in another way: then it does, if its handle was got below the same root. */
static bool is_of(struct mount *mount, const struct ledger_file *file)
{
    static const struct nfs_fh none = {.len = 0};
    return file->key.server == atomic_load(&mount->registry_key) ||
           (may_be_of(mount, file) &&
            file->key.root == mount_registry_key(mount->device, 0, mount, &none).root);
}

/* Contacts a mount. 0 with the credential, or -errno. */
static int ask_mount(struct mount *mount, const struct rpc_auth **auth)
{
    const char *reason;
    if (ledger_registry_was_gone() && atomic_load(&mount->state) != MOUNT_READY)
        return -EHOSTDOWN;
    *auth = mount_auth_now(mount);
    return *auth ? mount_contact(mount, &reason) : -ENOMEM;
}

struct mount *durable_commit_mount(const struct ledger_file *file, const struct rpc_auth **auth,
                                   bool *unasked)
{
    *unasked = false;
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts_at(i);
        if (!may_be_of(mount, file) || mount_is_past(mount))
            continue;
        int result = ask_mount(mount, auth);
        if (result == 0 && is_of(mount, file))
            return mount;
        *unasked = *unasked || (result != 0 && result != -EXDEV); /* it is another directory */
    }
    *auth = NULL;
    return NULL;
}

int durable_commit_known(struct ledger_file *file)
{
    const struct rpc_auth *auth;
    bool unasked;
    struct mount *mount = durable_commit_mount(file, &auth, &unasked);
    int result = mount ? durable_commit_entry(mount, auth, file) : -EIO; /* no mount here can */
    return result == -ESTALE ? -EIO : (int)file_posix_error(result);
}

int durable_commit_named(const struct ledger_file_key *key)
{
    struct ledger_file file;
    uint32_t cursor = 0;
    int result = 0;
    while (ledger_file_find(key, &cursor, &file)) {
        int one = ledger_file_uncommitted(&file) > 0 ? durable_commit_known(&file) : 0;
        result = result ? result : one;
    }
    return result;
}

void durable_commit_own(dev_t device, uint64_t number)
{
    struct file_inode *inode = NULL;
    while ((inode = file_inode_next(device, number, inode))) {
        const struct rpc_auth *auth = file_inode_auth(inode);
        if (auth && ledger_file_uncommitted(&inode->entry) > 0 && file_inode_enter(inode)) {
            (void)durable_commit(inode, auth, NULL);
            file_inode_leave(inode);
        }
    }
}

/*
 * The handle that the registry has of a file is stale. An inode of this process may have another
 * handle, older or newer, and can ask for a new one by name. Whether it is the same file is seen
 * from what is left uncommitted. 0, or -errno of what is left.
 */
static int commit_renewed(const struct rpc_auth *auth, struct ledger_file *file)
{
    struct file_inode *inode = NULL;
    if (ledger_file_uncommitted(file) > 0)
        inode = file_inode_only(file->key.device, file->key.inode);
    int result = inode ? durable_commit(inode, auth, NULL) : -ESTALE;
    if (inode)
        file_inode_release(inode);
    if (ledger_file_uncommitted(file) == 0)
        return 0;
    return result == 0 || result == -ESTALE ? -EIO : result;
}

/* Commits all files of the mount, or (`orphans`) those of dead processes. 0, or the error of the
 * first that failed. A removed file is no error. */
static int commit_all_of(struct mount *mount, const struct rpc_auth *auth, bool orphans)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    int result = 0;
    while (ledger_uncommitted_next(&cursor, 0, orphans, &file)) {
        if (!is_of(mount, &file))
            continue;
        if (orphans)
            ledger_file_owes(&file, false);
        int one = durable_commit_entry(mount, auth, &file);
        if (one == -ESTALE)
            one = commit_renewed(auth, &file);
        if (orphans && one != 0)
            ledger_file_owes(&file, true);
        result = result ? result : one;
    }
    return result;
}

/* Sends what is dirty of a file that is known by its entry in the registry. */
static void flush_entry(struct mount *mount, const struct rpc_auth *auth, struct ledger_file *file)
{
    struct nfs_fh fh = durable_handle_of(&file->key);
    struct file_inode *inode = file_inode_find(file->key.device, file->key.inode, &fh);
    struct committing c = durable_committing_entry(mount, auth, &fh, file);
    if (!inode)
        (void)durable_flush_all(&c);
    else if (file_inode_enter(inode)) {
        (void)durable_flush_range(inode, auth, 0, UINT64_MAX);
        file_inode_leave(inode);
    }
    if (inode)
        file_inode_release(inode);
}

/* Sends what is dirty of the mount, also what others wrote: not of all data the writer is known,
 * and a child of fork() may have closed what its parent writes. */
static void flush_mount(struct mount *mount)
{
    const struct rpc_auth *auth = mount_auth_now(mount);
    uint32_t cursor = 0;
    struct ledger_file file;
    while (auth && ledger_uncommitted_next(&cursor, 0, false, &file)) {
        if (is_of(mount, &file) && ledger_file_dirty(&file))
            flush_entry(mount, auth, &file);
    }
}

/* Sends what is dirty of the descriptor's file, and has the kernel drop its old pages. */
static void flush_open(int fd)
{
    struct file_open *open = file_get(fd);
    if (!open)
        return;
    bool dirty = ledger_file_dirty(&open->inode->entry);
    if (dirty)
        durable_write_out(open, 0, 0, true);
    if (atomic_exchange_explicit(&open->inode->pages_old, false, memory_order_relaxed) || dirty)
        file_pages_drop(open, fd, false);
    file_put(open);
}

void durable_write_out_all(void)
{
    bool behind = false;
    file_shared_all();
    for (unsigned i = 0; i < mounts_count(); i++)
        behind = behind || atomic_load_explicit(&mounts_at(i)->behind, memory_order_relaxed);
    if (!ledger_registry_ready())
        return;
    for (int fd = 0, limit = file_table_limit(); fd < limit; fd++)
        if (file_is_managed(fd))
            flush_open(fd);
    for (unsigned i = 0; behind && ledger_uncommitted() > 0 && i < mounts_count(); i++) {
        if (atomic_load(&mounts_at(i)->behind))
            flush_mount(mounts_at(i));
    }
    file_pages_settle();
}

void durable_commit_for_room(struct file_inode *inode, const struct rpc_auth *auth)
{
    if (ledger_file_uncommitted(&inode->entry) > 0)
        durable_commit(inode, auth, NULL);
    else
        (void)commit_all_of(inode->mount, auth, false);
}

int durable_commit_dead(struct mount *mount, const struct rpc_auth *auth)
{
    return commit_all_of(mount, auth, true);
}

int durable_flush_old(struct mount *mount, const struct rpc_auth *auth,
                      const struct ledger_moments *moments)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    int result = 0;
    while (ledger_uncommitted_next(&cursor, 0, false, &file)) {
        if (!is_of(mount, &file) || !ledger_file_dirty(&file))
            continue;
        struct nfs_fh fh = durable_handle_of(&file.key);
        struct committing c = durable_committing_entry(mount, auth, &fh, &file);
        int one = durable_flush_until(&c, ledger_file_moment(&file, moments));
        result = result ? result : one;
    }
    return result;
}

void durable_commit_orphans(struct mount *mount, const struct rpc_auth *auth)
{
    ledger_process_sweep(0);
    atomic_store(&mount->orphans_failed, durable_commit_dead(mount, auth));
}

/* Has the mount uncommitted data? Others may have written to a mount that this process never used.
 */
static bool has_uncommitted(const struct mount *mount)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    bool found = false;
    while (!found && ledger_uncommitted_next(&cursor, 0, false, &file))
        found = may_be_of(mount, &file);
    return found;
}

static int sync_mount(struct mount *mount)
{
    const char *reason;
    const struct rpc_auth *auth = mount_auth_now(mount);
    if (mount_is_past(mount) || !has_uncommitted(mount))
        return 0;
    if (!auth || mount_contact(mount, &reason) != 0)
        return -EIO;
    int failed = atomic_exchange(&mount->orphans_failed, 0); /* of the contact, maybe just now */
    int result = commit_all_of(mount, auth, false);
    return (int)file_posix_error(result ? result : failed);
}

int durable_sync_all(void)
{
    int result = 0;
    if (!ledger_registry_exists())
        return 0;
    if (mounts_count() > 0 && mount_registry_open() != 0)
        return -EIO;
    for (unsigned i = 0; i < mounts_count(); i++) {
        int one = sync_mount(mounts_at(i));
        result = result ? result : one;
    }
    return result;
}

static void commit_own(struct file_inode *inode, void *context)
{
    int *result = context;
    const struct rpc_auth *auth = file_inode_auth(inode);
    if (atomic_load(&inode->demoted) || !auth || !durable_owes_commit(inode))
        return;
    int one = durable_commit(inode, auth, NULL);
    if (one != 0 && one != -ESTALE)
        *result = one;
}

/* Commits what this process wrote to files of which it has no inode any more: a close that came
 * during another thread's call commits nothing. */
static void commit_closed(struct mount *mount, int *result)
{
    const struct rpc_auth *auth = mount_auth_now(mount);
    uint32_t cursor = 0;
    struct ledger_file file;
    while (auth && ledger_uncommitted_next(&cursor, 0, false, &file)) {
        if (!is_of(mount, &file) || !ledger_file_uncommitted_here(&file, false))
            continue;
        int one = durable_commit_entry(mount, auth, &file);
        if (one != 0 && one != -ESTALE)
            *result = one;
    }
}

int durable_commit_all(void)
{
    int result = 0;
    file_shared_all(); /* the program that exec starts shares them */
    if (!ledger_registry_ready())
        return 0;
    file_upper.finish(); /* exec and exit wait for requests in flight: io_setup(2) */
    file_inode_each(commit_own, &result);
    for (unsigned i = 0; i < mounts_count() && ledger_uncommitted() > 0; i++) {
        if (atomic_load(&mounts_at(i)->state) == MOUNT_READY)
            commit_closed(mounts_at(i), &result);
    }
    file_pages_drop_all();
    return result;
}
