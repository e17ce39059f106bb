/* What the tests of src/stats count, and how they read what ended processes counted. */
#ifndef TEST_STATS_SCENE_H
#define TEST_STATS_SCENE_H

#include "stats/count.h"
#include "stats/read.h"
#include "host_test.h"

static inline unsigned add_server(const char *name)
{
    struct stats_server server = {.version = 3,
                                  .name = name,
                                  .directory = "/export",
                                  .mount = "/mnt",
                                  .security = "sys",
                                  .nfsport = 2049,
                                  .mntport = 20048,
                                  .wtmax = 1 << 20,
                                  .rtmax = 1 << 20};
    return stats_server(&server);
}

static inline void path_answered(struct directnfs_path_stats *path, uint64_t latency_ns)
{
    struct stats_tally tally = {0};
    stats_tally_add(&tally, &path->latency, latency_ns);
    stats_tally_end(&tally);
}

static struct directnfs_stats ended;

/* The sum of what ended; -ENOENT: nothing did; -EBADMSG: it cannot be read. */
static inline int read_ended(struct directnfs_stats *sum)
{
    struct stats_snapshot list = {0};
    int error = stats_snapshot_read(&list, NULL);
    if (!error && list.ended_count == 1)
        memcpy(sum, list.ended[0], sizeof(*sum));
    else if (!error)
        error = list.problem_count ? -EBADMSG : -ENOENT;
    stats_snapshot_free(&list);
    return error;
}

#endif
