/* A process that becomes another user, or leaves all files to the kernel. */
#include "durable/sync.h"
#include "fd/closed.h"
#include "fd/user.h"
#include "mount/credentials.h"
#include "durable/behind.h"
#include "durable/commit.h"
#include "ahead/fetched.h"
#include "file/inode.h"
#include "fd/world.h"
#include "ledger/registry.h"
#include "ledger/world.h"
#include "mount/registry.h"
#include "run/directory.h"
#include "run/facts.h"
#include "run/offline.h"
#include "run/log_limit.h"
#include "stats/count.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/thread.h"

static void hand_over(struct file_inode *inode, void *reason)
{
    if (mount_is_closed(inode->mount))
        return;
    const struct rpc_auth *auth = file_inode_auth(inode);
    while (auth && fd_world_demote(inode, auth, reason) == -ENONET)
        ; /* another thread had begun it, and it was undone */
}

/* What could not be committed stays in the ledger that this process leaves: fsync cannot vouch for
 * it. */
static void note_uncommitted(struct file_inode *inode, void *unused)
{
    (void)unused;
    if (durable_owes_commit(inode))
        atomic_store(&inode->loss_due, true);
}

static void move(struct file_inode *inode, void *unused)
{
    (void)unused;
    ledger_file_moved(&inode->entry);
}

void fd_leave_to_kernel(const char *reason)
{
    atomic_store(&mount_left_to_kernel, reason);
    mount_protection_bar();
    file_inode_each(hand_over, (void *)reason);
}

/* Goes over to the run directory of `user`, in which open files go on. The old one can only be left
 * while no other thread is in it. */
static void become(uid_t user)
{
    uid_t before = run_owner();
    bool used = ledger_registry_ready(), alone = sys_thread_alone();
    if (used && durable_commit_all() != 0)
        file_inode_each(note_uncommitted, NULL);
    if (used && !alone) {
        log_error("the process became user %u, and was %u, while it has threads and files that the "
                  "engine serves: the kernel serves all files from now on. Become that user before "
                  "threads are started, or files opened",
                  (unsigned)user, (unsigned)before);
        fd_leave_to_kernel("user changed while threads run");
    }
    run_become(user);
    run_offline_move();
    run_said_move();
    run_facts_move();
    ledger_world_move();
    stats_move();
    mounts_retry();
    if (!used || !alone)
        return;
    ahead_forget();
    durable_behind_forget();
    if (mount_registry_move() == 0) {
        mount_auth_move();
        file_inode_each(move, NULL);
        log_info("the process became user %u, and was %u: it goes on in that user's run directory",
                 (unsigned)user, (unsigned)before);
        return;
    }
    log_error("the process became user %u, who has no usable run directory: the kernel serves all "
              "files from now on",
              (unsigned)user);
    fd_leave_to_kernel(reach_reason(REACH_RUN_UNUSABLE));
}

void fd_user_changed(void)
{
    uid_t real, effective, saved, owner = run_owner();
    sys_call3(SYS_getresuid, &real, &effective, &saved);
    if (real == owner || effective == owner || saved == owner)
        return; /* the process may become the owner again */
    sys_critical_enter();
    become(effective);
    sys_critical_leave();
}
