/*
 * A drawing of latencies, out of one report or several.
 */
#ifndef CMD_STAT_PLOT_H
#define CMD_STAT_PLOT_H

#include "cmd/stat/view.h"

enum { STAT_PLOT_PROCEDURES = 3 }; /* that are drawn */

struct stat_plot_point {
    double at; /* seconds, CLOCK_REALTIME */
    struct stats_latency latency[DIRECTNFS_PROCEDURES];
};

/* Zero-initialised; freed by stat_plot_free(). */
struct stat_plot {
    struct directnfs_counters sum;
    struct stat_plot_point *points;
    size_t point_count;
    unsigned procedures[STAT_PLOT_PROCEDURES];
    unsigned procedure_count;
};

/* Adds a report; one of an interval becomes a point in time. */
void stat_plot_add(struct stat_plot *plot, const struct stat_set *set);

/* Writes an SVG file. CMD_FINE, or CMD_NOT_FINE after a complaint. */
int stat_plot_write(struct stat_plot *plot, const char *file);

void stat_plot_free(struct stat_plot *plot);

#endif
