/*
 * The four views of `directnfs stat`.
 *
 * What they show was copied out of other processes' memory: counts are bounded and strings made
 * printable here, whoever copied it.
 */
#ifndef CMD_STAT_VIEW_H
#define CMD_STAT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cmd/text.h"
#include "directnfs/stats.h"

/*
 * What is shown: copies of the statistics of processes (or, with `ended`, the sums of ended ones).
 * Owned by cmd_stat(). `servers` are the different ones among all processes; the ID of a server is
 * its place there, from 1, and holds in all views of one output.
 */
struct stat_set {
    struct directnfs_stats **processes;
    size_t count;
    bool ended;
    const struct directnfs_server_stats **servers;
    size_t server_count;
};

/* Fills servers and server_count from the processes; freed by the caller. */
void stat_set_servers(struct stat_set *set);

struct stat_view {
    const char *name;
    const char *title;
    void (*print)(const struct stat_set *set, size_t width, FILE *out);
    void (*print_json)(const struct stat_set *set, struct cmd_json *json, const char *key);
};

#define STAT_VIEWS 4
extern const struct stat_view stat_views[STAT_VIEWS];

/* The stats view, in stat_counters.c. */
void stat_counters_print(const struct stat_set *set, size_t width, FILE *out);
void stat_counters_print_json(const struct stat_set *set, struct cmd_json *json, const char *key);

#endif
