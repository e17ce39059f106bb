/* directnfs stat: the processes and servers that are shown. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/stat/view.h"

const struct directnfs_server_stats *stat_server_of(const struct directnfs_stats *stats,
                                                    uint32_t index)
{
    if (index >= stats->server_count || index >= DIRECTNFS_SERVERS ||
        stats->servers[index].slot == DIRECTNFS_SLOT_FREE)
        return NULL;
    return &stats->servers[index];
}

size_t stat_server_id(const struct stat_set *set, const struct directnfs_server_stats *server)
{
    for (size_t i = 0; server && i < set->server_count; i++)
        if (stats_same_server(set->servers[i], server))
            return i + 1;
    return 0;
}

/* Empties the slots of other servers. False: nothing is left. */
static bool keep_server(struct directnfs_stats *stats, const char *name)
{
    bool keep[DIRECTNFS_SERVERS + 1] = {false}, any = false;
    for (uint32_t i = 0; i < DIRECTNFS_SERVERS; i++) {
        const struct directnfs_server_stats *server = stat_server_of(stats, i);
        keep[i] = server && strncmp(server->name, name, sizeof(server->name)) == 0;
        any |= keep[i];
        if (!keep[i])
            stats->servers[i].slot = DIRECTNFS_SLOT_FREE;
    }
    for (uint32_t i = 0; i < DIRECTNFS_MOUNTS && i < stats->mount_count; i++)
        if (strncmp(stats->mounts[i].name, name, sizeof(stats->mounts[i].name)) != 0)
            stats->mounts[i].slot = DIRECTNFS_SLOT_FREE;
    for (uint32_t i = 0; i < DIRECTNFS_SESSIONS && i < stats->session_count; i++)
        if (strncmp(stats->sessions[i].name, name, sizeof(stats->sessions[i].name)) != 0)
            stats->sessions[i].slot = DIRECTNFS_SLOT_FREE;
    for (uint32_t i = 0; i < DIRECTNFS_CHANNELS && i < stats->channel_count; i++)
        if (stats->channels[i].server > DIRECTNFS_SERVERS || !keep[stats->channels[i].server])
            stats->channels[i].slot = DIRECTNFS_SLOT_FREE;
    for (uint32_t i = 0; i < DIRECTNFS_FILES && i < stats->file_count; i++)
        if (stats->files[i].server > DIRECTNFS_SERVERS || !keep[stats->files[i].server])
            stats->files[i].slot = DIRECTNFS_SLOT_FREE;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < DIRECTNFS_PATHS && i < stats->path_count; i++)
        if (strncmp(stats->paths[i].name, name, sizeof(stats->paths[i].name) - 1) == 0)
            stats->paths[kept++] = stats->paths[i];
    stats->path_count = kept;
    return any;
}

void stat_set_make(struct stat_set *set, struct stats_snapshot *snapshot,
                   const struct stat_filter *filter)
{
    struct directnfs_stats **all = filter->last ? snapshot->ended : snapshot->processes;
    size_t count = filter->last ? snapshot->ended_count : snapshot->count;
    *set = (struct stat_set){.last = filter->last, .server = filter->server, .snapshot = snapshot};
    set->processes = cmd_need(calloc(count + 1, sizeof(*set->processes)));
    for (size_t i = 0; i < count; i++) {
        if ((filter->pid == 0 || all[i]->pid == filter->pid) &&
            (filter->server == NULL || keep_server(all[i], filter->server)))
            set->processes[set->count++] = all[i];
    }
    struct stats_snapshot shown = {.processes = (struct directnfs_stats **)set->processes,
                                   .count = (unsigned)set->count};
    bool everything = !filter->last && filter->pid == 0 && filter->server == NULL;
    if (everything)
        shown = *snapshot;
    bool listed = cmd_mounts_add(&set->mounts, set->processes, set->count, !filter->last);
    if (listed && everything)
        listed =
            cmd_mounts_add(&set->mounts, (const struct directnfs_stats *const *)snapshot->ended,
                           snapshot->ended_count, false);
    cmd_need(listed ? set : NULL);
    set->sum = cmd_need(stats_snapshot_sum(&shown));
    for (size_t i = 0; filter->last && i < set->count; i++)
        set->sum->processes += set->processes[i]->processes;

    set->servers = cmd_need(calloc(set->count * DIRECTNFS_SERVERS + 1, sizeof(*set->servers)));
    for (size_t i = 0; i < set->count; i++) {
        for (uint32_t s = 0; s < DIRECTNFS_SERVERS; s++) {
            const struct directnfs_server_stats *server = stat_server_of(set->processes[i], s);
            if (server && stat_server_id(set, server) == 0)
                set->servers[set->server_count++] = server;
        }
    }
}

void stat_set_free(struct stat_set *set)
{
    for (size_t i = 0; i < set->loaded_count; i++)
        free(set->loaded[i]);
    free(set->loaded);
    free(set->processes);
    free(set->servers);
    free(set->sum);
    cmd_mounts_free(&set->mounts);
}
