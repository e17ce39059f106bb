/*
 * Chunks that this process has never touched. The first touch of a page is a fault. Scattered
 * writes stay in the ledger until a COMMIT, so that each takes chunks that are new to the process;
 * one system call that fills all its pages costs less. Writes that follow one another get chunks
 * back that are theirs already.
 */
#ifndef LEDGER_TOUCH_H
#define LEDGER_TOUCH_H

#include "ledger/writes.h"

/* If a prepared write has such chunks: has the kernel copy its data. False: that is to be done in
 * another way, as nothing is new, or it failed; then some of it may be copied. */
bool ledger_touch_copy(const struct ledger_write *write, const struct iovec *data, int count);
/* The registry is mapped, and has so many chunks. */
void ledger_touch_begin(uint32_t chunks);

#endif
