/*
 * directnfs top: the data that is shown. It has snapshots, what was counted between two of them,
 * and histories. It knows nothing of terminals.
 */
#ifndef CMD_TOP_MODEL_H
#define CMD_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/index.h"
#include "cmd/path/list.h"
#include "cmd/snapshot.h"
#include "config/nfstab.h"

enum { TOP_HISTORY = 120 };

/* Calls per second of one thing, at each update. The latest is `values[(count - 1) %
 * TOP_HISTORY]`. */
struct top_history {
    uint64_t key;
    uint64_t update; /* the last one with this thing */
    unsigned count;  /* values ever noted */
    float values[TOP_HISTORY];
};

/* Numbers of one period. */
struct top_period {
    /* Differences; gauges as they are now. `seconds` 0: not known, so there is no rate. */
    struct stats_snapshot stats;
    struct directnfs_stats *sum; /* of all processes, including those that ended; or NULL */
    struct cmd_path_list paths;  /* of all processes, or of one */
};

/* Zero it, then set `tab`; top_model_free() frees it. */
struct top_model {
    const struct conf_nfstab *tab; /* may be NULL */
    struct cmd_snapshot now;
    struct stats_snapshot base; /* subtracted from totals */
    bool has_base;
    struct top_period interval; /* since the update before */
    struct top_period total;    /* since the base; without one, since each process started */
    struct top_history *histories;
    size_t history_count;
    struct cmd_index history_index; /* by key */
    uint64_t updates;
    uint32_t pid;                  /* paths of this process only; 0: of all */
    size_t files, files_of_kernel; /* files shown, of all processes; each counts once */
};

/* Takes over the snapshot. False: no memory, so something is missing in what is shown. */
bool top_model_update(struct top_model *model, struct cmd_snapshot *snapshot);

/* Begins totals, maxima and histories anew. */
void top_model_reset(struct top_model *model);

/* From now on shows paths of this process only; 0: of all. */
void top_model_select(struct top_model *model, uint32_t pid);
/* The place of the selected process in a period's `stats`. NULL: none is selected, or it is
 * gone. */
struct directnfs_stats **top_selected(const struct top_model *model,
                                      const struct top_period *period);

void top_model_free(struct top_model *model);

/* Keys of histories: a path, or another thing by a letter and a number. */
uint64_t top_key(char kind, uint64_t number);
uint64_t top_path_key(const struct top_model *model, const struct cmd_path *path);
/* The history of a key. NULL: there is none yet. */
struct top_history *top_history_of(const struct top_model *model, uint64_t key);
float top_history_max(const struct top_history *history);

/* Counts the shown files of a process, and adds to both numbers. Shown are open files, and files
 * that were left to the kernel: nobody knows if those are still open. */
void top_count_files(const struct directnfs_stats *stats, unsigned *all, unsigned *kernel);
bool top_shows_file(const struct directnfs_file_stats *file);

/* Adds the calls of all procedures; counts a process's calls under way on its channels. */
void top_add_calls(struct directnfs_latency *sum, const struct directnfs_counters *counters);
uint64_t top_outstanding(const struct directnfs_stats *stats);

#endif
