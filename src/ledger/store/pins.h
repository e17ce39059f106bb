/*
 * Pins: the files that processes of the run directory use through the kernel. See ledger/world.h.
 */
#ifndef LEDGER_PINS_H
#define LEDGER_PINS_H

#include <stdbool.h>
#include <stdint.h>

/* Opens the file of the pins in the run directory, which must be prepared. If the open file was
 * removed, opens the new one. 0 or -errno. */
int ledger_world_open(void);

/* In the child of fork(). */
void ledger_world_after_fork(void);
/* The run directory is another one now: pins there what is pinned. */
void ledger_world_move(void);

/*
 * From now on this process uses the file through the kernel, until it ends. `reason` is a string
 * constant. If a process has many such files, other files may be taken for pinned, too. False: the
 * pin cannot be noted (no descriptor, no run directory).
 */
bool ledger_world_pin(uint64_t device, uint64_t inode, const char *reason);

/* Why this process first pinned the file; NULL: it did not. */
const char *ledger_world_reason(uint64_t device, uint64_t inode);

/* Does any process of the run directory, this one included, pin the file? */
bool ledger_world_is_pinned(uint64_t device, uint64_t inode);

/*
 * For a process without a registry that has just pinned a file: makes the other processes look at
 * the pins again before their next call. True: others have the registry open. The calls that they
 * are in now are not waited for.
 */
bool ledger_world_tell(void);

#endif
