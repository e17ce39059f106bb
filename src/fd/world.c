/*
 * Between the engine's world and the kernel's: ledger/world.h says what that is. A process that
 * needs the kernel for a file moves the file there. The others notice at their next call, and go
 * over as well. Each one's descriptors are the kernel's alone then, and it pins the file until it
 * ends.
 */
#include <string.h>

#include "durable/sync.h"
#include "fd/closed.h"
#include "fd/descriptors.h"
#include "file/flags.h"
#include "async/async.h"
#include "durable/commit.h"
#include "durable/flush.h"
#include "file/table.h"
#include "mount/contact.h"
#include "mount/credentials.h"
#include "mount/mounts.h"
#include "mount/registry.h"
#include "file/inode.h"
#include "io/io.h"
#include "mount/key.h"
#include "file/pages.h"
#include "file/renew.h"
#include "fd/world.h"
#include "ledger/agent.h"
#include "ledger/dirty.h"
#include "ledger/await.h"
#include "ledger/store/hold.h"
#include "ledger/uncommitted.h"
#include "ledger/outside.h"
#include "ledger/world.h"
#include "stats/count.h"
#include "net/pool.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum {
    OTHERS_MS = 100,   /* for calls of processes that cannot be asked */
    DIRTY_MS = 10000,  /* for others to send what this process cannot; */
    UNKNOWN_MS = 2000, /* while it cannot see whether there is any: mostly it is sent by then, */
    UNKNOWN_S = 30 /* and once in so long: each open of a process without descriptors comes here */
};

unsigned fd_world_abroad_ms = 3000, fd_world_unasked_ms = 5000;

static const char other_process[] = "another process uses the kernel for it";

void fd_show_kernel(const struct mount *mount, struct file_open *open, int fd, dev_t device,
                    ino_t number)
{
    if (ledger_number_written(device, number) || ledger_registry_was_gone() ||
        mount_is_abroad(mount) || (open && !file_tell_is_known(open->inode, fd, true)))
        file_pages_fresh(mount, open, fd);
}

void fd_fresh(int fd)
{
    struct file_open *open = file_get(fd);
    if (open) {
        (void)durable_flush_range(open->inode, open->auth, 0, UINT64_MAX);
        fd_show_kernel(open->inode->mount, open, fd, open->inode->device, open->inode->inode);
        file_put(open);
    }
}

/* ---- into the kernel's world ---- */

/* This thread hands a file over, or waits for that. What it carries out meanwhile must not wait for
 * it. */
static __thread bool crossing;

/* Is a demotion that a thread has begun over? *demoted: how it ended. */
static bool is_settled(const struct file_inode *inode, bool *demoted)
{
    pthread_mutex_lock(&file_lock);
    *demoted = atomic_load(&inode->demoted);
    bool settled = !*demoted || !atomic_load(&inode->demoting);
    pthread_mutex_unlock(&file_lock);
    return settled;
}

/* Waits for the end of a demotion. False: it was undone. */
static bool await_demotion(const struct file_inode *inode)
{
    bool demoted;
    crossing = true;
    while (!is_settled(inode, &demoted)) {
        /* The thread that demotes it may wait for requests of this thread. */
        if (!async_help(inode))
            sys_nanosleep_ms(1);
    }
    crossing = false;
    return demoted;
}

static bool has_no_name(const struct file_inode *inode)
{
    struct stat status;
    int fd = file_inode_descriptor(inode);
    return fd >= 0 && sys_fstat(fd, &status) == 0 && status.st_ino == inode->inode &&
           status.st_nlink == 0;
}

