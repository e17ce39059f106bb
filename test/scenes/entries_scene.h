/* What the tests of files in the registry share. */
#ifndef TEST_ENTRIES_SCENE_H
#define TEST_ENTRIES_SCENE_H

#include <pthread.h>

#include "host_test.h"

extern const uint64_t verifier;

void write_bytes(struct ledger_file *file, uint64_t offset, size_t length,
                 enum ledger_outcome outcome);
uint64_t size_of(struct ledger_file *file);
void learn(struct ledger_file *file, uint64_t epoch, uint64_t size, long ctime);
void learn_now(struct ledger_file *file, uint64_t size, long ctime);

/* A file of which the server told the size and the change time. */
void attach_learned(struct ledger_file *file, uint64_t inode, uint64_t size, long ctime);

#endif
