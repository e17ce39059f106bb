/* What the tests of the ledger share. Include once per test program. */
#ifndef LEDGER_TEST_H
#define LEDGER_TEST_H

#include "host_test.h"
#include "rounds.h"

enum { MODEL_BYTES = 400000 };

static const uint8_t first_verifier[8] = {1};
__attribute__((unused)) static const uint8_t second_verifier[8] = {2};

static uint32_t seed;
static inline uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * limit >> 28);
}

static uint8_t buffer[HOST_WRITE_MAX];
__attribute__((unused)) static int found[MODEL_BYTES]; /* for read_ledger() */

static inline int begin(struct host_file *file, uint64_t offset, size_t length, bool keep,
                        struct host_write *write)
{
    struct iovec vector = {buffer, length};
    return host_write_begin(file, offset, &vector, 1, length, keep, write);
}

static inline void write_kept(struct host_file *file, uint64_t offset, size_t length, uint8_t fill,
                              const uint8_t *verifier)
{
    struct host_write write;
    memset(buffer, fill, length);
    must(begin(file, offset, length, true, &write) == 0);
    host_write_end(file, &write, HOST_WRITE_UNSTABLE, verifier);
}

static inline void write_stable(struct host_file *file, uint64_t offset, size_t length)
{
    struct host_write write;
    assert_int_equal(begin(file, offset, length, false, &write), 0);
    host_write_end(file, &write, HOST_WRITE_STABLE, NULL);
}

#endif
