/* What the tests of src/stats count, and how they read what ended processes counted. */
#ifndef TEST_STATS_SCENE_H
#define TEST_STATS_SCENE_H

#include "stats/count.h"
#include "stats/read.h"
#include "host_test.h"

unsigned add_server(const char *name);
void path_answered(struct directnfs_path_stats *path, uint64_t latency_ns);

extern struct directnfs_stats ended;

/* The sum of what ended; -ENOENT: nothing did; -EBADMSG: it cannot be read. */
int read_ended(struct directnfs_stats *sum);

#endif
