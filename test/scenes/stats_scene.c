/* See stats_scene.h. */
#include "stats_scene.h"

unsigned add_server(const char *name)
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

void path_answered(struct directnfs_path_stats *path, uint64_t latency_ns)
{
    struct stats_tally tally = {0};
    stats_tally_add(&tally, &path->latency, latency_ns);
    stats_tally_end(&tally);
}

struct directnfs_stats ended;

int read_ended(struct directnfs_stats *sum)
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
