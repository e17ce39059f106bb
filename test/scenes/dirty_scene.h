/* What the tests of dirty data in the ledger share. */
#ifndef DIRTY_SCENE_H
#define DIRTY_SCENE_H

#include "ledger_test.h"

enum { MOST = 1 << 20 };

int write_behind(struct ledger_file *file, uint64_t offset, size_t length);
void write_dirty(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill);
int take(struct ledger_file *file, struct ledger_write *write);

/* What the dead left. */
int take_strays(struct ledger_file *file, struct ledger_write *write);
int read_dirty(struct ledger_file *file, uint64_t offset, size_t length, size_t *done);
void expect_dirty(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill);

#endif
