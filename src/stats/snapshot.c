/*
 * Snapshots of the statistics of all processes.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stats/read.h"
#include "stats/segment.h"
#include "sys/sys.h"

/* About `name` in the run directory, or about the directory itself. */
static int add_problem(struct stats_snapshot *snapshot, const char *name, const char *reason)
{
    char path[RUN_PATH_MAX];
    if (snapshot->problem_count == STATS_PROBLEMS) {
        snapshot->problems_left_out++;
        return 0;
    }
    void *more =
        reallocarray(snapshot->problems, snapshot->problem_count + 1, sizeof(*snapshot->problems));
    if (!more)
        return -ENOMEM;
    snapshot->problems = more;
    struct stats_problem *problem = &snapshot->problems[snapshot->problem_count++];
    snprintf(problem->path, sizeof(problem->path), "%.*s%s%s", (int)sizeof(problem->path) / 2,
             run_name(path), name ? "/" : "", name ? name : "");
    snprintf(problem->reason, sizeof(problem->reason), "%s", reason);
    return 0;
}

static const char *reason_of(int error)
{
    switch (error) {
    case -EBADMSG:
        return "damaged, or of another version of directnfs";
    case -EPERM:
        return "it belongs to another user";
    default:
        return strerror(-error);
    }
}

/* Takes over `stats`, also when it fails. */
static int add(struct directnfs_stats ***list, unsigned *count, struct directnfs_stats *stats)
{
    void *more = reallocarray(*list, *count + 1, sizeof(**list));
    if (!more) {
        stats_release(stats);
        return -ENOMEM;
    }
    *list = more;
    (*list)[(*count)++] = stats;
    return 0;
}

/* A reading of one directory. */
struct reading {
    struct stats_snapshot *snapshot;
    const struct stats_bounds *bounds;
    int run;
    size_t room, *room_left; /* NULL: no limit */
    const struct directnfs_stats *ended;
    unsigned left_out;
};

/* What is shown is of the directory's owner, whatever is written there. */
static int read_one(struct reading *reading, const char *name, struct directnfs_stats *stats)
{
    int error = stats_read_raw(reading->run, name, stats, reading->room_left);
    if (!error)
        stats_clean(stats);
    stats->uid = (uint32_t)sys_call0(SYS_geteuid);
    return error;
}

/* What ended processes left, if it can be used. */
static int add_ended(struct reading *reading)
{
    struct stats_snapshot *snapshot = reading->snapshot;
    struct directnfs_stats *stats = stats_allocate();
    int error = stats ? read_one(reading, "stats.ended", stats) : -ENOMEM;
    if (!error) {
        reading->ended = stats;
        return add(&snapshot->ended, &snapshot->ended_count, stats);
    }
    if (stats)
        error = error == -ENOENT ? 0 : add_problem(snapshot, "stats.ended", reason_of(error));
    stats_release(stats);
    return error;
}

static int add_process(struct reading *reading, const char *name,
                       const struct run_identity *process)
{
    struct stats_snapshot *snapshot = reading->snapshot;
    struct directnfs_stats *stats = stats_allocate();
    int error = stats ? read_one(reading, name, stats) : -ENOMEM;
    if (!error && (stats->pid != process->pid || stats->starttime != process->starttime))
        error = -EBADMSG;
    if (!error && !(reading->ended && stats_added(reading->ended, stats)))
        return add(&snapshot->processes, &snapshot->count, stats);
    reading->left_out += error == -E2BIG;
    /* Just ended, or just starting, or in the sum already. */
    if (error == -ENOENT || error == -EAGAIN || error == -E2BIG)
        error = 0;
    else if (error && stats)
        error = add_problem(snapshot, name, reason_of(error));
    stats_release(stats);
    return error;
}

static int add_processes(struct reading *reading, DIR *directory)
{
    struct run_identity process;
    const uint64_t deadline = stats_deadline(reading->bounds);
    int error = 0;
    bool late = false;
    for (struct dirent *entry; !error && !late && (entry = readdir(directory));) {
        if (stats_parse_name(entry->d_name, &process))
            error = add_process(reading, entry->d_name, &process);
        late = stats_late(deadline);
    }
    if (!error && (late || reading->left_out))
        error = add_problem(reading->snapshot, NULL,
                            late ? "there is more than can be read in reasonable time: ask as the "
                                   "user whose it is"
                                 : "its processes need more memory than another user gets for "
                                   "them, and some are left out: ask as the user whose it is");
    return error;
}

/* Under the lock nothing moves from a process to the sum. */
static int read_directory(struct reading *reading)
{
    int lock, error = 0;
    int fd = sys_openat(reading->run, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        error = fd < 0 ? fd : -errno;
        if (fd >= 0)
            sys_close(fd);
        return error;
    }
    stats_reap(reading->run, reading->bounds);
    lock = stats_lock(reading->run, reading->bounds ? reading->bounds->lock_ms : STATS_LOCK_MS);
    if (lock < 0) {
        char reason[128];
        snprintf(reason, sizeof(reason),
                 "cannot lock stats.lock there (%s): a process that ends now may count wrongly",
                 strerror(-lock));
        error = add_problem(reading->snapshot, NULL, reason);
    }
    if (!error)
        error = add_ended(reading);
    if (!error)
        error = add_processes(reading, directory);
    if (lock >= 0)
        stats_unlock(lock);
    closedir(directory);
    if (!error)
        error = stats_read_uncommitted(reading->run, reading->snapshot);
    if (error == -EBADMSG)
        error = add_problem(reading->snapshot, "registry", reason_of(-EBADMSG));
    return error;
}

