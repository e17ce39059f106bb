/*
 * Which world a file is in: for all processes of a user on a host it is either the engine's or the
 * kernel's.
 *
 * A process that uses a file through the kernel pins it: a shared lock (F_OFD_SETLK, fcntl(2)) on a
 * byte of the file `worlds` in the run directory, found from device and inode number. That needs no
 * shared memory, and ends with the process and the children that it forked, however they end. The
 * registry remembers it in the entry of the file; an entry that is made anew asks the lock.
 *
 *   engine's world     writes are announced in the ledger; nobody writes through the kernel
 *   on its way         no write is announced any more; what was written is being committed
 *   kernel's world     the ledger has nothing of it
 *
 * A process that meets a file on its way does the rest of the way itself, so it does not matter
 * which process dies in between. A file comes back when nobody pins it any more.
 */
#ifndef LEDGER_WORLD_H
#define LEDGER_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

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
/* For such a process: is any file with this number dirty (dirty.h)? Reads the registry as a file.
 */
bool ledger_outside_dirty(uint64_t device, uint64_t inode);

/*
 * Sets the file, which this process has pinned, on its way to the kernel's world. `pinned` false:
 * it could not be pinned; then it stays there as long as the entry lives. A file that nobody knows
 * needs no entry: a process that makes one sees the pin.
 */
void ledger_world_leave(struct ledger_file *file, bool pinned);

/* Is the file in the kernel's world, or on its way there? A few loads. */
bool ledger_world_is_kernel(struct ledger_file *file);

/* Is it there? Notes that it is, if nothing of it is left: no write in flight, none uncommitted. */
bool ledger_world_arrived(struct ledger_file *file);

/*
 * The way back, for a process that has no managed descriptor of the file yet: take
 * ledger_world_pins(), flush what the kernel has of the file, come back. True: the file is the
 * engine's now; nobody pins it, and nobody did in between.
 */
uint32_t ledger_world_pins(struct ledger_file *file);
bool ledger_world_come_back(struct ledger_file *file, uint32_t pins);

#endif
