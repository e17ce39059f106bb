#include "host/stats_read.h"

#include <stddef.h>

#include "sys/text.h"

static const char *const procedure_names[DIRECTNFS_PROCEDURES] = {
    "NFS_NULL",   "NFS_GETATTR", "NFS_SETATTR",  "NFS_LOOKUP", "NFS_ACCESS",  "NFS_READLINK",
    "NFS_READ",   "NFS_WRITE",   "NFS_CREATE",   "NFS_MKDIR",  "NFS_SYMLINK", "NFS_MKNOD",
    "NFS_REMOVE", "NFS_RMDIR",   "NFS_RENAME",   "NFS_LINK",   "NFS_READDIR", "NFS_READDIRPLUS",
    "NFS_FSSTAT", "NFS_FSINFO",  "NFS_PATHCONF", "NFS_COMMIT", "NFS_MOUNT"};

const char *host_stats_procedure_name(unsigned procedure)
{
    return procedure < DIRECTNFS_PROCEDURES ? procedure_names[procedure] : NULL;
}

static void clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    sys_text_clean(text);
}

static void clean_server(struct directnfs_server_stats *server)
{
    if (server->slot > DIRECTNFS_SLOT_USED)
        server->slot = DIRECTNFS_SLOT_FREE;
    if (server->kind > DIRECTNFS_STANDALONE)
        server->kind = DIRECTNFS_KERNEL_BACKED;
    clean_text(server->name, sizeof(server->name));
    clean_text(server->directory, sizeof(server->directory));
    clean_text(server->mount, sizeof(server->mount));
    clean_text(server->security, sizeof(server->security));
}

/* Slots that were never used are left untouched: they need no memory. */
void host_stats_clean(struct directnfs_stats *stats)
{
    clean_text(stats->program, sizeof(stats->program));
    for (unsigned i = 0; i < stats->server_count; i++)
        clean_server(&stats->servers[i]);
    for (unsigned i = 0; i < stats->path_count; i++) {
        struct directnfs_path_stats *path = &stats->paths[i];
        if (path->slot > DIRECTNFS_SLOT_USED)
            path->slot = DIRECTNFS_SLOT_FREE;
        if (path->server > DIRECTNFS_SERVERS)
            path->server = DIRECTNFS_SERVERS;
        if (path->state > DIRECTNFS_CHANNEL_OFFLINE)
            path->state = DIRECTNFS_CHANNEL_DOWN;
        clean_text(path->reason, sizeof(path->reason));
        clean_text(path->name, sizeof(path->name));
        clean_text(path->path, sizeof(path->path));
        clean_text(path->local, sizeof(path->local));
    }
    for (unsigned i = 0; i < stats->channel_count; i++) {
        struct directnfs_channel_stats *channel = &stats->channels[i];
        if (channel->slot > DIRECTNFS_SLOT_USED)
            channel->slot = DIRECTNFS_SLOT_FREE;
        if (channel->server > DIRECTNFS_SERVERS)
            channel->server = DIRECTNFS_SERVERS;
        if (channel->state > DIRECTNFS_CHANNEL_OFFLINE)
            channel->state = DIRECTNFS_CHANNEL_DOWN;
        clean_text(channel->path, sizeof(channel->path));
        clean_text(channel->local, sizeof(channel->local));
    }
    for (unsigned i = 0; i < stats->file_count; i++) {
        struct directnfs_file_stats *file = &stats->files[i];
        if (file->slot > DIRECTNFS_SLOT_CLOSED)
            file->slot = DIRECTNFS_SLOT_FREE;
        if (file->server > DIRECTNFS_SERVERS)
            file->server = DIRECTNFS_SERVERS;
        if (file->state > DIRECTNFS_FILE_KERNEL)
            file->state = DIRECTNFS_FILE_DIRECT;
        clean_text(file->reason, sizeof(file->reason));
        clean_text(file->name, sizeof(file->name));
    }
}

/* Where the share `part` of all calls lies, in microseconds. */
static double percentile(const struct directnfs_latency *counted, double total, double part)
{
    double wanted = total * part, seen = 0;
    for (int i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
        double count = (double)counted->histogram[i];
        if (count > 0 && seen + count >= wanted) {
            double low = i ? (double)(UINT64_C(1) << (i - 1)) : 0;
            double high = i ? low * 2 : 1;
            double at = low + (high - low) * (wanted - seen) / count;
            double max = (double)counted->max_ns / 1000;
            return at < max ? at : max;
        }
        seen += count;
    }
    return 0;
}

void host_stats_latency(const struct directnfs_latency *counted, struct host_latency *latency)
{
    double total = 0;
    for (int i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
        total += (double)counted->histogram[i];
    latency->max = (double)counted->max_ns / 1000;
    latency->mean = counted->calls ? (double)counted->total_ns / 1000 / (double)counted->calls : 0;
    latency->p50 = percentile(counted, total, 0.50);
    latency->p90 = percentile(counted, total, 0.90);
    latency->p99 = percentile(counted, total, 0.99);
}
