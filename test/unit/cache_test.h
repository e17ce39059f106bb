/* What the tests of the host's cache share. */
#ifndef TEST_CACHE_TEST_H
#define TEST_CACHE_TEST_H

#include "ledger_test.h"

#include "ledger/cache.h"
#include "ledger/stamp.h"

enum { PIECE = 8192, CACHE = 1 << 20, NOW = 1 };

static uint8_t got[LEDGER_STAMP_MAX];

static inline struct ledger_attributes times(time_t seconds)
{
    struct ledger_attributes attributes = {.size = MODEL_BYTES};
    attributes.mtime.tv_sec = attributes.ctime.tv_sec = seconds;
    return attributes;
}

#define SECOND UINT64_C(1000000000)

/* So much later the server is asked and written to. */
static uint64_t later_ns;

static inline void server_tells(struct ledger_file *file, time_t seconds)
{
    struct ledger_attributes attributes = times(seconds);
    ledger_file_learned(file, ledger_file_asking(file), &attributes, sys_now_ns() + later_ns);
}

static inline void keep(struct ledger_file *file, const struct ledger_stamp *stamp, uint64_t offset,
                        size_t length, uint8_t fill)
{
    struct iovec vectors[2] = {{buffer, length / 3}, {buffer + length / 3, length - length / 3}};
    memset(buffer, fill, length);
    ledger_cache_keep(file, stamp, offset, vectors, length);
}

static inline void read_in(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill)
{
    struct ledger_stamp stamp;
    must(ledger_stamp_take_quiet(file, offset, offset + length, &stamp));
    keep(file, &stamp, offset, length, fill);
}

/* How many bytes are given at `offset`, all of them `fill`. */
static inline size_t given(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill,
                           uint64_t since_ns)
{
    struct ledger_stamp stamp;
    size_t had = ledger_cache_copy(file, offset, length, got, &stamp);
    if (had == 0 ||
        ledger_cache_judge_copy(file, &stamp, offset, had, since_ns) != LEDGER_CACHE_GOOD)
        return 0;
    for (size_t i = 0; i < had; i++)
        must(got[i] == fill);
    return had;
}

/* A file that the server has told the times of, since it is watched. */
static inline void watched(struct ledger_file *file, uint64_t number)
{
    struct ledger_stamp stamp;
    later_ns = 0;
    attach(file, number);
    server_tells(file, 10);
    must(ledger_stamp_take_quiet(file, 0, 1, &stamp));
    server_tells(file, 10);
}

static inline int open_with_cache(void **state)
{
    ledger_cache_set(CACHE);
    return open_registry(state);
}

#endif
