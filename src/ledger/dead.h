/*
 * What a process left in the registry as it died, or left it.
 */
#ifndef LEDGER_DEAD_H
#define LEDGER_DEAD_H

#include <stdint.h>

/* Under process_lock: the process of this slot is dead, or has nothing on its way. Gives back what
 * it has: records, turns, its COMMITs and offsets. The slot stays. */
void ledger_dead_give_back(uint32_t slot);

#endif
