/*
 * Snapshots of the statistics of all processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/read.h"
#include "stats/segment.h"
#include "sys/sys.h"

/* Adds a problem with `name` in the run directory, or with the directory itself (NULL). */
static void add_problem(struct stats_snapshot *snapshot, const char *name, const char *reason)
{
    char path[RUN_PATH_MAX];
    if (snapshot->problem_count == STATS_PROBLEMS) {
        snapshot->problems_left_out++;
        return;
    }
    struct stats_problem *problem = &snapshot->problems[snapshot->problem_count++];
    snprintf(problem->path, sizeof(problem->path), "%.*s%s%s", (int)sizeof(problem->path) / 2,
             run_name(path), name ? "/" : "", name ? name : "");
    snprintf(problem->reason, sizeof(problem->reason), "%s", reason);
}

static void add_unusable(struct stats_snapshot *snapshot, const char *name, int error)
{
    add_problem(snapshot, name,
                error == -EPROTO    ? "it is of another version of directnfs"
                : error == -EBADMSG ? "damaged, or of another version of directnfs"
                : error == -EPERM   ? "it belongs to another user"
                                    : strerror(-error));
}

/* Adds `stats` to the list. It owns `stats` from then on, also when it fails. */
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

/* Reading one run directory. */
struct reading {
    struct stats_snapshot *snapshot;
    const struct stats_bounds *bounds;
    int run;
    size_t *room; /* bytes that are left of `bounds`; NULL: no limit */
    const struct directnfs_stats *ended;
    unsigned left_out;
    bool registry_left; /* a problem says already why the registry cannot be used */
};

/* Adds the segment of a process, or the sum of ended ones (NULL), if it can be used. */
static int add_segment(void *argument, const char *name, const struct run_identity *process)
{
    struct reading *reading = argument;
    struct stats_snapshot *snapshot = reading->snapshot;
    struct directnfs_stats *stats = stats_allocate();
    if (!stats)
        return -ENOMEM;
    int error = stats_read_raw(reading->run, name, stats, reading->room);
    if (!error && process && (stats->pid != process->pid || stats->starttime != process->starttime))
        error = -EBADMSG;
    if (!error && process && reading->ended && stats_added(reading->ended, stats))
        error = -ENOENT; /* the sum has it already */
    if (!error) {
        stats_clean(stats);
        /* It counts for the directory's owner, whatever is written there. */
        stats->uid = (uint32_t)sys_call0(SYS_geteuid);
        if (process)
            return add(&snapshot->processes, &snapshot->count, stats);
        reading->ended = stats;
        return add(&snapshot->ended, &snapshot->ended_count, stats);
    }
    if (process && error == -E2BIG)
        reading->left_out++;
    else if (error != -ENOENT && !(process && error == -EAGAIN)) /* just ended, just starting */
        add_unusable(snapshot, name, error);
    stats_release(stats);
    return 0;
}

static int add_processes(struct reading *reading)
{
    int error = stats_visit(reading->run, reading->bounds, add_segment, reading);
    bool late = error == -ETIME;
    if (late || (!error && reading->left_out))
        add_problem(reading->snapshot, NULL,
                    late ? "there is more than can be read in reasonable time: ask as the user "
                           "whose it is"
                         : "its processes need more memory than another user gets for them, and "
                           "some are left out: ask as the user whose it is");
    return late ? 0 : error;
}

/* Adds a problem about a registry that this version cannot use. */
static int add_left(void *argument, const struct stats_left *left)
{
    struct reading *reading = argument;
    char reason[256];
    snprintf(reason, sizeof(reason), "it %s%s; see 'directnfs flush'", left->text,
             left->used ? ", and processes use it" : "");
    add_problem(reading->snapshot, left->name, reason);
    reading->registry_left |= left->in_place;
    return 0;
}

static int add_strays(struct reading *reading)
{
    int error = stats_read_strays(reading->run, reading->bounds, reading->snapshot);
    if (error != -ETIME && error != -E2BIG)
        return error;
    add_problem(reading->snapshot, NULL,
                "more was set aside there than another user reads of it, and some is left out: ask "
                "as the user whose it is");
    return 0;
}

/* The lock keeps processes from moving to the sum meanwhile. */
static int read_directory(struct reading *reading)
{
    struct stats_snapshot *snapshot = reading->snapshot;
    stats_reap(reading->run, reading->bounds);
    int lock = stats_lock(reading->run, reading->bounds ? reading->bounds->lock_ms : STATS_LOCK_MS);
    if (lock < 0) {
        char reason[128];
        snprintf(reason, sizeof(reason),
                 "cannot lock stats.lock there (%s): a process that ends now may count wrongly",
                 strerror(-lock));
        add_problem(snapshot, NULL, reason);
    }
    int error = add_segment(reading, DIRECTNFS_STATS_ENDED, NULL);
    if (!error)
        error = add_processes(reading);
    if (lock >= 0)
        stats_unlock(lock);
    if (!error)
        error = add_strays(reading);
    if (error)
        return error;
    error = stats_read_uncommitted(reading->run, snapshot);
    if (error && error != -EBADMSG)
        return error;
    stats_left_visit(reading->run, reading->bounds, add_left, reading);
    if (error && !reading->registry_left)
        add_unusable(snapshot, "registry", error);
    return 0;
}

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

