/*
 * Waiting for writes that are in flight, of any process.
 */
#ifndef LEDGER_AWAIT_H
#define LEDGER_AWAIT_H

#include "ledger/file.h"

/*
 * Waits until the writes that are in flight now, of any process, have ended. Waits also until no
 * write is held, and no change of size is in flight. It is called before the file goes to the
 * kernel: the kernel's writes wait for no process. 0; -ETIMEDOUT: some are left after the time of a
 * hold.
 */
int ledger_file_await_writes(struct ledger_file *file);
/* As ledger_file_await_writes(), but waits for `longest_ns` at most. */
int ledger_file_await_writes_for(struct ledger_file *file, uint64_t longest_ns);

#endif
