#include "file/gone.h"

#include <stdatomic.h>

#include "file/mount.h"
#include "ledger/world.h"
#include "run/directory.h"
#include "run/facts.h"
#include "run/offline.h"
#include "run/said.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { SAY_EVERY_S = 60, WAIT_MS = 1000 };

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

void file_registry_leave(void)
{
    static _Atomic int stage; /* 1: a thread is about it; 2: it is done */
    int none = 0;
    if (atomic_load_explicit(&stage, memory_order_acquire) == 2)
        return;
    if (atomic_compare_exchange_strong(&stage, &none, 1)) {
        leave();
        atomic_store(&file_left_to_kernel, removed);
        atomic_store(&stage, 2);
        return;
    }
    /* Not for ever: in a child of fork() there is no such thread. */
    for (int i = 0; i < WAIT_MS && atomic_load(&stage) == 1; i++)
        sys_nanosleep_ms(1);
}
