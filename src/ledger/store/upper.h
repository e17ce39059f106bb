/*
 * What this folder asks of files above it, all of it on slow paths. The functions are set once, in
 * ledger/upper.c.
 */
#ifndef LEDGER_UPPER_H
#define LEDGER_UPPER_H

#include <stdint.h>

struct ledger_upper {
    /* Under process_lock: the process of this slot is dead, or leaves. What it has of files is
     * given back. See ledger_dead_give_back(). */
    void (*give_back)(uint32_t slot);
    /* Under the stripe's lock, which was got from a dead owner: makes the stripe's buckets, lists
     * and counters again from the records. See ledger_stripe_rebuild(). */
    void (*rebuild)(uint32_t stripe);
    /* For a thread that has waited for long: the agent's process, or 0. See ledger_agent_pid(). */
    uint32_t (*agent_pid)(void);
};
extern const struct ledger_upper ledger_upper;

#endif
