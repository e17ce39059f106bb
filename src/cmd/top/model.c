#include "cmd/top/model.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/files.h"
#include "stats/read.h"

/* ---- histories ---- */

uint64_t top_key(char kind, uint64_t number)
{
    return cmd_index_key(number << 8 | (unsigned char)kind, "");
}

uint64_t top_path_key(const struct top_model *model, const struct cmd_path *path)
{
    uint64_t key = top_key('n', model->pid) + path->user;
    return cmd_index_key(cmd_index_key(cmd_index_key(key, path->server), path->path), path->local);
}

struct top_history *top_history_of(const struct top_model *model, uint64_t key)
{
    size_t found = cmd_index_find(&model->history_index, key);
    return found == CMD_INDEX_NONE ? NULL : &model->histories[found];
}

float top_history_max(const struct top_history *history)
{
    float max = 0;
    unsigned kept = history->count < TOP_HISTORY ? history->count : TOP_HISTORY;
    for (unsigned i = 0; i < kept; i++)
        max = history->values[i] > max ? history->values[i] : max;
    return max;
}

static bool note(struct top_model *model, uint64_t key, uint64_t calls)
{
    struct top_history *history = top_history_of(model, key);
    if (!history) {
        struct top_history *more =
            reallocarray(model->histories, model->history_count + 1, sizeof(*more));
        if (more)
            model->histories = more;
        if (!more || !cmd_index_add(&model->history_index, key, model->history_count))
            return false;
        history = &more[model->history_count++];
        *history = (struct top_history){.key = key};
    }
    history->update = model->updates;
    history->values[history->count++ % TOP_HISTORY] =
        (float)((double)calls / model->interval.stats.seconds);
    return true;
}

static bool note_all(struct top_model *model)
{
    bool complete = true;
    for (unsigned i = 0; i < model->interval.stats.count; i++) {
        const struct directnfs_stats *stats = model->interval.stats.processes[i];
        struct directnfs_latency calls = {0};
        top_add_calls(&calls, &stats->counters);
        complete &= note(model, top_key('p', stats->pid), calls.calls);
    }
    for (size_t i = 0; i < model->interval.paths.count; i++) {
        const struct cmd_path *path = &model->interval.paths.paths[i];
        complete &= note(model, top_path_key(model, path), path->latency.calls);
    }
    struct directnfs_latency all = {0};
    for (unsigned i = 0; model->interval.sum && i < DIRECTNFS_PROCEDURES; i++) {
        const struct directnfs_latency *one = &model->interval.sum->counters.procedures[i].latency;
        all.calls += one->calls;
        complete &= note(model, top_key('c', i), one->calls);
    }
    complete &= note(model, top_key('a', 0), all.calls);

    /* Drops histories of things that are gone. */
    size_t kept = 0;
    cmd_index_free(&model->history_index);
    for (size_t i = 0; i < model->history_count; i++) {
        if (model->histories[i].update != model->updates ||
            !cmd_index_add(&model->history_index, model->histories[i].key, kept))
            continue;
        model->histories[kept++] = model->histories[i];
    }
    model->history_count = kept;
    return complete;
}

/* ---- periods ---- */

static void free_period(struct top_period *period)
{
    stats_snapshot_free(&period->stats);
    free(period->sum);
    free(period->paths.paths);
    *period = (struct top_period){0};
}

struct directnfs_stats **top_selected(const struct top_model *model,
                                      const struct top_period *period)
{
    for (unsigned i = 0; model->pid && i < period->stats.count; i++)
        if (period->stats.processes[i]->pid == model->pid)
            return &period->stats.processes[i];
    return NULL;
}

/* Lists paths; if a process is selected, only that one's. */
static bool list_paths(struct top_model *model, struct top_period *period)
{
    struct cmd_snapshot seen = {.stats = period->stats,
                                .offline = model->now.offline,
                                .offline_count = model->now.offline_count};
    if (model->pid) {
        seen.stats.processes = top_selected(model, period);
        seen.stats.count = seen.stats.processes != NULL;
    }
    free(period->paths.paths);
    return cmd_path_list_make(&period->paths, &seen, model->pid ? NULL : model->tab);
}

static bool fill(struct top_model *model, struct top_period *period,
                 const struct stats_snapshot *before)
{
    free_period(period);
    if (stats_snapshot_copy(&period->stats, &model->now.stats) != 0)
        return false;
    if (before)
        stats_snapshot_subtract(&period->stats, before);
    period->sum = stats_snapshot_sum(&period->stats);
    return list_paths(model, period) && period->sum;
}

static bool count_files(struct top_model *model)
{
    struct cmd_files files = {0};
    bool complete = true;
    for (unsigned i = 0; i < model->now.stats.count; i++)
        complete &= cmd_files_add(&files, model->now.stats.processes[i], top_shows_file);
    model->files = files.count;
    model->files_of_kernel = 0;
    for (size_t i = 0; i < files.count; i++)
        model->files_of_kernel += files.list[i].kernel > 0;
    cmd_files_free(&files);
    return complete;
}

bool top_model_update(struct top_model *model, struct cmd_snapshot *snapshot)
{
    struct cmd_snapshot before = model->now;
    model->now = *snapshot;
    *snapshot = (struct cmd_snapshot){0};
    bool complete = fill(model, &model->interval, model->updates ? &before.stats : NULL);
    cmd_snapshot_free(&before);
    complete &= count_files(model);
    complete &= fill(model, &model->total, model->has_base ? &model->base : NULL);
    model->updates++;
    if (model->interval.stats.seconds > 0)
        complete &= note_all(model);
    return complete;
}

void top_model_reset(struct top_model *model)
{
    stats_snapshot_free(&model->base);
    model->has_base = stats_snapshot_copy(&model->base, &model->now.stats) == 0;
    model->history_count = 0;
    cmd_index_free(&model->history_index);
    fill(model, &model->total, model->has_base ? &model->base : NULL);
}

void top_model_select(struct top_model *model, uint32_t pid)
{
    model->pid = pid;
    list_paths(model, &model->interval);
    list_paths(model, &model->total);
}

void top_model_free(struct top_model *model)
{
    cmd_snapshot_free(&model->now);
    stats_snapshot_free(&model->base);
    free_period(&model->interval);
    free_period(&model->total);
    free(model->histories);
    cmd_index_free(&model->history_index);
    *model = (struct top_model){0};
}

/* ---- numbers of a process ---- */

bool top_shows_file(const struct directnfs_file_stats *file)
{
    return file->slot == DIRECTNFS_SLOT_USED ||
           (file->slot == DIRECTNFS_SLOT_CLOSED && file->state == DIRECTNFS_FILE_KERNEL);
}

void top_count_files(const struct directnfs_stats *stats, unsigned *all, unsigned *kernel)
{
    for (unsigned i = 0; i < stats->file_count; i++) {
        if (!top_shows_file(&stats->files[i]))
            continue;
        ++*all;
        *kernel += stats->files[i].state == DIRECTNFS_FILE_KERNEL;
    }
}

void top_add_calls(struct directnfs_latency *sum, const struct directnfs_counters *counters)
{
    for (unsigned i = 0; i < DIRECTNFS_PROCEDURES; i++)
        stats_add_latency(sum, &counters->procedures[i].latency);
}

uint64_t top_outstanding(const struct directnfs_stats *stats)
{
    uint64_t calls = 0;
    for (unsigned i = 0; i < stats->channel_count; i++)
        if (stats->channels[i].slot == DIRECTNFS_SLOT_USED)
            calls += stats->channels[i].outstanding;
    return calls;
}