static int by_pid(const void *a, const void *b)
{
    const struct directnfs_stats *left = *(struct directnfs_stats *const *)a;
    const struct directnfs_stats *right = *(struct directnfs_stats *const *)b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

int stats_snapshot_read(struct stats_snapshot *snapshot, const struct stats_bounds *bounds)
{
    struct timespec wall, now;
    struct reading reading = {.snapshot = snapshot, .bounds = bounds, .run = run_open()};
    int error = reading.run == -ENOENT ? 0 : reading.run;
    if (bounds) {
        reading.room = bounds->bytes;
        reading.room_left = &reading.room;
    }
    if (reading.run >= 0) {
        error = read_directory(&reading);
        run_close(reading.run);
    }
    sys_clock_gettime(CLOCK_REALTIME, &wall);
    sys_clock_gettime(CLOCK_MONOTONIC, &now);
    snapshot->taken_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
    snapshot->clock = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    if (snapshot->count)
        qsort(snapshot->processes, snapshot->count, sizeof(*snapshot->processes), by_pid);
    return error;
}

void stats_snapshot_free(struct stats_snapshot *snapshot)
{
    for (unsigned i = 0; i < snapshot->count; i++)
        stats_release(snapshot->processes[i]);
    for (unsigned i = 0; i < snapshot->ended_count; i++)
        stats_release(snapshot->ended[i]);
    free(snapshot->processes);
    free(snapshot->ended);
    free(snapshot->uncommitted_files);
    free(snapshot->problems);
    *snapshot = (struct stats_snapshot){0};
}

static int copy(struct directnfs_stats ***list, unsigned *count, const struct directnfs_stats *from)
{
    struct directnfs_stats *stats = stats_allocate();
    if (!stats)
        return -ENOMEM;
    stats_copy_used(stats, from);
    return add(list, count, stats);
}

int stats_snapshot_copy(struct stats_snapshot *to, const struct stats_snapshot *from)
{
    int error = 0;
    *to = (struct stats_snapshot){.taken_ns = from->taken_ns,
                                  .clock = from->clock,
                                  .seconds = from->seconds,
                                  .uncommitted = from->uncommitted};
    for (unsigned i = 0; !error && i < from->count; i++)
        error = copy(&to->processes, &to->count, from->processes[i]);
    for (unsigned i = 0; !error && i < from->ended_count; i++)
        error = copy(&to->ended, &to->ended_count, from->ended[i]);
    size_t size = from->uncommitted_count * sizeof(*from->uncommitted_files);
    if (error || !size)
        return error;
    to->uncommitted_files = malloc(size);
    if (!to->uncommitted_files)
        return -ENOMEM;
    memcpy(to->uncommitted_files, from->uncommitted_files, size);
    to->uncommitted_count = from->uncommitted_count;
    return 0;
}

struct directnfs_stats *stats_snapshot_sum(const struct stats_snapshot *snapshot)
{
    struct directnfs_stats *sum = calloc(1, sizeof(*sum));
    if (!sum)
        return NULL;
    for (unsigned i = 0; i < snapshot->ended_count; i++) {
        stats_add_counters(&sum->counters, &snapshot->ended[i]->counters);
        stats_add_paths(sum, snapshot->ended[i]);
        sum->processes += snapshot->ended[i]->processes;
    }
    for (unsigned i = 0; i < snapshot->count; i++) {
        stats_add_counters(&sum->counters, &snapshot->processes[i]->counters);
        stats_add_paths(sum, snapshot->processes[i]);
    }
    return sum;
}

/* ---- differences ---- */

static struct directnfs_stats *find_process(const struct stats_snapshot *snapshot,
                                            const struct directnfs_stats *wanted)
{
    struct directnfs_stats *const *found =
        snapshot->count ? bsearch(&wanted, snapshot->processes, snapshot->count,
                                  sizeof(*snapshot->processes), by_pid)
                        : NULL;
    if (!found)
        return NULL;
    /* The same pid in several containers, or before and after exec(). */
    unsigned i = (unsigned)(found - snapshot->processes);
    while (i > 0 && snapshot->processes[i - 1]->pid == wanted->pid)
        i--;
    for (; i < snapshot->count && snapshot->processes[i]->pid == wanted->pid; i++) {
        const struct directnfs_stats *one = snapshot->processes[i];
        if (one->starttime == wanted->starttime && one->started_ns == wanted->started_ns)
            return snapshot->processes[i];
    }
    return NULL;
}

static struct directnfs_stats *ended_of(const struct stats_snapshot *snapshot, uint32_t uid)
{
    for (unsigned i = 0; i < snapshot->ended_count; i++) {
        if (snapshot->ended[i]->uid == uid)
            return snapshot->ended[i];
    }
    return NULL;
}

void stats_snapshot_subtract(struct stats_snapshot *now, const struct stats_snapshot *before)
{
    now->seconds = now->clock - before->clock;
    for (unsigned i = 0; i < before->ended_count; i++) {
        struct directnfs_stats *ended = ended_of(now, before->ended[i]->uid);
        if (ended)
            stats_subtract(ended, before->ended[i]);
    }
    for (unsigned i = 0; i < before->count; i++) {
        const struct directnfs_stats *one = before->processes[i];
        struct directnfs_stats *same = find_process(now, one);
        if (!same)
            same = ended_of(now, one->uid);
        if (same)
            stats_subtract(same, one);
    }
}
