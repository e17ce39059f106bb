/*
 * Has any process of this host begun to change a piece of a file since it was looked at? So that
 * bytes that were read before they are wanted are given out only while they are what a READ would
 * bring now, as far as this host goes.
 */
#ifndef LEDGER_QUIET_H
#define LEDGER_QUIET_H

#include "ledger/entries.h"

enum {
    LEDGER_QUIET_MAX = 256 << 10,
    LEDGER_QUIET_UNITS = (LEDGER_QUIET_MAX >> LEDGER_UNIT_SHIFT) + 1
};

/* What was seen. In the caller's memory. */
struct ledger_quiet {
    uint64_t generation, truncations;
    uint64_t unit; /* the first; the counts of writes are from there on */
    uint32_t starts[LEDGER_QUIET_UNITS];
};

/* Before [start, end) is asked for, at most LEDGER_QUIET_MAX bytes. False: something of this host
 * is in flight there, or may still be executed, or the ledger is not at hand. Takes a lock. */
bool ledger_quiet_begin(struct ledger_file *file, uint64_t start, uint64_t end,
                        struct ledger_quiet *quiet);

/* Has nothing of this host begun in [start, end), a part of that, since? A few loads. */
bool ledger_quiet_lasts(const struct ledger_file *file, const struct ledger_quiet *quiet,
                        uint64_t start, uint64_t end);

/* Under the stripe's lock: a write was announced at `offset`. */
static inline void ledger_quiet_broken(const struct ledger_entry *entry, uint64_t offset)
{
    struct ledger_bucket *bucket = ledger_bucket(ledger_entry_index(entry), offset);
    uint32_t starts = atomic_load_explicit(&bucket->starts, memory_order_relaxed);
    atomic_store_explicit(&bucket->starts, starts + 1, memory_order_release);
}

#endif
