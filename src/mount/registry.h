/*
 * The run directory is removed under processes that use it: by RemoveIPC= of systemd, or by a hand.
 * Who starts later makes another registry, and the two would not know of one another's writes. So
 * who sees it goes over to the kernel's world with each file, as it next uses it, and sends what it
 * has written before. That takes until this process calls: ledger_registry_is_gone().
 */
#ifndef MOUNT_REGISTRY_H
#define MOUNT_REGISTRY_H

#include "ledger/registry.h"

/* The rest, once: says it, and goes on with pins and messages in the run directory that is there
 * now. All files are left to the kernel from now on (mount_left_to_kernel). */
void mount_registry_leave(void);

/* Before each call that may use the registry. */
static inline void mount_registry_look(void)
{
    if (__builtin_expect(ledger_registry_is_gone(), 0))
        mount_registry_leave();
}

/* ledger_registry_open() with what the tunables say. */
int mount_registry_open(void);
/* What failed may be tried again at once: the process has another user. */
void mounts_retry(void);
/* ledger_registry_move() likewise. */
int mount_registry_move(void);

#endif
