/*
 * Memory of the registry that this process has never touched. The first touch of a page is a fault.
 * Scattered writes stay in the ledger until a COMMIT, so each takes chunks that are new to the
 * process. One system call maps all pages of 64 KiB of chunks.
 */
#ifndef LEDGER_TOUCH_H
#define LEDGER_TOUCH_H

#include <stdint.h>

/* Has the chunks of a prepared write mapped, before data is copied there. The write has `count`
 * records, chained by write_next. */
void ledger_touch(uint32_t first_record, uint32_t count);
/* The registry was mapped, and has this many chunks. */
void ledger_touch_begin(uint32_t chunks);

#endif