void fd_world_await_others(dev_t device, ino_t number, const char *path)
{
    static _Atomic uint64_t unknown_since_ns; /* 0: never */
    enum ledger_outside found = ledger_outside_look(device, number);
    uint64_t now_ns = sys_now_ns(), since_ns = atomic_load(&unknown_since_ns);
    if (found == LEDGER_OUTSIDE_UNKNOWN) {
        if (since_ns != 0 && now_ns - since_ns < UNKNOWN_S * UINT64_C(1000000000))
            return;
        atomic_store(&unknown_since_ns, now_ns);
    }
    for (int i = 0; found != LEDGER_OUTSIDE_CLEAN; i += 10) {
        if (i >= (found == LEDGER_OUTSIDE_DIRTY ? DIRTY_MS : UNKNOWN_MS))
            break;
        sys_nanosleep_ms(10);
        found = ledger_outside_look(device, number);
    }
    if (found == LEDGER_OUTSIDE_DIRTY)
        log_error("%s: the kernel serves it while data that other processes wrote is not at the "
                  "server: they do not send it, and this process cannot",
                  path);
    else if (found == LEDGER_OUTSIDE_UNKNOWN)
        log_error("%s: the kernel serves it, and data that other processes wrote may not be at the "
                  "server: this process cannot read the registry",
                  path);
}

/* Waits for processes that use the registry in the run directory: the file is pinned, and their
 * registry does not say so. */
static void tell_others(dev_t device, ino_t number, const char *path)
{
    if (!ledger_world_tell())
        return;
    sys_nanosleep_ms(OTHERS_MS);
    fd_world_await_others(device, number, path);
}

/* Does the file have data that others can still send or commit? The agent is asked to commit it,
 * also one that is only being started. */
static bool others_are_needed(struct ledger_file *file, uint32_t *asked)
{
    uint32_t agent = ledger_agent_number();
    if (ledger_file_uncommitted(file) == 0)
        return false;
    if (agent != *asked) {
        ledger_file_owes(file, true);
        ledger_agent_owes();
    }
    *asked = agent;
    return ledger_file_dirty(file) > 0 || mount_tunables.write_behind_max > 0;
}

/*
 * The file is on its way, and this process can send nothing: waits for others. What they have in
 * flight is over soon. What is dirty is sent by the processes that wrote it, as their next call or
 * their sender meets the file, or by the agent. 0: all is committed; -ENONET.
 */
static int await_from_abroad(struct ledger_file *file, unsigned longest_ms)
{
    uint64_t held_ns = longest_ms > 0 ? ledger_hold_ns() : 0;
    uint32_t asked = 0;
    async_attend_all();
    for (; longest_ms > 10 && others_are_needed(file, &asked); longest_ms -= 10)
        sys_nanosleep_ms(10);
    /* Uncommitted data may have to be written again, over what the kernel writes. */
    if (ledger_file_await_writes_for(file, longest_ms * UINT64_C(1000000) + held_ns) != 0 ||
        ledger_file_uncommitted(file) > 0)
        return -ENONET;
    (void)ledger_world_arrived(file);
    return 0;
}

/* Is it a failure after which others can still send or commit the data? Abroad this process cannot
 * ask for another handle either. */
static bool is_for_others(struct net_server *net, int result)
{
    return result == -ENONET || result == -ELIBACC || result == -ELIBSCN ||
           (result == -ESTALE && !net_server_is_at_home(net)) || net_server_look_abroad(net);
}

/* As await_from_abroad(), but does not wait if calls on the file have failed before. */
static int drain_from_abroad(struct file_inode *inode)
{
    uint32_t agent = ledger_agent_number() + 1; /* another agent may do what the last one did not */
    bool again = atomic_exchange(&inode->awaited, agent) == agent;
    int result = await_from_abroad(&inode->entry, again ? 0 : fd_world_abroad_ms);
    if (result != 0 && !again)
        log_error("%s: calls on it fail in this process, which cannot connect (another network "
                  "namespace, or TLS): %llu bytes that were written are not committed yet",
                  inode->path, (unsigned long long)ledger_file_uncommitted(&inode->entry));
    return result;
}

/* Makes sure that nothing of the engine comes over what the kernel writes from now on. 0, or -errno
 * when data was lost by that; a stale handle is for fsync to tell. -ENONET: see fd_world_demote().
 */
