/* See stats_segment.h. */
#include "stats_segment.h"

struct directnfs_stats stats_segment_good(const struct run_identity *self)
{
    return (struct directnfs_stats){.magic = DIRECTNFS_STATS_MAGIC,
                                    .layout = DIRECTNFS_STATS_LAYOUT,
                                    .size = sizeof(struct directnfs_stats),
                                    .pid = self->pid,
                                    .starttime = self->starttime,
                                    .pid_namespace = run_pid_namespace(),
                                    .server_count = 1,
                                    .mount_count = 1,
                                    .path_count = 2,
                                    .channel_count = 2,
                                    .file_count = 3};
}

void stats_segment_check(const struct directnfs_stats *stats,
                         void (*must_be_text)(const char *text, size_t size),
                         void (*wrong)(const char *file, int line, const char *condition))
{
#define must(condition) ((condition) ? (void)0 : wrong(__FILE__, __LINE__, #condition))
#define TEXT(field)     must_be_text((field), sizeof(field))
#define OF_SERVER(of)   must((of)->slot <= DIRECTNFS_SLOT_USED && (of)->server <= DIRECTNFS_SERVERS)
    must(stats->server_count <= DIRECTNFS_SERVERS && stats->path_count <= DIRECTNFS_PATHS);
    must(stats->channel_count <= DIRECTNFS_CHANNELS && stats->file_count <= DIRECTNFS_FILES);
    TEXT(stats->program);
    for (unsigned i = 0; i < DIRECTNFS_SERVERS; i++) {
        const struct directnfs_server_stats *server = &stats->servers[i];
        TEXT(server->name);
        TEXT(server->directory);
        TEXT(server->mount);
        TEXT(server->security);
        must(server->slot <= DIRECTNFS_SLOT_USED && server->kind <= DIRECTNFS_STANDALONE);
    }
    must(stats->mount_count <= DIRECTNFS_MOUNTS);
    for (unsigned i = 0; i < DIRECTNFS_MOUNTS; i++) {
        const struct directnfs_mount_stats *mount = &stats->mounts[i];
        TEXT(mount->name);
        TEXT(mount->directory);
        TEXT(mount->mount);
        must(mount->slot <= DIRECTNFS_SLOT_USED);
    }
    for (unsigned i = 0; i < DIRECTNFS_PATHS; i++) {
        const struct directnfs_path_stats *path = &stats->paths[i];
        TEXT(path->name);
        TEXT(path->path);
        TEXT(path->local);
        TEXT(path->reason);
        OF_SERVER(path);
        must(path->state <= DIRECTNFS_CHANNEL_SILENT);
    }
    for (unsigned i = 0; i < DIRECTNFS_CHANNELS; i++) {
        const struct directnfs_channel_stats *channel = &stats->channels[i];
        TEXT(channel->path);
        TEXT(channel->local);
        OF_SERVER(channel);
        must(channel->state <= DIRECTNFS_CHANNEL_SILENT);
        must(channel->security <= DIRECTNFS_SECURITY_ALL);
    }
    for (unsigned i = 0; i < DIRECTNFS_FILES; i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        TEXT(file->name);
        TEXT(file->reason);
        must(file->slot <= DIRECTNFS_SLOT_CLOSED && file->server <= DIRECTNFS_SERVERS);
        must(file->state <= DIRECTNFS_FILE_KERNEL);
    }
#undef must
#undef TEXT
#undef OF_SERVER
}
