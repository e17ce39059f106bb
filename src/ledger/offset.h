/*
 * The offset and the flags of an open file description that processes share.
 */
#ifndef LEDGER_OFFSET_H
#define LEDGER_OFFSET_H

#include <stdbool.h>

#include "ledger/file.h"

/* Locks the offsets of all open file descriptions of the file that processes share. No other
 * process or thread uses one meanwhile. The lock ends with the process, too. False: it cannot be
 * had, as this process has no slot, or the file no entry. */
bool ledger_offset_lock(struct ledger_file *file);
void ledger_offset_unlock(struct ledger_file *file);

/* Locks the flags of all open file descriptions of the file that processes share. No other process
 * changes them for a second, or until they are unlocked. False: it cannot be had, as another
 * process has the lock, or there is no registry. */
bool ledger_flags_lock(const struct ledger_file *file);
void ledger_flags_unlock(const struct ledger_file *file);

/* The process of this slot is dead: ends its use of offsets. */
void ledger_offsets_of_dead(uint32_t slot);

#endif
