/* A segment of statistics as a good process leaves it, and what a reader may rely on whatever a
 * segment held. */
#ifndef TEST_STATS_SEGMENT_H
#define TEST_STATS_SEGMENT_H

#include "run/identity.h"
#include "stats/segment.h"

struct directnfs_stats stats_segment_good(const struct run_identity *self);

/* `must_be_text` gets every text with the room that it has; `wrong` is told which condition does
 * not hold, and does not return. */
void stats_segment_check(const struct directnfs_stats *stats,
                         void (*must_be_text)(const char *text, size_t size),
                         void (*wrong)(const char *file, int line, const char *condition));

#endif
