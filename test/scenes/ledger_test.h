/* What the tests of the ledger share. */
#ifndef LEDGER_TEST_H
#define LEDGER_TEST_H

#include "host_test.h"
#include "rounds.h"

enum { MODEL_BYTES = 400000 };

extern const uint64_t first_verifier; /* as of a clock: of 64 bits */
extern const uint64_t second_verifier;
extern uint32_t seed;

uint32_t random_below(uint32_t limit);

extern uint8_t buffer[LEDGER_WRITE_MAX];
extern int found[MODEL_BYTES]; /* for read_ledger() */

int begin(struct ledger_file *file, uint64_t offset, size_t length, bool keep,
          struct ledger_write *write);
void write_kept(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill,
                uint64_t verifier);
void write_stable(struct ledger_file *file, uint64_t offset, size_t length);

/* For a child that has a write in flight and says so. */
struct in_flight {
    struct ledger_file *file;
    size_t length;
    int ready[2];
};

/* Starts a child that has the first bytes of a file in flight until it is killed. */
pid_t start_in_flight(struct ledger_file *file, size_t length);

#endif
