/*
 * Writes to the end of a file.
 */
#ifndef LEDGER_APPEND_H
#define LEDGER_APPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/*
 * A write of `length` bytes to the end of the file. The size must come from an answer to a question
 * that was asked at `fresh_ns` or later.
 *
 * Begin takes the turn to append, of all processes of the host. It finds the end of the file when
 * nothing is in flight or held behind it. Pieces are then written there by ledger_write_start()
 * with `appends`, one after the other. Writes of others beyond the end, and changes of size, wait
 * until ledger_append_end(). That must follow whatever begin returned.
 *   0: `offset` is set.
 *   -ENODATA: the server must be asked for the size (ledger_file_learned()); then begin again.
 *   -EAGAIN: something is in the way, and the caller does not `wait`; then begin again.
 *   -ENOSPC, -ESTALE, LEDGER_OF_KERNEL.
 */
struct ledger_append {
    uint64_t length, fresh_ns;
    uint64_t offset; /* result */
    bool turn;       /* false at first */
};
int ledger_append_begin(struct ledger_file *file, struct ledger_append *append, bool wait);
/* `failed`: the server may have some bytes that it did not acknowledge. */
void ledger_append_end(struct ledger_file *file, struct ledger_append *append, bool failed);

/*
 * Only the kernel knows whether a descriptor appends. Another process that has a duplicate may
 * change that. It calls ledger_append_changed() before and after it does. So a process need not ask
 * the kernel again while it sees the same number as when it asked.
 */
uint32_t ledger_append_changes(void);
void ledger_append_changed(void);

#endif
