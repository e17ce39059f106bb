/*
 * The offset and the flags of an open file description that processes share.
 */
#ifndef LEDGER_OFFSET_H
#define LEDGER_OFFSET_H

#include <stdbool.h>

#include "ledger/file.h"

/* Between these no other process, and no other thread, uses an offset of an open file description
 * of the file that it shares. The end of the process ends it, too. False: it cannot be had, as this
 * process has no place in the registry. */
bool ledger_offset_lock(struct ledger_file *file);
void ledger_offset_unlock(struct ledger_file *file);

/* Between these no other process changes the flags of an open file description of the file that it
 * shares, unless this one needs longer than a moment. False: it cannot be had, as another does. */
bool ledger_flags_lock(const struct ledger_file *file);
void ledger_flags_unlock(const struct ledger_file *file);

/* A dead process uses none. */
void ledger_offsets_of_dead(uint32_t slot);

#endif
