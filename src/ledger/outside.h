/*
 * The registry as a file, for a process that cannot map it.
 */
#ifndef LEDGER_OUTSIDE_H
#define LEDGER_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Is any file with this number dirty (dirty.h)? Takes no lock, and no memory. */
enum ledger_outside {
    LEDGER_OUTSIDE_CLEAN, /* or no process may use the registry */
    LEDGER_OUTSIDE_DIRTY,
    LEDGER_OUTSIDE_UNKNOWN /* it cannot be read now */
};
enum ledger_outside ledger_outside_look(uint64_t device, uint64_t inode);

#endif
