/* The registry, as this process uses it: opened, moved, left. */
#include "mount/protection.h"
#include "mount/registry.h"

#include <stdatomic.h>

#include "mount/mount.h"
#include "ledger/cache.h"
#include "ledger/world.h"
#include "mount/mounts.h"
#include "run/directory.h"
#include "run/facts.h"
#include "run/offline.h"
#include "run/log_limit.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { RETRY_S = 30, SAY_EVERY_S = 60, WAIT_MS = 1000 };

_Atomic(const char *) mount_left_to_kernel;

/* What a process lacks for the registry it mostly lacks for ever. So that is not tried at each
 * call. */
static _Atomic uint64_t failed_ns;
static _Atomic int failure;

int mount_registry_open(void)
{
    uint64_t failed = atomic_load_explicit(&failed_ns, memory_order_acquire);
    if (ledger_registry_ready())
        return 0;
    if (failed != 0 && sys_now_ns() - failed < (uint64_t)RETRY_S * 1000000000)
        return failure;
    ledger_cache_set((uint64_t)mount_tunables.read_cache_max);
    int result = ledger_registry_open((uint64_t)mount_tunables.uncommitted_max,
                                      (uint64_t)(mount_tunables.failover_hold * 1e9));
    atomic_store(&failure, result);
    atomic_store_explicit(&failed_ns, result == 0 ? 0 : sys_now_ns(), memory_order_release);
    return result;
}

void mounts_retry(void)
{
    atomic_store(&failed_ns, 0);
    for (unsigned i = 0; i < mounts_count(); i++) {
        if (pthread_mutex_trylock(&mounts_at(i)->contact) != 0)
            continue; /* it is being tried now */
        mounts_at(i)->retry_ns = 0;
        pthread_mutex_unlock(&mounts_at(i)->contact);
    }
}

int mount_registry_move(void)
{
    return ledger_registry_move((uint64_t)mount_tunables.uncommitted_max,
                                (uint64_t)(mount_tunables.failover_hold * 1e9));
}

/* ---- the run directory was removed ---- */

static const char removed[] = "run directory was removed";

static void leave(void)
{
    char path[RUN_PATH_MAX];
    int run = run_make();
    run_close(run);
    run_said_move();
    run_offline_move();
    run_facts_move();
    ledger_world_move();
    if (run_may_say(removed, SAY_EVERY_S))
        log_error("the registry in %s was removed while processes use it (by RemoveIPC= of a "
                  "systemd unit or of logind.conf?): they send what was written, and the kernel "
                  "serves all their files from now on; prevent it, and start them again",
                  run_name(path));
}

void mount_registry_leave(void)
{
    static _Atomic int stage; /* 1: a thread does it; 2: it is done */
    int none = 0;
    if (atomic_load_explicit(&stage, memory_order_acquire) == 2)
        return;
    if (atomic_compare_exchange_strong(&stage, &none, 1)) {
        leave();
        atomic_store(&mount_left_to_kernel, removed);
        mount_protection_bar();
        atomic_store(&stage, 2);
        return;
    }
    /* It does not wait for ever: in a child of fork() there is no such thread. */
    for (int i = 0; i < WAIT_MS && atomic_load(&stage) == 1; i++)
        sys_nanosleep_ms(1);
}
