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
#include "ledger/store/pins.h"

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
