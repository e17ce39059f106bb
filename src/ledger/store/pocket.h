/*
 * Free records that this process keeps for its next writes.
 */
#ifndef LEDGER_POCKET_H
#define LEDGER_POCKET_H

#include "ledger/store/arena.h"

/* A PRIVATE record for one slice out of the pocket, without the arena's lock in most cases; 0: take
 * it from the arena. */
uint32_t ledger_pocket_take(uint64_t base, uint32_t length, bool kept, uint32_t owner);
/* Gives back PRIVATE records, which are chained by write_next: keeps some of them in the pocket,
 * and gives the others to the arena. */
void ledger_arena_give(uint32_t first);
/* Keeps some of the PRIVATE records chained by write_next; the others are the result. */
uint32_t ledger_pocket_give(uint32_t first);
/* Gives all back to the arena. */
void ledger_pocket_empty(void);
/* In a child: what is in the pocket is the parent's. */
void ledger_pocket_after_fork(void);

#endif
