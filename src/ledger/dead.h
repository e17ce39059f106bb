/*
 * What a process left in the registry when it died, or gave its slot back.
 */
#ifndef LEDGER_DEAD_H
#define LEDGER_DEAD_H

#include <stdint.h>

/* The process of this slot is dead, or has nothing on its way. Gives back what it has: records,
 * turns, COMMITs and offsets. The slot stays. Under process_lock. */
void ledger_dead_give_back(uint32_t slot);

#endif
