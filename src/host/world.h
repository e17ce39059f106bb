/*
 * Which world a file is in: for all processes of a user on a host it is either the engine's or the
 * kernel's.
 *
 * Who uses a file through the kernel pins it: a shared lock (F_OFD_SETLK, fcntl(2)) on a byte of
 * the file `worlds` in the run directory, found from device and inode number. That needs no shared
 * memory, and ends with the process and the children that it forked, however they end. The registry
 * remembers it in the entry of the file; an entry that is made anew asks the lock.
 *
 *   engine's world     writes are announced in the ledger; nobody writes through the kernel
 *   on its way         no write is announced any more; what was written is being committed
 *   kernel's world     the ledger has nothing of it
 *
 * Whoever meets a file that is on its way does the rest of the way itself, so it does not matter
 * who dies in it. A file comes back when nobody pins it any more.
 */
#ifndef HOST_WORLD_H
#define HOST_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "host/registry.h"

/* Opens the file of the pins in the run directory, which must have been prepared. 0 or -errno. */
int host_world_open(void);

/* In the child of fork(). */
void host_world_after_fork(void);
/* The run directory is another one: what is pinned is pinned there as well. */
void host_world_move(void);

/*
 * This process uses the file through the kernel from now on, until it ends; `reason` is a string
 * constant. False: that cannot be noted (no descriptor, no run directory, too many files).
 */
bool host_world_pin(uint64_t device, uint64_t inode, const char *reason);

/* Why this process pinned the file first; NULL: it did not. */
const char *host_world_reason(uint64_t device, uint64_t inode);

/* Does a process of the run directory, this one included, pin the file? */
bool host_world_is_pinned(uint64_t device, uint64_t inode);

/*
 * For a process without a registry that has just pinned a file: others look at the pins again
 * before their next call. True if there are others who have the registry open, whose calls of this
 * moment are not waited for.
 */
bool host_world_tell(void);

/*
 * Pins the file and sets it on its way to the kernel's world; with `pinned` false, without being
 * able to take that back as long as the entry lives. A file that nobody knows needs no entry: who
 * makes one sees the pin.
 */
void host_world_leave(struct host_file *file, bool pinned);

/* Is the file in the kernel's world, or on its way there? A few loads. */
bool host_world_is_kernel(struct host_file *file);

/* Is it there? Notes that it is, if nothing of it is left: no write in flight, none uncommitted. */
bool host_world_arrived(struct host_file *file);

/*
 * Brackets the way back, for who has no descriptor of the file yet: after host_world_pins() the
 * kernel's own writes must be flushed. True: the file is the engine's now, as nobody pins it and
 * nobody did in between.
 */
uint32_t host_world_pins(struct host_file *file);
bool host_world_come_back(struct host_file *file, uint32_t pins);

#endif
