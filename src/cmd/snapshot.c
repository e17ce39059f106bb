#include "cmd/snapshot.h"

#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/rundir.h"

/* Keeps the first problem. */
static void note_problem(struct cmd_snapshot *snapshot, const char *what, const char *why)
{
    if (snapshot->problem[0] == '\0')
        snprintf(snapshot->problem, sizeof(snapshot->problem), "%.150s: %.100s", what, why);
}

static void add_offline(struct cmd_snapshot *snapshot)
{
    struct run_offline paths[RUN_OFFLINE_MAX];
    int count = run_offline_read(paths);
    if (count < 0) {
        note_problem(snapshot, "which paths are offline is not known",
                     count == -EBADMSG  ? "the file `paths` in the run directory is damaged"
                     : count == -EPROTO ? "the file `paths` is of another version of directnfs"
                                        : strerror(-count));
        return;
    }
    struct cmd_offline *more =
        reallocarray(snapshot->offline, snapshot->offline_count + (size_t)count + 1, sizeof(*more));
    if (more == NULL) {
        note_problem(snapshot, "paths are missing", strerror(ENOMEM));
        return;
    }
    snapshot->offline = more;
    for (int i = 0; i < count; i++)
        more[snapshot->offline_count++] = (struct cmd_offline){geteuid(), paths[i]};
}

struct reading {
    const char *command;
    struct stats_snapshot *stats;
    struct cmd_snapshot *snapshot; /* NULL: only the statistics are wanted */
    unsigned copies;
};

static void read_directory(void *argument)
{
    const struct reading *reading = argument;
    struct cmd_snapshot *snapshot = reading->snapshot;
    char problem[CMD_RUNDIR_PROBLEM];
    /* Another user may have put anything into a directory. For it root must wait less than a
     * second, and spend less than 64 MiB. That is for all copies of a snapshot, and what is made of
     * them. */
    const struct stats_bounds bounds = {
        .cpu_ns = 150000000, .lock_ms = 100, .bytes = ((size_t)26 << 20) / reading->copies};
    int error = stats_snapshot_read(reading->stats, cmd_rundir_is_foreign() ? &bounds : NULL);
    if (snapshot == NULL) {
        if (error)
            cmd_complain(reading->command, "%s", cmd_rundir_problem(error, problem));
        return;
    }
    snapshot->unread |= error != 0;
    if (error && snapshot->problem[0] == '\0')
        cmd_rundir_problem(error, snapshot->problem);
    add_offline(snapshot);
}

void cmd_snapshot_read(const char *command, struct cmd_snapshot *snapshot, unsigned copies)
{
    struct reading reading = {command, &snapshot->stats, snapshot, copies};
    *snapshot = (struct cmd_snapshot){0};
    snapshot->unread |= cmd_rundir_visit(command, read_directory, &reading, snapshot->problem) != 0;
    for (unsigned i = 0; i < snapshot->stats.problem_count; i++)
        note_problem(snapshot, snapshot->stats.problems[i].path,
                     snapshot->stats.problems[i].reason);
}

void cmd_stats_read(const char *command, struct stats_snapshot *stats, unsigned copies)
{
    struct reading reading = {command, stats, NULL, copies};
    char problem[CMD_RUNDIR_PROBLEM];
    *stats = (struct stats_snapshot){0};
    if (cmd_rundir_visit(command, read_directory, &reading, problem) != 0)
        cmd_complain(command, "%s", problem);
}

void cmd_snapshot_free(struct cmd_snapshot *snapshot)
{
    stats_snapshot_free(&snapshot->stats);
    free(snapshot->offline);
    *snapshot = (struct cmd_snapshot){0};
}
