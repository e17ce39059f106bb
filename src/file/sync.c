/* Making many files safe: of a mount, of a process that is dead, of this one, or of all. */
#include "file/auth.h"
#include "file/commit.h"
#include "file/flags.h"
#include "file/flush.h"
#include "file/inode.h"
#include "file/io.h"
#include "file/key.h"
#include "file/pages.h"
#include "file/upper.h"
#include "ledger/agent.h"
#include "ledger/care.h"
#include "ledger/dirty.h"
#include "ledger/store/processes.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"

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

/* 0 with the credential, or -errno. */
static int ask_mount(struct file_mount *mount, const struct rpc_auth **auth)
{
    const char *reason;
    if (ledger_registry_was_gone() && atomic_load(&mount->state) != FILE_MOUNT_READY)
        return -EHOSTDOWN;
    *auth = file_auth_now(mount);
    return *auth ? file_mount_contact(mount, &reason) : -ENOMEM;
}

struct file_mount *file_commit_mount(const struct ledger_file *file, const struct rpc_auth **auth,
                                     bool *unasked)
{
    *unasked = false;
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_mount *mount = file_mount_at(i);
        if (!may_be_of(mount, file) || file_mount_is_past(mount))
            continue;
        int result = ask_mount(mount, auth);
        if (result == 0 && is_of(mount, file))
            return mount;
        *unasked = *unasked || (result != 0 && result != -EXDEV); /* it said that it is another */
    }
    *auth = NULL;
    return NULL;
}

int file_commit_known(struct ledger_file *file)
{
    const struct rpc_auth *auth;
    bool unasked;
    struct file_mount *mount = file_commit_mount(file, &auth, &unasked);
    int result = mount ? file_commit_entry(mount, auth, file) : -EIO; /* nobody here can */
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
        int one = file_commit_entry(mount, auth, &file);
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
    struct nfs_fh fh = file_handle_of(&file->key);
    struct file_inode *inode = file_inode_find(file->key.device, file->key.inode, &fh);
    struct committing c = file_committing_entry(mount, auth, &fh, file);
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
        struct nfs_fh fh = file_handle_of(&file.key);
        struct committing c = file_committing_entry(mount, auth, &fh, &file);
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
        int one = file_commit_entry(mount, auth, &file);
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
    file_upper.finish(); /* exec and exit wait for requests in flight: io_setup(2) */
    file_inode_each(commit_own, &result);
    for (unsigned i = 0; i < file_mount_count() && ledger_uncommitted() > 0; i++) {
        if (atomic_load(&file_mount_at(i)->state) == FILE_MOUNT_READY)
            commit_closed(file_mount_at(i), &result);
    }
    file_pages_drop_all();
    return result;
}
