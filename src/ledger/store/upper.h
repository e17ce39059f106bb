/*
 * Functions of files above this folder that it calls, all on slow paths. They are set once, in
 * ledger/upper.c.
 */
#ifndef LEDGER_UPPER_H
#define LEDGER_UPPER_H

#include <stdint.h>

struct ledger_upper {
    /* The process of this slot is dead, or leaves: gives back what it has of files. Under
     * process_lock. See ledger_dead_give_back(). */
    void (*give_back)(uint32_t slot);
    /* Makes the stripe's buckets, lists and counters again from the records. Under the stripe's
     * lock, after its owner died. See ledger_stripe_rebuild(). */
    void (*rebuild)(uint32_t stripe);
    /* The process of the agent; 0: none. For a thread that has waited for long. See
     * ledger_agent_pid(). */
    uint32_t (*agent_pid)(void);
};
extern const struct ledger_upper ledger_upper;

#endif
