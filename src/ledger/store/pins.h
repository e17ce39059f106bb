/*
 * Pins: which files processes of the run directory use through the kernel. See ledger/world.h.
 */
#ifndef LEDGER_PINS_H
#define LEDGER_PINS_H

#include <stdbool.h>
#include <stdint.h>

/* Opens the file of the pins in the run directory, which must have been prepared. One that was
 * removed since is replaced. 0 or -errno. */
int ledger_world_open(void);

/* In the child of fork(). */
void ledger_world_after_fork(void);
/* The run directory is another one: what is pinned is pinned there as well. */
void ledger_world_move(void);

/*
 * This process uses the file through the kernel from now on, until it ends; `reason` is a string
 * constant. Of a process with many such files others may be taken for pinned, too. False: that
 * cannot be noted (no descriptor, no run directory).
 */
bool ledger_world_pin(uint64_t device, uint64_t inode, const char *reason);

/* Why this process pinned the file first; NULL: it did not. */
const char *ledger_world_reason(uint64_t device, uint64_t inode);

/* Does a process of the run directory, this one included, pin the file? */
bool ledger_world_is_pinned(uint64_t device, uint64_t inode);

/*
 * For a process without a registry that has just pinned a file: makes the others look at the pins
 * again before their next call. True: others have the registry open; calls that they are in now
 * are not waited for.
 */
bool ledger_world_tell(void);

#endif
