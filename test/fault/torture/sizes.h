/*
 * What the threads do to the sized files. Any thread of any process appends to them, writes over
 * and beyond their end, cuts and grows them; who holds a file does, so that it is known what came
 * after what. All others read meanwhile, ask for the size, and sync.
 */
#ifndef FAULT_SIZES_H
#define FAULT_SIZES_H

#include "calls.h"

enum { SIZED_BYTES = WORDS * 8, PIECE_MOST = 24576, SIZED_SHARE = 35 /* of 100 */ };

/* ---- the journal ---- */

void sized_write_begin(struct worker *w, struct operation *op, enum change change);

/* ---- operations ---- */

void sized_end(struct worker *w, struct operation *op, enum api api, ssize_t result);
__attribute__((format(printf, 3, 4))) void sized_failed(struct worker *w, unsigned file,
                                                        const char *format, ...);

/* The size as the call says it, which must be a right one; -1: it is not, or the call failed. */
off_t sized_size(struct worker *w, unsigned file);

/* Everything acknowledged before the call is stable when it returns 0, and the size it made. */
void sized_sync(struct worker *w, unsigned file);
void sized_act(struct worker *w);

/* Nobody changes it any more. */
void sized_settle(struct worker *w, unsigned file);

#endif
