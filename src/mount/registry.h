/*
 * Somebody may remove the run directory while processes use it: RemoveIPC= of systemd, or a hand. A
 * process that starts later makes another registry, and the two would not know of each other's
 * writes. So a process that notices it moves each file to the kernel's world, as it next uses the
 * file, and sends first what it has written. A process notices it at its next call only:
 * ledger_registry_is_gone().
 */
#ifndef MOUNT_REGISTRY_H
#define MOUNT_REGISTRY_H

#include "ledger/registry.h"

/* What a process does once then: it says so on the log, and goes on with pins and messages in the
 * run directory that is there now. All files are left to the kernel from now on
 * (mount_left_to_kernel). */
void mount_registry_leave(void);

/* Before each call that may use the registry. */
static inline void mount_registry_look(void)
{
    if (__builtin_expect(ledger_registry_is_gone(), 0))
        mount_registry_leave();
}

/* ledger_registry_open() with what the tunables say. */
int mount_registry_open(void);
/* What failed may be tried again at once, as the process has another user now. */
void mounts_retry(void);
/* ledger_registry_move() with what the tunables say. */
int mount_registry_move(void);

#endif
