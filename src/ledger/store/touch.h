/*
 * Memory of the registry that this process has never touched. The first touch of a page is a fault,
 * and scattered writes stay in the ledger until a COMMIT, so that each takes chunks that are new to
 * the process. One system call maps as many pages as 64 KiB of them have.
 */
#ifndef LEDGER_TOUCH_H
#define LEDGER_TOUCH_H

#include <stdint.h>

/* Has the chunks of a prepared write mapped, for it to be copied there: of so many records, chained
 * by write_next. */
void ledger_touch(uint32_t first_record, uint32_t count);
/* The registry is mapped, and has so many chunks. */
void ledger_touch_begin(uint32_t chunks);

#endif
