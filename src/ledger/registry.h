/*
 * Files as all processes of one host (and user) see them, in shared memory: size and attributes at
 * memory speed, and the ledger of written but uncommitted data.
 *
 * Everything here survives the death of any process at any instruction (robust process-shared
 * mutexes; what a lock guards can be rebuilt from the records), and nothing blocks on the network.
 */
#ifndef LEDGER_REGISTRY_H
#define LEDGER_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Maps the registry in the run directory ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>/), making
 * it with room for `uncommitted_max` bytes of uncommitted data if it is not there. Once a process.
 * `hold_ns`: how long a request may survive in the network and in the server's queues after its
 * connection is gone; the range of a write of unknown fate stays blocked for that long. 0: never.
 * -errno when it cannot be had (said on the log with the reason); then no file may be adopted.
 */
int ledger_registry_open(uint64_t uncommitted_max, uint64_t hold_ns);
bool ledger_registry_ready(void);

/*
 * Was the registry's file removed while this process has it mapped? Then others make a new one. It
 * is looked at once in each of sys_ticks(), 16 ms at most. It stays so.
 */
bool ledger_registry_is_gone(void);
/* What that found last. */
bool ledger_registry_was_gone(void);
/* Is there a registry in the run directory, whoever made it? */
bool ledger_registry_exists(void);

/*
 * The run directory is another user's now (run_become()): maps the registry there in place of
 * the one before, in which this process's place is given back. No other thread uses either, and
 * nothing is in flight. -errno as ledger_registry_open(): then the old one stays.
 */
int ledger_registry_move(uint64_t uncommitted_max, uint64_t hold_ns);

/* In the child of fork(): the child is a process of its own in the registry. */
void ledger_registry_after_fork(void);

#endif
