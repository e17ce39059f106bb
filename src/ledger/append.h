/*
 * Writes to the end of a file.
 */
#ifndef LEDGER_APPEND_H
#define LEDGER_APPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/*
 * A write of `length` bytes to the end of the file, with an answer of the server to a question of
 * `fresh_ns` or later. Begin takes the turn, of all processes of the host, and finds out where the
 * end is when nothing is in flight or held behind it: 0, and `offset`. Pieces are written there by
 * ledger_write_start() with `appends`, one after the other; writes of others beyond the end, and
 * changes of size, wait until ledger_append_end(), which must follow whatever begin returned.
 * -ENODATA: the server must be asked for the size (ledger_file_learned()); -EAGAIN instead of
 * waiting: then the same once more. -ENOSPC; -ESTALE; LEDGER_OF_KERNEL.
 */
struct ledger_append {
    uint64_t length, fresh_ns;
    uint64_t offset; /* result */
    bool turn;       /* false at first */
};
int ledger_append_begin(struct ledger_file *file, struct ledger_append *append, bool wait);
/* `failed`: the server may have some bytes that were not acknowledged. */
void ledger_append_end(struct ledger_file *file, struct ledger_append *append, bool failed);

/*
 * Whether a descriptor appends is known by the kernel only, and may be changed by another process
 * that has a duplicate. That process says so before and after it does, so that who sees the same
 * number as when it asked the kernel need not ask again.
 */
uint32_t ledger_append_changes(void);
void ledger_append_changed(void);

#endif
