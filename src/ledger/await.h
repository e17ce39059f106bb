/*
 * Waiting for writes that are in flight, of any process.
 */
#ifndef LEDGER_AWAIT_H
#define LEDGER_AWAIT_H

#include "ledger/file.h"

/*
 * Waits until the writes that are in flight now, of any process, have ended, and none is held, and
 * no change of size is in flight; for handing the file to the kernel, whose writes wait for nobody.
 * 0, or -ETIMEDOUT: there still is one after the time of a hold.
 */
int ledger_file_await_writes(struct ledger_file *file);
/* The same for so long at most, instead. */
int ledger_file_await_writes_for(struct ledger_file *file, uint64_t longest_ns);

#endif
