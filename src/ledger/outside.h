/*
 * The registry as a file, for a process that cannot map it.
 */
#ifndef LEDGER_OUTSIDE_H
#define LEDGER_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Is any file with this number dirty (dirty.h)? False also if that cannot be found out. Takes no
 * lock. */
bool ledger_outside_dirty(uint64_t device, uint64_t inode);

#endif
