/*
 * What `directnfs stat` reads of a run directory. Byte 0 says which file is damaged: a process's
 * statistics, what ended processes left, or the registry. Then come changes: 3 bytes for an offset
 * (least first), 1 for a length, and the bytes to put there. What a reader gets is bounded,
 * printable and finite.
 */
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "host/shared.h"
#include "host/stats_read.h"
#include "host/stats_segment.h"
#include "sys/sys.h"

static char directory[] = "/dev/shm/dnfuzz.XXXXXX";
static const char *const names[] = {NULL /* of this process */, "stats.ended", "registry"};
enum { DAMAGED = sizeof(names) / sizeof(names[0]) };
static char paths[DAMAGED][128];
static struct host_identity self;
static struct host_stats_snapshot before; /* with a good file */

/* ---- files ---- */

/* A good one, as large as it must be and mostly a hole. */
static int make_file(unsigned which)
{
    static struct directnfs_stats stats;
    static struct host_shared shared;
    int fd = open(paths[which], O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0);
    if (which == 2) {
        shared.magic = HOST_REGISTRY_MAGIC;
        shared.layout = HOST_REGISTRY_LAYOUT;
        shared.header_size = sizeof(shared);
        must(pwrite(fd, &shared, 64, 0) == 64 && ftruncate(fd, 4 << 20) == 0);
        return fd;
    }
    stats = (struct directnfs_stats){.magic = DIRECTNFS_STATS_MAGIC,
                                     .layout = DIRECTNFS_STATS_LAYOUT,
                                     .size = sizeof(stats),
                                     .pid = self.pid,
                                     .starttime = self.starttime,
                                     .pid_namespace = host_pid_namespace(),
                                     .server_count = 1,
                                     .path_count = 2,
                                     .channel_count = 2,
                                     .file_count = 3};
    size_t head = offsetof(struct directnfs_stats, counters);
    must(pwrite(fd, &stats, head, 0) == (ssize_t)head && ftruncate(fd, HOST_STATS_BYTES) == 0);
    return fd;
}

static void damage(int fd, const uint8_t *data, size_t size)
{
    while (size > 4) {
        off_t offset = data[0] | data[1] << 8 | data[2] << 16;
        size_t length = data[3];
        data += 4;
        size -= 4;
        length = length < size ? length : size;
        must(pwrite(fd, data, length, offset) == (ssize_t)length);
        data += length;
        size -= length;
    }
}

static void remove_directory(void)
{
    for (unsigned i = 0; i < DAMAGED; i++)
        unlink(paths[i]);
    char lock[128];
    snprintf(lock, sizeof(lock), "%s/stats.lock", directory);
    unlink(lock);
    rmdir(directory);
}

static void prepare(void)
{
    must(mkdtemp(directory) != NULL && setenv("DIRECTNFS_RUN", directory, 1) == 0);
    must(host_identity_self(&self) == 0);
    snprintf(paths[0], sizeof(paths[0]), "%s/stats.%u.%llu", directory, self.pid,
             (unsigned long long)self.starttime);
    for (unsigned i = 1; i < DAMAGED; i++)
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", directory, names[i]);
    atexit(remove_directory);
    close(make_file(0));
    must(host_stats_snapshot_read(&before, NULL) == 0 && before.count == 1);
}

/* ---- what a reader gets ---- */

#define must_be_text(field) must_be_printable((field), sizeof(field))

static void check_stats(const struct directnfs_stats *stats)
{
    must(stats->server_count <= DIRECTNFS_SERVERS && stats->path_count <= DIRECTNFS_PATHS);
    must(stats->channel_count <= DIRECTNFS_CHANNELS && stats->file_count <= DIRECTNFS_FILES);
    must_be_text(stats->program);
    for (unsigned i = 0; i < stats->server_count; i++) {
        const struct directnfs_server_stats *server = &stats->servers[i];
        must_be_text(server->name);
        must_be_text(server->directory);
        must_be_text(server->mount);
        must_be_text(server->security);
        must(server->slot <= DIRECTNFS_SLOT_USED && server->kind <= DIRECTNFS_STANDALONE);
    }
    for (unsigned i = 0; i < stats->path_count; i++) {
        const struct directnfs_path_stats *path = &stats->paths[i];
        must_be_text(path->name);
        must_be_text(path->path);
        must_be_text(path->local);
        must_be_text(path->reason);
        must(path->slot <= DIRECTNFS_SLOT_USED && path->server <= DIRECTNFS_SERVERS);
        must(path->state <= DIRECTNFS_CHANNEL_OFFLINE);
    }
    for (unsigned i = 0; i < stats->channel_count; i++) {
        const struct directnfs_channel_stats *channel = &stats->channels[i];
        must_be_text(channel->path);
        must_be_text(channel->local);
        must(channel->slot <= DIRECTNFS_SLOT_USED && channel->server <= DIRECTNFS_SERVERS);
        must(channel->state <= DIRECTNFS_CHANNEL_OFFLINE);
    }
    for (unsigned i = 0; i < stats->file_count; i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        must_be_text(file->name);
        must_be_text(file->reason);
        must(file->slot <= DIRECTNFS_SLOT_CLOSED && file->server <= DIRECTNFS_SERVERS);
        must(file->state <= DIRECTNFS_FILE_KERNEL);
    }
}

static void check_latency(const struct directnfs_latency *counted)
{
    struct host_latency latency;
    host_stats_latency(counted, &latency);
    must(isfinite(latency.mean) && latency.mean >= 0);
    must(latency.p50 >= 0 && latency.p50 <= latency.p90 && latency.p90 <= latency.p99);
    must(latency.p99 <= latency.max && isfinite(latency.max));
}

static void check_all(const struct host_stats_snapshot *snapshot)
{
    struct directnfs_stats *sum = host_stats_snapshot_sum(snapshot);
    must(sum != NULL);
    for (unsigned i = 0; i < snapshot->count; i++)
        check_stats(snapshot->processes[i]);
    for (unsigned i = 0; i < snapshot->ended_count; i++)
        check_stats(snapshot->ended[i]);
    check_stats(sum);
    for (unsigned i = 0; i < DIRECTNFS_PROCEDURES; i++)
        check_latency(&sum->counters.procedures[i].latency);
    for (unsigned i = 0; i < sum->path_count; i++)
        check_latency(&sum->paths[i].latency);
    free(sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host_stats_snapshot now = {0}, since;
    if (paths[0][0] == '\0')
        prepare();
    if (size == 0)
        return -1;
    unsigned which = data[0] % DAMAGED;
    int fd = make_file(which);
    damage(fd, data + 1, size - 1);
    close(fd);

    must(host_stats_snapshot_read(&now, NULL) == 0);
    must(now.problem_count <= HOST_STATS_PROBLEMS && now.count <= 1);
    must(now.uncommitted_count <= HOST_FILES);
    check_all(&now);
    must(host_stats_snapshot_copy(&since, &now) == 0);
    host_stats_snapshot_subtract(&since, &before);
    check_all(&since);
    host_stats_snapshot_free(&since);
    host_stats_snapshot_free(&now);

    if (which == 0)
        close(make_file(0));
    else
        unlink(paths[which]);
    return 0;
}
