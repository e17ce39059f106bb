/*
 * The world of a file. For all processes of a user on a host a file is either in the engine's world
 * or in the kernel's.
 *
 * A process that uses a file through the kernel pins it: it takes a shared lock (F_OFD_SETLK,
 * fcntl(2)) on a byte of the file `worlds` in the run directory. The byte is found from device and
 * inode number. This needs no shared memory. It ends with the process and the children that it
 * forked, however they end. The registry remembers it in the entry of the file. An entry that is
 * made anew asks for the lock.
 *
 *   engine's world     writes are announced in the ledger; nobody writes through the kernel
 *   on its way         no write is announced any more; what was written is being committed
 *   kernel's world     the ledger has nothing of the file
 *
 * A process that meets a file on its way does the rest of the way itself. So it does not matter
 * which process dies in between. A file comes back when no process pins it any more.
 */
#ifndef LEDGER_WORLD_H
#define LEDGER_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"
#include "ledger/store/pins.h"

/*
 * Sends the file on its way to the kernel's world. `pinned`: this process has pinned it. False: it
 * could not; then the file stays there as long as its entry lives. A file without an entry gets
 * one, or, if there is no room, a process that makes one later sees the pin.
 */
void ledger_world_leave(struct ledger_file *file, bool pinned);

/* Is the file in the kernel's world, or on its way there? A few loads. */
bool ledger_world_is_kernel(struct ledger_file *file);

/* Is the file in the kernel's world? Notes that it is, if nothing of it is left in the ledger: no
 * write in flight, nothing uncommitted. */
bool ledger_world_arrived(struct ledger_file *file);

/*
 * The way back, for a process that has no managed descriptor of the file yet. It takes
 * ledger_world_pins(), flushes what the kernel has of the file, and comes back. True: the file is
 * in the engine's world now. No process pins it, and none did in between.
 */
uint32_t ledger_world_pins(struct ledger_file *file);
bool ledger_world_come_back(struct ledger_file *file, uint32_t pins);

#endif
