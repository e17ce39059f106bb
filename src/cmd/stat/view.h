/*
 * The views of `directnfs stat`.
 *
 * What they show was copied out of other processes' memory. So counts are bounded here, and strings
 * made printable, whatever made the copy.
 */
#ifndef CMD_STAT_VIEW_H
#define CMD_STAT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cmd/mounts.h"
#include "cmd/table.h"
#include "stats/read.h"

/*
 * What is shown: all processes of a snapshot, or those that were asked for. `servers` has the
 * different servers of these processes. The ID of a server is its place there, from 1; it holds in
 * all views of one output. stat_set_make() makes a set, stat_set_free() frees it. The snapshot
 * stays the caller's, and must live as long.
 */
struct stat_set {
    const struct directnfs_stats **processes;
    size_t count;
    bool last;          /* sums of processes that ended, one for each user */
    const char *server; /* only what belongs to this server; NULL: to any */
    bool only_sum;      /* views that can add up show only the sum */
    struct directnfs_stats *sum;
    const struct stats_snapshot *snapshot;
    const struct directnfs_server_stats **servers;
    size_t server_count;
    struct cmd_mounts mounts; /* of these processes; if all are shown, also of those that ended */
    struct directnfs_stats **loaded; /* with the library, without statistics: pid and program */
    size_t loaded_count;
};

/* Chooses processes. */
struct stat_filter {
    uint32_t pid;       /* 0: all */
    const char *server; /* what belongs to this server, and the processes that use it; NULL: any */
    bool last;
};

/*
 * Makes a set. The sum has all processes that run or ended; with a filter, the processes shown.
 * With `server`, entries of other servers are removed from the snapshot.
 */
void stat_set_make(struct stat_set *set, struct stats_snapshot *snapshot,
                   const struct stat_filter *filter);
void stat_set_free(struct stat_set *set);
/* Adds `loaded`, for the view `processes`. It looks at each process of the host. */
void stat_set_add_loaded(struct stat_set *set, const struct stat_filter *filter);

/* The server of an index in the tables of a process. NULL: there is none. */
const struct directnfs_server_stats *stat_server_of(const struct directnfs_stats *stats,
                                                    uint32_t index);
/* The ID of a server, from 1. 0: it has none. */
size_t stat_server_id(const struct stat_set *set, const struct directnfs_server_stats *server);

/* Columns that are not in the catalogue. */
struct stat_columns {
    const struct cmd_column *list;
    size_t count;
};

/* A view shows fields of the catalogue: for each process, or for each used slot of one of its
 * tables (servers: for each server of the set). Or it has its own columns and rows, or its own
 * printers. */
struct stat_view {
    const char *name, *title;
    const struct stats_fields *fields; /* NULL: none */
    const struct stats_table *table;   /* NULL: fields of the process itself */
    size_t key_columns, first_part;    /* as in struct cmd_table */
    const char *none;                  /* a sentence for no rows */
    bool sums;                         /* it also has a row with the sum */
    bool on_request;                   /* shown only if it is named */
    bool per_process;                  /* each row belongs to one process, and there is no sum */
    /* Its own columns; `fill` makes their rows. If there are `fields`, too, people and the sum get
     * these columns. Programs get a row for each process. */
    const struct stat_columns *columns;
    void (*fill)(struct cmd_table *table, const struct stat_set *set);
    void (*print)(const struct stat_set *set, size_t width, const char *sort, FILE *out);
    void (*print_json)(const struct stat_set *set, struct cmd_json *json, const char *key);
};

enum { STAT_VIEWS = 11, STAT_COLUMNS = 24 };
extern const struct stat_view stat_views[STAT_VIEWS];

/* The view of that name. NULL: there is none. */
const struct stat_view *stat_view_find(const char *name);
/* Prints for people, in `width` columns (0: no limit). `sort` is a column or NULL. In an interval,
 * counts are shown per second. */