/* A pid may be there several times: in several containers, or before and after exec(). */
static int by_pid(const void *a, const void *b)
{
    const struct directnfs_stats *left = *(struct directnfs_stats *const *)a;
    const struct directnfs_stats *right = *(struct directnfs_stats *const *)b;
    int order = compare(left->pid, right->pid);
    if (!order)
        order = compare(left->starttime, right->starttime);
    return order ? order : compare(left->started_ns, right->started_ns);
}

int stats_snapshot_read(struct stats_snapshot *snapshot, const struct stats_bounds *bounds)
{
    size_t room = bounds ? bounds->bytes : 0;
    struct reading reading = {snapshot, bounds, run_open(), bounds ? &room : NULL, NULL, 0, false};
    int error = reading.run == -ENOENT ? 0 : reading.run;
    if (reading.run >= 0) {
        error = read_directory(&reading);
        run_close(reading.run);
    }
    snapshot->taken_ns = sys_clock_ns(CLOCK_REALTIME);
    snapshot->clock = (double)sys_now_ns() / 1e9;
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
    free(snapshot->agents);
    free(snapshot->strays);
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

static int copy_array(void *to, unsigned *count, const void *from, unsigned from_count, size_t size)
{
    void *array = from_count ? malloc(from_count * size) : NULL;
    if (from_count && !array)
        return -ENOMEM;
    if (from_count)
        memcpy(array, from, from_count * size);
    memcpy(to, &array, sizeof(array));
    *count = from_count;
    return 0;
}
#define COPY(list, count) \
    copy_array(&to->list, &to->count, from->list, from->count, sizeof(*from->list))

int stats_snapshot_copy(struct stats_snapshot *to, const struct stats_snapshot *from)
{
    int error = 0;
    *to = (struct stats_snapshot){.taken_ns = from->taken_ns,
                                  .clock = from->clock,
                                  .seconds = from->seconds,
                                  .uncommitted = from->uncommitted,
                                  .unsent = from->unsent,
                                  .losses = from->losses};
    for (unsigned i = 0; !error && i < from->count; i++)
        error = copy(&to->processes, &to->count, from->processes[i]);
    for (unsigned i = 0; !error && i < from->ended_count; i++)
        error = copy(&to->ended, &to->ended_count, from->ended[i]);
    if (!error)
        error = COPY(uncommitted_files, uncommitted_count);
    if (!error)
        error = COPY(agents, agent_count);
    return error ? error : COPY(strays, stray_count);
}

static struct stats_sight sight_of(const struct directnfs_path_stats *path)
{
    return (struct stats_sight){path->state, path->since_ns, path->reason};
}

/* Shows what running processes see of a path, if one of them has it. */
static void see_path(struct directnfs_path_stats *sum, const struct stats_snapshot *snapshot)
{
    const struct directnfs_path_stats *shown = NULL;
    for (unsigned i = 0; i < snapshot->count; i++) {
        const struct directnfs_stats *one = snapshot->processes[i];
        for (unsigned k = 0; k < one->path_count && k < DIRECTNFS_PATHS; k++) {
            const struct directnfs_path_stats *path = &one->paths[k];
            if (path->slot != DIRECTNFS_SLOT_USED || !stats_same_path(path, sum))
                continue;
            const struct stats_sight own = sight_of(path);
            const struct stats_sight before = shown ? sight_of(shown) : own;
            if (shown == NULL || stats_sight_is_better(&before, &own))
                shown = path;
        }
    }
    if (shown) {
        sum->state = shown->state;
        sum->since_ns = shown->since_ns;
        memcpy(sum->reason, shown->reason, sizeof(sum->reason));
    }
}

struct directnfs_stats *stats_snapshot_sum(const struct stats_snapshot *snapshot)
{
    struct directnfs_stats *sum = calloc(1, sizeof(*sum));
    if (!sum)
        return NULL;
    for (unsigned i = 0; i < snapshot->ended_count + snapshot->count; i++) {
        bool ended = i < snapshot->ended_count;
        const struct directnfs_stats *one =
            ended ? snapshot->ended[i] : snapshot->processes[i - snapshot->ended_count];
        stats_add_counters(&sum->counters, &one->counters);
        stats_add_mounts(sum, one);
        stats_add_paths(sum, one);
        sum->processes += ended ? one->processes : 0;
    }
    for (unsigned i = 0; i < sum->path_count; i++)
        see_path(&sum->paths[i], snapshot);
    return sum;
}

/* ---- differences ---- */

static struct directnfs_stats *find_process(const struct stats_snapshot *snapshot,
                                            const struct directnfs_stats *wanted)
{
    struct directnfs_stats **found = snapshot->count
                                         ? bsearch(&wanted, snapshot->processes, snapshot->count,
                                                   sizeof(*snapshot->processes), by_pid)
                                         : NULL;
    return found ? *found : NULL;
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
