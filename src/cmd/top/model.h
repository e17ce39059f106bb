/*
 * directnfs top: what is shown. Snapshots, what was counted between two of them, and how it went.
 * Knows nothing of terminals.
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

/* Calls per second of one thing, at each update; the latest at `values[(count - 1) % TOP_HISTORY]`.
 */
struct top_history {
    uint64_t key;
    uint64_t update; /* the last one that it was part of */
    unsigned count;  /* ever */
    float values[TOP_HISTORY];
};

/* Numbers of one period. */
struct top_period {
    /* Differences; gauges as they are now. `seconds` 0: unknown, there is no rate. */
    struct stats_snapshot stats;
    struct directnfs_stats *sum; /* of all processes, those that ended included; or NULL */
    struct cmd_path_list paths;  /* of all processes, or of one */
};

/* Zero-initialised, then `tab` set; freed by top_model_free(). */
struct top_model {
    const struct conf_nfstab *tab; /* may be NULL */
    struct cmd_snapshot now;
    struct stats_snapshot base; /* what is subtracted from totals */
    bool has_base;
    struct top_period interval; /* since the update before */
    struct top_period total;    /* since the base, or since each process started */
    struct top_history *histories;
    size_t history_count;
    struct cmd_index history_index; /* by key */
    uint64_t updates;
    uint32_t pid;                  /* only paths of this process; 0: all */
    size_t files, files_of_kernel; /* that are shown, of all processes, each once */
};

/* Takes the snapshot over. False without memory: then something is missing in what is shown. */
bool top_model_update(struct top_model *model, struct cmd_snapshot *snapshot);

/* Totals, maxima and histories begin now. */
void top_model_reset(struct top_model *model);

/* Paths are of this process from now on, or of all (0). */
void top_model_select(struct top_model *model, uint32_t pid);
/* Its place in a period's `stats`; NULL: none is selected, or it is gone. */
struct directnfs_stats **top_selected(const struct top_model *model,
                                      const struct top_period *period);

void top_model_free(struct top_model *model);

/* What histories are kept of: paths, and for other things a letter and a number. */
uint64_t top_key(char kind, uint64_t number);
uint64_t top_path_key(const struct top_model *model, const struct cmd_path *path);
/* NULL: there is none yet. */
struct top_history *top_history_of(const struct top_model *model, uint64_t key);
float top_history_max(const struct top_history *history);

/* Counts the files of a process that are shown: those that are open, and those that were left to
 * the kernel, of which nobody knows whether they still are. Adds to both numbers. */
void top_count_files(const struct directnfs_stats *stats, unsigned *all, unsigned *kernel);
bool top_shows_file(const struct directnfs_file_stats *file);

/* Calls of all procedures, and of a process's channels those that are under way. */
void top_add_calls(struct directnfs_latency *sum, const struct directnfs_counters *counters);
uint64_t top_outstanding(const struct directnfs_stats *stats);

#endif