void stat_view_print(const struct stat_view *view, const struct stat_set *set, size_t width,
                     const char *sort, FILE *out);
/* Prints an array of objects. Counts are not divided. */
void stat_view_print_json(const struct stat_view *view, const struct stat_set *set,
                          const char *sort, struct cmd_json *json, const char *key);

/* What a row shows: a record of a process. */
struct stat_row {
    const struct stat_set *set;
    const struct directnfs_stats *stats; /* NULL: the record is a server of the set */
    const void *record;
};
void stat_row_put(struct cmd_table *table, const struct stat_view *view,
                  const struct stat_row *row);
/* A table without rows, with columns of the view; valid until the next call. `own`: its own
 * columns, if it has some. */
struct cmd_table stat_table(const struct stat_view *view, double seconds, bool own);
/* Sorts by a column. NULL: does not. */
void stat_table_sort(struct cmd_table *table, const char *sort);

/* The first screen, printed if no view is named: page.c. */
void stat_page_print(const struct stat_set *set, size_t width, FILE *out);

/* Bytes of a file that are kept until they are committed; `unsent`: only those that are not
 * sent. */
uint64_t stat_uncommitted_in(const struct stat_set *set, const struct directnfs_file_stats *file,
                             bool unsent);

/* The views mounts (mounts.c) and files (files.c); agents and strays (left.c). */
extern const struct stat_columns stat_mount_columns, stat_file_columns, stat_agent_columns,
    stat_stray_columns;
void stat_files_fill(struct cmd_table *table, const struct stat_set *set);
void stat_mounts_fill(struct cmd_table *table, const struct stat_set *set);
void stat_agents_fill(struct cmd_table *table, const struct stat_set *set);
void stat_strays_fill(struct cmd_table *table, const struct stat_set *set);

/* The views stats (counters.c) and latency (latency.c). */
void stat_counters_print(const struct stat_set *set, size_t width, const char *sort, FILE *out);
void stat_counters_print_json(const struct stat_set *set, struct cmd_json *json, const char *key);
void stat_latency_print(const struct stat_set *set, size_t width, const char *sort, FILE *out);
/* Asks the paths of running processes. Prints how long NULL takes, beside READ and WRITE. */
void stat_null_print(const struct stat_set *set, size_t width, FILE *out);
void stat_latency_print_json(const struct stat_set *set, struct cmd_json *json, const char *key);
/* Writes members of the open object: mean, percentiles and longest time, in microseconds. */
void stat_json_times(struct cmd_json *json, const struct directnfs_latency *counted);

/* A bucket's upper bound in microseconds; the lower one is half of it. */
static inline uint64_t stat_bucket_to(unsigned bucket)
{
    return UINT64_C(1) << bucket;
}

/* Prints the whole set in Prometheus's text exposition format; and one more gauge. */
void stat_prometheus_print(const struct stat_set *set, FILE *out);
void stat_prometheus_gauge(FILE *out, const char *name, const char *help, double value);

/* A drawing of latencies, from one report or several. Zero it; stat_plot_free() frees it. */
enum { STAT_PLOT_PROCEDURES = 3 }; /* procedures that are drawn */
struct stat_plot {
    struct directnfs_counters sum;
    struct stat_plot_point {
        double at; /* seconds, CLOCK_REALTIME */
        struct stats_latency latency[DIRECTNFS_PROCEDURES];
    } * points;
    size_t point_count;
    unsigned procedures[STAT_PLOT_PROCEDURES];
    unsigned procedure_count;
    char of[160]; /* host, time and servers */
};

/* Adds a report. A report of an interval becomes a point in time. */
void stat_plot_add(struct stat_plot *plot, const struct stat_set *set);
/* Writes an SVG file. CMD_FINE, or CMD_NOT_FINE after a complaint. */
int stat_plot_write(struct stat_plot *plot, const char *file);
void stat_plot_free(struct stat_plot *plot);

#endif
