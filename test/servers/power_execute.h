/*
 * What powerserver.c makes of a call: it is executed, and it is noted what stable storage would
 * hold then. And the files get other handles.
 */
#ifndef FAULT_EXECUTE_H
#define FAULT_EXECUTE_H

#include <fts.h>

#include "power_stable.h"

extern uint64_t random_state;

extern uint64_t bad_count; /* COMMITs until one fails; 0: none will */

#define COUNTERS   \
    X(connections) \
    X(writes)      \
    X(commits)     \
    X(cached)      \
    X(waited)      \
    X(again_told) X(again) X(parked) X(losses) X(lost_pages) X(rehandles) X(stale) X(bad) X(lies)

struct counters {
#define X(name) uint64_t name;
    COUNTERS
#undef X
};
extern struct counters counters;

/* ---- handles ---- */

/* Every file gets a new handle; with `others` each name has another file, with equal bytes. */
void rehandle(bool others);

/* ---- calls ---- */

/* Then the disk has lost what it was to write. */
bool commit_is_bad(const struct file *file);

/* Executes a call. The reply, or NULL: the call is garbage. */
struct message *execute(const struct message *record, const struct call *call);

#endif
