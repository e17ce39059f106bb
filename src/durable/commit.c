/* Durability of one file: COMMIT, and what a changed verifier means. */
#include "durable/commit.h"
#include "durable/committing.h"
#include "durable/flush.h"
#include "file/inode.h"
#include "durable/rewrite.h"
#include "file/upper.h"
#include "ledger/await.h"
#include "ledger/store/hold.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"
#include "mount/mounts.h"
#include "mount/verifier.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

enum { COMMITS_MAX = 6, COMMITS_UNSTABLE = 2, AWAITS_MAX = 3 };

_Atomic bool durable_finishing;

/* The handle is stale for good: forgets the data of a removed file. */
static void gone(struct committing *c)
{
    static _Atomic bool said;
    if (c->unasked) /* or the fsync would find nothing that is lost */
        return;
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
 * One COMMIT.
 * 0: it vouches for what was acknowledged.
 * -EAGAIN: another COMMIT is needed. Mostly lost data was written again, as the server restarted,
 * or what came of a COMMIT is not known. A newer write, which this COMMIT does not vouch for, may
 * have taken the place of lost data in the ledger.
 * Else -errno.
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
    mount_server_saw(c->to.mount->server, verifier, sent_ns, 0);
    if (ledger_file_to_disk(c->to.entry))
        file_upper.attend_all();
    uint64_t lost = ledger_commit_end(c->to.entry, &commit, verifier);
    if (lost == 0)
        return commit.again ? -EAGAIN : 0;
    bool restarted = ledger_file_verifier_differs(c->to.entry, verifier);
    if (restarted)
        stats_add(&stats_own->counters.verifier_changes, 1);
    bool say = durable_committing_may_say(c, "rewrite");
    if (say && restarted)
        log_warning("%s: server %s restarted before it committed %llu bytes; writing them again",
                    c->path, c->to.mount->server->conf->name, (unsigned long long)lost);
    else if (say)
        log_notice("%s: what came of a COMMIT of %llu bytes is not known; writing them again",
                   c->path, (unsigned long long)lost);
    commit.to_disk = c->stable != NFS_UNSTABLE;
    result = durable_commit_rewrite(c, &commit);
    if (result == -ESTALE)
        gone(c);
    return result == 0 ? -EAGAIN : result;
}

static int commit_again(struct committing *c)
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
    /* What was written before the call is stable: it has been written again, FILE_SYNC. */
    durable_committing_say_no_end(c, atomic_load(&net->reconnects) - reconnects);
    return 0;
}

/* Makes stable what was acknowledged before the call. 0 or -errno. -ENONET: nobody can be asked. */
static int commit_acknowledged(struct committing *c)
{
    int result = commit_again(c);
    return result == 0 && c->is_lost ? -EIO : result;
}

/* Makes stable what was written before the call. 0 or -errno. */
static int commit(struct committing *c)
{
    int flushed = durable_flush_all(c);
    if (flushed == -ESTALE)
        gone(c);
    if (flushed == -ESTALE || c->stored)
        return flushed;
    int result = commit_acknowledged(c);
    return result != 0 ? result : flushed;
}

int durable_commit_acknowledged(struct file_inode *inode, const struct rpc_auth *auth)
{
    struct committing c = durable_committing_of(inode, auth);
    c.unasked = true;
    return commit_acknowledged(&c);
}

int durable_commit_unasked(struct file_inode *inode, const struct rpc_auth *auth)
{
    struct committing c = durable_committing_of(inode, auth);
    c.unasked = true;
    return commit(&c);
}

int durable_commit(struct file_inode *inode, const struct rpc_auth *auth, uint64_t *rewritten)
{
    struct committing c = durable_committing_of(inode, auth);
    int result = commit(&c);
    if (rewritten)
        *rewritten = c.rewritten;
    return result;
}

int durable_commit_entry(struct mount *mount, const struct rpc_auth *auth, struct ledger_file *file)
{
    struct nfs_fh fh = durable_handle_of(&file->key);
    struct file_inode *inode = file_inode_find(file->key.device, file->key.inode, &fh);
    if (inode) {
        int result = durable_commit(inode, auth, NULL);
        file_inode_release(inode);
        return result;
    }
    struct committing c = durable_committing_entry(mount, auth, &fh, file);
    return commit(&c);
}

static int commit_for_kernel(struct committing *c)
{
    int result = 0, awaited = -ETIMEDOUT;
    for (int i = 0; i < AWAITS_MAX && awaited != 0 && result == 0; i++) {
        file_upper.attend_all(); /* what is in flight may be this process's */
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

int durable_commit_inode_for_kernel(struct file_inode *inode, const struct rpc_auth *auth)
{
    struct committing c = durable_committing_of(inode, auth);
    return commit_for_kernel(&c);
}

int durable_commit_for_kernel(struct mount *mount, const struct rpc_auth *auth,
                              struct ledger_file *file)
{
    struct nfs_fh fh = durable_handle_of(&file->key);
    struct committing c = durable_committing_entry(mount, auth, &fh, file);
    return commit_for_kernel(&c);
}

bool durable_owes_commit(struct file_inode *inode)
{
    bool wrote = atomic_load_explicit(&inode->written, memory_order_relaxed);
    return ledger_file_uncommitted_here(&inode->entry, wrote);
}
