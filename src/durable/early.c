/* COMMITs that nobody asked for. */
#include "durable/early.h"
#include "durable/commit.h"
#include "ledger/commits.h"
#include "ledger/uncommitted.h"
#include "mount/mount.h"
#include "sys/sys.h"

/*
 * Data that waits for a COMMIT stays in the processor's cache if it is little. Then a write finds
 * room for its copy without waiting for memory. So the bound is low, as long as COMMITs take a
 * small part of the time; else it is doubled, up to the tunable.
 */
enum { COMMIT_LEAST = 4 << 20, COMMIT_SHARE_MOST = 16, COMMIT_SHARE_LEAST = 64 };

static uint64_t commit_bound(const struct file_inode *inode)
{
    uint64_t bound = (uint64_t)COMMIT_LEAST
                     << atomic_load_explicit(&inode->commit_shift, memory_order_relaxed);
    uint64_t most = (uint64_t)mount_tunables.uncommitted_file_max;
    return bound < most ? bound : most;
}

/* A COMMIT took from `began_ns` until `ended_ns`. */
static void commit_bound_adapt(struct file_inode *inode, uint64_t began_ns, uint64_t ended_ns)
{
    uint64_t before_ns =
        atomic_exchange_explicit(&inode->committed_ns, ended_ns, memory_order_relaxed);
    uint64_t took_ns = ended_ns - began_ns, since_ns = ended_ns - before_ns;
    unsigned shift = atomic_load_explicit(&inode->commit_shift, memory_order_relaxed);
    if (took_ns > since_ns / COMMIT_SHARE_MOST &&
        commit_bound(inode) < (uint64_t)mount_tunables.uncommitted_file_max)
        shift++;
    else if (took_ns < since_ns / COMMIT_SHARE_LEAST && shift > 0)
        shift--;
    atomic_store_explicit(&inode->commit_shift, shift, memory_order_relaxed);
}

/* The fsync that the data waits for finds an error of this COMMIT again, and tells it. */
void durable_commit_early(struct file_inode *inode, const struct rpc_auth *auth)
{
    uint64_t waiting = ledger_file_acknowledged(&inode->entry);
    if (waiting <= commit_bound(inode))
        return;
    /* While one thread of the host waits for a COMMIT the others go on, within the tunable. */
    bool hurry = waiting > (uint64_t)mount_tunables.uncommitted_file_max;
    if (!hurry && (atomic_load(&inode->committing) || ledger_file_committing(&inode->entry)))
        return;
    if (atomic_exchange(&inode->committing, true) && !hurry)
        return;
    uint64_t began_ns = sys_now_ns();
    (void)durable_commit_acknowledged(inode, auth);
    commit_bound_adapt(inode, began_ns, sys_now_ns());
    atomic_store(&inode->committing, false);
}