static int drain(struct file_inode *inode, const struct rpc_auth *auth, bool nameless)
{
    /* Nobody opens a file that has no name, and its number will be another file's: that one is not
     * pinned. */
    if (!nameless)
        ledger_world_leave(&inode->entry,
                           ledger_world_pin(inode->device, inode->inode, inode->reason));
    if (ledger_registry_was_gone())
        tell_others(inode->device, inode->inode, inode->path);
    while (atomic_load(&inode->busy) != 0) {
        if (!async_help(inode))
            sys_nanosleep_ms(1);
    }
    struct net_server *net = inode->mount->server->net;
    bool abroad = net_server_look_abroad(net);
    int result = abroad ? -ENONET : durable_commit_inode_for_kernel(inode, auth);
    if (result == 0)
        return 0;
    if (is_for_others(net, result))
        result = drain_from_abroad(inode);
    /* If all files were left to the kernel, calls may pass the library by: so the file goes there
     * all the same. */
    if (result == 0 || (result == -ENONET && !atomic_load(&mount_left_to_kernel)))
        return result;
    atomic_store(&inode->loss_due, true);
    uint64_t lost = ledger_file_forget(&inode->entry, true);
    ledger_world_arrived(&inode->entry);
    if (result == -ESTALE)
        return 0;
    log_error("%s: handed to the kernel with %llu bytes that cannot be committed: %s; the next "
              "fsync fails",
              inode->path, (unsigned long long)lost, strerrordesc_np(-result));
    return (int)file_posix_error(result);
}

static bool demote_begin(struct file_inode *inode, const char *reason)
{
    pthread_mutex_lock(&file_lock);
    bool first = !atomic_load(&inode->demoted);
    if (first) {
        inode->reason = reason;
        atomic_store(&inode->demoting, true);
        atomic_store(&inode->demoted, true);
    }
    inode->opens++;
    pthread_mutex_unlock(&file_lock);
    return first;
}

/* Undoes a demotion. In one step, as another thread may begin a demotion of its own then. */
static void demote_undo(struct file_inode *inode)
{
    pthread_mutex_lock(&file_lock);
    atomic_store(&inode->demoted, false);
    atomic_store(&inode->demoting, false);
    pthread_mutex_unlock(&file_lock);
}

/* As fd_world_demote(), of any mount. */
static int move(struct file_inode *inode, const struct rpc_auth *auth, const char *reason)
{
    bool first = demote_begin(inode, reason), outer = !crossing;
    int result = 0;
    if (first) {
        bool nameless = has_no_name(inode);
        crossing = true;
        result = drain(inode, auth, nameless);
        crossing = !outer;
        if (nameless && result != -ENONET)
            file_inode_forget(inode);
    } else if (outer) {
        result = await_demotion(inode) ? 0 : -ENONET;
    }
    if (result == -ENONET && first)
        demote_undo(inode);
    if (result == -ENONET) {
        file_inode_release(inode);
        return result;
    }
    bool managed = false;
    int fd = 0;
    struct file_open *open;
    while ((open = file_table_take(inode, &fd))) {
        if (!managed)
            file_pages_fresh(inode->mount, open, fd - 1);
        managed = true;
        file_offset_repay(open, fd - 1);
        stats_file_state(open->stats, DIRECTNFS_FILE_KERNEL, reason);
        file_put(open);
    }
    if (managed)
        stats_add(&stats_own->counters.files_handed_over, 1);
    if (first)
        atomic_store(&inode->demoting, false);
    if (managed && reason == other_process)
        log_info("%s: handed to the kernel: %s", inode->path, reason);
    else if (managed)
        log_notice("%s: handed to the kernel, by all processes: %s", inode->path, reason);
    file_inode_release(inode);
    return result;
}

int fd_world_demote(struct file_inode *inode, const struct rpc_auth *auth, const char *reason)
{
    if (!mount_is_closed(inode->mount))
        return move(inode, auth, reason);
    if (reason != other_process) /* else each call on the file comes here */
        fd_closed_refuse(inode->mount, inode->path, reason);
    return -ENONET;
}

