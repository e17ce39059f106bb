/*
 * Wrong answers of powerserver.c: `lie NAME [PERCENT]` chooses one, of so many replies. What is
 * executed is executed; only what is said of it is wrong. Data that a READ brings are never
 * changed: no client could tell.
 */
#ifndef FAULT_LIES_H
#define FAULT_LIES_H

#include "loop.h"

/* What becomes of the connection: it goes on, is closed, stays and says nothing more; or the reply
 * comes in drips. */
enum after { AFTER_NOTHING, AFTER_CLOSE, AFTER_MUTE, AFTER_DRIP };

/* A reply on its way to becoming a lie. */
struct lie {
    struct message *m;
    uint32_t program, procedure;
    enum after after;
    uint64_t *random;
};

/* The names, one behind the other; NULL: there is no further one. */
const char *lie_name(unsigned index);

/* Tells the chosen lie. */
void lie_tell(struct lie *lie);

/* Is it time for one? */
bool lie_now(uint64_t *random);
bool lie_now_at_accept(uint64_t *random);

/* By name; "truth" for none. */
bool lie_choose(const char *name, unsigned percent);

#endif
