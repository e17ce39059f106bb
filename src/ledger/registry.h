/*
 * The registry: files as all processes of one host and user see them, in shared memory. It has
 * their size and attributes, at the speed of memory, and the ledger of written but uncommitted
 * data.
 *
 * Everything here survives the death of any process at any instruction: mutexes are robust and
 * shared by processes, and what a lock guards can be made again from the records. Nothing waits for
 * the network.
 */
#ifndef LEDGER_REGISTRY_H
#define LEDGER_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Maps the registry in the run directory ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>/), once in
 * a process. If there is none, makes one with room for `uncommitted_max` bytes of uncommitted data.
 * `hold_ns`: how long a request may survive in the network and in the server's queues after its
 * connection is gone. The range of a write of unknown fate is blocked for that long. 0: never. 0;
 * -errno: it cannot be had (the log says why), and no file may be adopted.
 */
int ledger_registry_open(uint64_t uncommitted_max, uint64_t hold_ns);
bool ledger_registry_ready(void);

/*
 * Was the registry's file removed while this process has it mapped? Then other processes make a new
 * one. Looks once in each of sys_ticks(), 16 ms at most. Once it is true, it stays true.
 */
bool ledger_registry_is_gone(void);
/* What ledger_registry_is_gone() found last. */
bool ledger_registry_was_gone(void);
/* Is there a registry in the run directory, also one that another process made? */
bool ledger_registry_exists(void);

/*
 * The run directory is another user's now (run_become()). Maps the registry there in place of the
 * old one, where the place of this process is given back. No other thread may use either, and
 * nothing may be in flight. -errno as ledger_registry_open(): then the old one stays.
 */
int ledger_registry_move(uint64_t uncommitted_max, uint64_t hold_ns);

/* In the child of fork(): the child is a process of its own in the registry. */
void ledger_registry_after_fork(void);

#endif
