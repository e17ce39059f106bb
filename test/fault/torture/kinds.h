/* The kinds of faults: each plans what is done in a round, and a round is of one kind or of two. */
#ifndef FAULT_KINDS_H
#define FAULT_KINDS_H

#include "sealed_kinds.h"
#include "session_kinds.h"
#include "visitor.h"

/* ---- visitors ---- */

struct kind {
    const char *name;
    void (*plan)(struct plan *);
    enum target target;
    unsigned weight, paths; /* paths: at least */
    unsigned effects;       /* of enum effect */
};
enum { KINDS = 62 };
extern const struct kind kinds[KINDS];

/* Of the kinds in `allowed`, one, or in every third round two at once. */
void plan_make(struct plan *p, uint64_t seed, unsigned round, unsigned paths,
               const bool allowed[KINDS]);

#endif
