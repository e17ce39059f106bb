/*
 * Ranges of unknown fate: a request whose connection died may still be carried out, so nobody may
 * write over its range for a while.
 */
#ifndef LEDGER_HOLD_H
#define LEDGER_HOLD_H

#include <stdint.h>

#include "ledger/file.h"

/*
 * Waits until the writes that are in flight now, of any process, have ended, and none is held, and
 * no change of size is in flight; for handing the file to the kernel, whose writes wait for nobody.
 * 0, or -ETIMEDOUT: there still is one after the time of a hold.
 */
int ledger_file_await_writes(struct ledger_file *file);
/* The same for so long at most, instead. */
int ledger_file_await_writes_for(struct ledger_file *file, uint64_t longest_ns);
/* Waits as long as a range is held: before ledger_file_truncate_end(), when the change of size may
 * yet be carried out again. */
void ledger_hold_wait(void);

/* How long this process holds a range; set once, before all else. */
void ledger_hold_set(uint64_t length_ns);
uint64_t ledger_hold_ns(void);

#endif