int fd_world_demote_stream(struct file_inode *inode, const struct rpc_auth *auth,
                           const char *reason, unsigned own)
{
    bool closed = mount_is_closed(inode->mount);
    if (closed && file_inode_descriptors(inode) > own) {
        fd_closed_refuse(inode->mount, inode->path, reason);
        return -ENONET;
    }
    int result = move(inode, auth, reason);
    if (closed && result != -ENONET)
        fd_closed_is_open(inode->mount, inode->path, reason);
    return result;
}

int fd_world_follow(struct file_inode *inode)
{
    const struct rpc_auth *auth = file_inode_auth(inode);
    return fd_world_demote(inode, auth ? auth : mount_auth_now(inode->mount), other_process);
}

int fd_demote(int fd, const char *reason)
{
    struct file_open *open = file_get(fd);
    if (!open)
        return 0;
    int result = fd_world_demote(open->inode, open->auth, reason);
    file_put(open);
    return (int)file_posix_error(result);
}

int fd_demote_stream(int fd, const char *reason)
{
    struct file_open *open = file_get(fd);
    int result = 0;
    if (!open)
        return 0;
    if (open->access != O_RDONLY) {
        result = (int)file_posix_error(fd_world_demote_stream(open->inode, open->auth, reason, 1));
    } else {
        if (mount_is_closed(open->inode->mount))
            fd_closed_is_open(open->inode->mount, open->inode->path, reason);
        (void)durable_flush_range(open->inode, open->auth, 0, UINT64_MAX);
        fd_show_kernel(open->inode->mount, open, fd, open->inode->device, open->inode->inode);
        if (file_inode_descriptors(open->inode) == 1)
            stats_file_state(open->stats, DIRECTNFS_FILE_KERNEL, reason);
        fd_closing(fd);
    }
    file_put(open);
    return result;
}

/* Brings a file of the registry to the end of its way. 0, or -errno: data is left that cannot be
 * committed. `auth` NULL: the server cannot be asked. */
static int finish_way(struct mount *mount, const struct rpc_auth *auth, struct ledger_file *file)
{
    uint32_t asked = 0;
    int result = 0;
    if (auth) {
        result = durable_commit_for_kernel(mount, auth, file);
    } else {
        async_attend_all(); /* the writes in flight may be this process's */
        ledger_file_await_writes(file);
    }
    for (unsigned i = 0; i < fd_world_unasked_ms && !auth && ledger_file_uncommitted(file) > 0;
         i += 10) {
        (void)others_are_needed(file, &asked);
        sys_nanosleep_ms(10);
    }
    return ledger_world_arrived(file) ? 0 : result != 0 ? result : -EBUSY;
}

/* Gives up data of others: sent later, it would undo what the kernel writes from now on.
 * Acknowledged data stays. The log says so. */
static void give_up(struct ledger_file *file, const char *path, int result)
{
    if (ledger_file_dirty(file) > 0) {
        uint64_t lost = ledger_file_forget(file, true);
        ledger_world_arrived(file);
        log_error("%s: the kernel writes it, and %llu bytes that other processes wrote are not "
                  "at the server and are lost: %s; an fsync of who had it open fails",
                  path, (unsigned long long)lost, strerrordesc_np(-result));
    } else
        log_error("%s: the kernel writes it while %llu bytes that other processes wrote are "
                  "not committed: %s; if the server restarts before they are, they are lost, "
                  "and fsync says so",
                  path, (unsigned long long)ledger_file_uncommitted(file),
                  strerrordesc_np(-result));
}

/* Moves one file of the registry. The kernel is to write a file with the same number. 0, or -EIO:
 * the kernel must not. See fd_world_claim(). */
