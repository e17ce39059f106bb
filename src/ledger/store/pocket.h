/*
 * Free records that this process keeps for its next writes.
 */
#ifndef LEDGER_POCKET_H
#define LEDGER_POCKET_H

#include "ledger/store/arena.h"

/* A PRIVATE record for one slice, out of the pocket, mostly without the arena's lock. 0: the pocket
 * has none; take it from the arena. */
uint32_t ledger_pocket_take(uint64_t base, uint32_t length, bool kept, uint32_t owner);
/* Gives back PRIVATE records, which are chained by write_next. The pocket keeps some, and the arena
 * gets the others. */
void ledger_arena_give(uint32_t first);
/* The pocket keeps some of the PRIVATE records chained by write_next. Returns the chain of the
 * others. */
uint32_t ledger_pocket_give(uint32_t first);
/* Gives all records of the pocket back to the arena. */
void ledger_pocket_empty(void);
/* In the child of fork(): forgets the records in the pocket, which are the parent's. */
void ledger_pocket_after_fork(void);

#endif
