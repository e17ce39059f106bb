/*
 * What the threads do to the files of records: they append to them, all at the same time, read
 * them, and sync.
 */
#ifndef FAULT_APPENDS_H
#define FAULT_APPENDS_H

#include "calls.h"
#include "records.h"

enum { APPEND_SHARE = 8, APPEND_SHARE_MOST = 90 /* of 100 */, LOOK_MOST = 8 };

/* Everything acknowledged before the call is stable when it returns 0. */
void records_sync(struct worker *w, unsigned log);
void records_act(struct worker *w);

/* Nobody appends any more. */
void records_settle(struct worker *w, unsigned log);

/* Before anybody else uses it: all records go, for good. */
void records_cut(struct worker *w, unsigned log);

/* With O_APPEND, from the start or set later. */
int records_open(const struct worker *w, const char *path, int flags);

#endif
