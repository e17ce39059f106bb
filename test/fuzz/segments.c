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
#include "ledger/store/layout.h"
#include "stats/read.h"
#include "stats_segment.h"
#include "sys/sys.h"

static char directory[] = "/dev/shm/dnfuzz.XXXXXX";
static const char *const names[] = {NULL /* of this process */, DIRECTNFS_STATS_ENDED, "registry"};
enum { DAMAGED = sizeof(names) / sizeof(names[0]) };
static char paths[DAMAGED][128];
static struct run_identity self;
static struct stats_snapshot before; /* with a good file */

/* ---- files ---- */

/* A good one, as large as it must be and mostly a hole. */
static int make_file(unsigned which)
{
    static struct directnfs_stats stats;
    static struct ledger_shared shared;
    int fd = open(paths[which], O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0);
    if (which == 2) {
        shared.head.magic = LEDGER_REGISTRY_MAGIC;
        shared.head.layout = LEDGER_REGISTRY_LAYOUT;
        shared.head.header_size = sizeof(shared);
        must(pwrite(fd, &shared, 64, 0) == 64 && ftruncate(fd, 4 << 20) == 0);
        return fd;
    }
    stats = stats_segment_good(&self);
    size_t head = offsetof(struct directnfs_stats, counters);
    must(pwrite(fd, &stats, head, 0) == (ssize_t)head && ftruncate(fd, STATS_BYTES) == 0);
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
    must(run_identity_self(&self) == 0);
    snprintf(paths[0], sizeof(paths[0]), "%s/stats.%u.%llu", directory, self.pid,
             (unsigned long long)self.starttime);
    for (unsigned i = 1; i < DAMAGED; i++)
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", directory, names[i]);
    atexit(remove_directory);
    close(make_file(0));
    must(stats_snapshot_read(&before, NULL) == 0 && before.count == 1);
}

/* ---- what a reader gets ---- */

static void check_latency(const struct directnfs_latency *counted)
{
    struct stats_latency latency;
    stats_latency(counted, &latency);
    must(isfinite(latency.mean) && latency.mean >= 0);
    must(latency.p50 >= 0 && latency.p50 <= latency.p90 && latency.p90 <= latency.p99);
    must(latency.p99 <= latency.max && isfinite(latency.max));
}

static void check_all(const struct stats_snapshot *snapshot)
{
    struct directnfs_stats *sum = stats_snapshot_sum(snapshot);
    must(sum != NULL);
    for (unsigned i = 0; i < snapshot->count; i++)
        stats_segment_check(snapshot->processes[i], must_be_printable, fuzz_wrong);
    for (unsigned i = 0; i < snapshot->ended_count; i++)
        stats_segment_check(snapshot->ended[i], must_be_printable, fuzz_wrong);
    stats_segment_check(sum, must_be_printable, fuzz_wrong);
    for (unsigned i = 0; i < DIRECTNFS_PROCEDURES; i++)
        check_latency(&sum->counters.procedures[i].latency);
    for (unsigned i = 0; i < sum->path_count; i++)
        check_latency(&sum->paths[i].latency);
    free(sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stats_snapshot now = {0}, since;
    if (paths[0][0] == '\0')
        prepare();
    if (size == 0)
        return -1;
    unsigned which = data[0] % DAMAGED;
    int fd = make_file(which);
    damage(fd, data + 1, size - 1);
    close(fd);

    must(stats_snapshot_read(&now, NULL) == 0);
    must(now.problem_count <= STATS_PROBLEMS && now.count <= 1);
    must(now.uncommitted_count <= LEDGER_FILES);
    check_all(&now);
    must(stats_snapshot_copy(&since, &now) == 0);
    stats_snapshot_subtract(&since, &before);
    check_all(&since);
    stats_snapshot_free(&since);
    stats_snapshot_free(&now);

    if (which == 0)
        close(make_file(0));
    else
        unlink(paths[which]);
    return 0;
}