static int claim(struct ledger_file *file, const char *path, bool in_use)
{
    const struct rpc_auth *auth = NULL;
    struct mount *own = mount_of_device(file->key.device), *mount = NULL;
    bool abroad = own && mount_is_abroad(own), unasked = false;
    int result = -ENONET;
    if (!abroad) {
        if (ledger_file_uncommitted(file) > 0)
            mount = durable_commit_mount(file, &auth, &unasked);
        result = finish_way(mount, auth, file);
    }
    if (result == 0)
        return 0;
    bool elsewhere = abroad || !sys_network_is_home() ||
                     (own && own->server->net && is_for_others(own->server->net, result));
    unasked = unasked && !elsewhere && !mount && ledger_file_dirty(file) > 0;
    if (elsewhere && await_from_abroad(file, fd_world_abroad_ms) == 0)
        return 0;
    if (in_use || (!elsewhere && !unasked)) {
        give_up(file, path, result);
        return 0;
    }
    log_error("%s: it cannot be opened for writing %s: %llu bytes that other processes wrote are "
              "not committed",
              path, unasked ? "while its server cannot be asked" : "in this network namespace",
              (unsigned long long)ledger_file_uncommitted(file));
    return -EIO;
}

int fd_world_claim(const struct stat *status, const char *path, const char *reason, bool in_use)
{
    struct ledger_file_key key = {.device = status->st_dev, .inode = status->st_ino};
    mount_registry_look();
    bool pinned = ledger_world_pin(status->st_dev, status->st_ino, reason);
    bool gone = ledger_registry_was_gone();
    struct ledger_file file;
    uint32_t cursor = 0;
    bool open = mount_registry_open() == 0;
    int refused = 0;
    if (!open || gone)
        tell_others(status->st_dev, status->st_ino, path);
    while (open && ledger_file_find(&key, &cursor, &file)) {
        ledger_world_leave(&file, pinned);
        if (claim(&file, path, in_use) != 0)
            refused = -EIO;
    }
    return refused;
}

void fd_shared_map(int fd)
{
    struct stat status;
    char path[PATH_MAX];
    if (sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        !mount_has_device(status.st_dev) || !mount_path_of(fd, path))
        return;
    struct mount *mount = mounts_find(status.st_dev, path);
    if (!mount)
        return;
    int flags = sys_fcntl(fd, F_GETFL, 0);
    bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    (void)fd_world_claim(&status, path, "mmap", writes);
    file_pages_fresh(mount, NULL, fd);
}

const char *fd_world_stay(struct file_inode *inode)
{
    if (!mount_is_closed(inode->mount))
        ledger_world_leave(&inode->entry,
                           ledger_world_pin(inode->device, inode->inode, other_process));
    const char *reason = ledger_world_reason(inode->device, inode->inode);
    return reason ? reason : other_process;
}

/* ---- calls of the engine ---- */

bool fd_world_cross(struct file_inode *inode, bool known)
{
    if (crossing)
        return false;
    return known ? !await_demotion(inode) : fd_world_follow(inode) == -ENONET;
}

/* ---- and back ---- */

bool fd_world_is_ours(struct file_inode *inode, const struct rpc_auth *auth, int fd)
{
    if (atomic_load(&inode->demoted))
        return false;
    if (!ledger_world_is_kernel(&inode->entry)) {
        /* A process that was killed, or does not have the library, may have left pages that the
         * kernel would write later, over what is written now. */
        if (inode->mount->kernel_nfs && file_inode_descriptors(inode) == 0)
            sys_fsync(fd);
        return true;
    }
    uint32_t pins = ledger_world_pins(&inode->entry);
    if (ledger_world_is_pinned(inode->device, inode->inode))
        return false;
    if (!ledger_world_arrived(&inode->entry)) /* the process that moved it died on the way */
        (void)finish_way(inode->mount, auth, &inode->entry);
    if (inode->mount->kernel_nfs)
        sys_fsync(fd);
    file_pages_fresh(inode->mount, NULL, fd);
    return ledger_world_come_back(&inode->entry, pins);
}
