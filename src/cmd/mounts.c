#include "cmd/mounts.h"

#include <stdlib.h>
#include <string.h>

/* Appends a mount without counts. NULL: no memory. */
static struct cmd_mount *append(struct cmd_mounts *mounts, uint32_t user,
                                const struct directnfs_mount_stats *names)
{
    struct cmd_mount *more = reallocarray(mounts->list, mounts->count + 1, sizeof(*more));
    if (more == NULL)
        return NULL;
    mounts->list = more;
    struct cmd_mount *mount = &more[mounts->count++];
    *mount = (struct cmd_mount){.user = user, .sum = *names};
    memset(mount->sum.operations, 0, sizeof(mount->sum.operations));
    return mount;
}

/* The sum that a mount of a user belongs to. NULL: no memory. */
static struct cmd_mount *find(struct cmd_mounts *mounts, uint32_t user,
                              const struct directnfs_mount_stats *wanted)
{
    struct directnfs_mount_stats others = {
        .slot = DIRECTNFS_SLOT_USED, .name = "others", .directory = "others", .mount = "others"};
    unsigned of_user = 0;
    for (size_t i = 0; i < mounts->count; i++) {
        if (mounts->list[i].user != user)
            continue;
        if (stats_same_mount(&mounts->list[i].sum, wanted))
            return &mounts->list[i];
        of_user++;
    }
    if (of_user < DIRECTNFS_MOUNTS - 1)
        return append(mounts, user, wanted);
    for (size_t i = 0; i < mounts->count; i++)
        if (mounts->list[i].user == user && stats_same_mount(&mounts->list[i].sum, &others))
            return &mounts->list[i];
    return append(mounts, user, &others);
}

bool cmd_mounts_add(struct cmd_mounts *mounts, const struct directnfs_stats *const *processes,
                    size_t count, bool running)
{
    for (size_t p = 0; p < count; p++) {
        const struct directnfs_stats *stats = processes[p];
        for (unsigned i = 0; i < stats->mount_count && i < DIRECTNFS_MOUNTS; i++) {
            if (stats->mounts[i].slot != DIRECTNFS_SLOT_USED)
                continue;
            struct cmd_mount *mount = find(mounts, stats->uid, &stats->mounts[i]);
            if (mount == NULL)
                return false;
            mount->processes += running;
            stats_add_mount(&mount->sum, &stats->mounts[i]);
        }
    }
    return true;
}

void cmd_mounts_free(struct cmd_mounts *mounts)
{
    free(mounts->list);
    *mounts = (struct cmd_mounts){0};
}

struct cmd_operation cmd_operation(const struct directnfs_operation_stats *counted)
{
    double calls = (double)counted->calls;
    struct cmd_operation means = {0};
    if (counted->calls == 0)
        return means;
    means.kilobytes = (double)counted->bytes / 1024 / calls;
    means.rtt_us = (double)counted->rtt_ns / 1000 / calls;
    means.queue_us = (double)counted->queue_ns / 1000 / calls;
    means.exe_us = means.rtt_us + means.queue_us;
    return means;
}
