/*
 * The data that was set aside, as its files in the run directory tell.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/strays.h"
#include "stats/segment.h"
#include "sys/sys.h"
#include "sys/text.h"

enum { OF_OTHERS = 1000 }; /* how many are shown of another user */

_Static_assert(sizeof(((struct stats_stray *)0)->file) == RUN_STRAY_NAME, "the longest name");

struct reading {
    int run;
    const struct stats_bounds *bounds;
    struct stats_snapshot *snapshot;
    unsigned first; /* index of the first one of this directory */
    uint64_t began_ns;
};

/* Copies a string; of one that is too long the end. */
static void put(char *to, size_t size, const char *from)
{
    size_t length = from ? strlen(from) : 0;
    if (!from)
        return;
    snprintf(to, size, "%s", length < size ? from : from + length - size + 1);
    sys_text_clean(to);
}

static int add(void *argument, const char *name)
{
    struct reading *reading = argument;
    struct stats_snapshot *snapshot = reading->snapshot;
    const struct stats_bounds *bounds = reading->bounds;
    struct run_stray_name parsed;
    struct run_stray_file file;
    struct run_stray stray;
    char text[RUN_STRAY_TEXT];
    if (bounds && sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - reading->began_ns >= bounds->cpu_ns)
        return -ETIME;
    if (!run_stray_parse(name, &parsed))
        return 0;
    if (bounds && snapshot->stray_count - reading->first == OF_OTHERS)
        return -E2BIG;
    int error = run_stray_read(&file, reading->run, name, text, &stray);
    if (error == -ENOENT) /* it has just been removed */
        return 0;
    struct stats_stray *one =
        reallocarray(snapshot->strays, snapshot->stray_count + 1, sizeof(*one));
    if (!one)
        return -ENOMEM;
    snapshot->strays = one;
    one += snapshot->stray_count++;
    *one = (struct stats_stray){.uid = (uint32_t)sys_call0(SYS_geteuid),
                                .whole = !error,
                                .device = parsed.device,
                                .inode = parsed.inode,
                                .bytes = stray.bytes,
                                .since_ns = stray.since_s * 1000000000};
    strcpy(one->file, name);
    put(one->server, sizeof(one->server), stray.server);
    put(one->mount, sizeof(one->mount), stray.mount);
    put(one->path, sizeof(one->path), stray.path);
    run_stray_close(&file);
    return 0;
}

static int by_file(const void *a, const void *b)
{
    const struct stats_stray *left = a, *right = b;
    struct run_stray_name one = {0}, other = {0};
    run_stray_parse(left->file, &one);
    run_stray_parse(right->file, &other);
    if (one.inode != other.inode)
        return one.inode < other.inode ? -1 : 1;
    if (one.number != other.number)
        return one.number < other.number ? -1 : 1;
    return (one.device > other.device) - (one.device < other.device);
}

int stats_read_strays(int run, const struct stats_bounds *bounds, struct stats_snapshot *snapshot)
{
    struct reading reading = {run, bounds, snapshot, snapshot->stray_count,
                              sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID)};
    int result = run_list(run, add, &reading);
    unsigned count = snapshot->stray_count - reading.first;
    if (count)
        qsort(snapshot->strays + reading.first, count, sizeof(*snapshot->strays), by_file);
    return result;
}
