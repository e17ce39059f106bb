/*
 * The views of `directnfs stat`.
 *
 * What they show was copied out of other processes' memory: counts are bounded and strings made
 * printable here, whoever copied it.
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
 * What is shown: the processes of a snapshot, or those of it that were asked for. `servers` are the
 * different ones among them; the ID of a server is its place there, from 1, and holds in all views
 * of one output. Made by stat_set_make(), freed by stat_set_free(); the snapshot stays the
 * caller's, and must live as long.
 */
struct stat_set {
    const struct directnfs_stats **processes;
    size_t count;
    bool last;          /* they are sums of processes that ended, one for each user */
    const char *server; /* what is of this one; NULL: of all */
    bool only_sum;      /* views that can add up show the sum and no process */
    struct directnfs_stats *sum;
    const struct stats_snapshot *snapshot;
    const struct directnfs_server_stats **servers;
    size_t server_count;
    struct cmd_mounts
        mounts; /* of these processes, and, where all are shown, of those that ended */
    struct directnfs_stats **loaded; /* that have the library and no statistics: pid and program */
    size_t loaded_count;
};

/* Which processes. */
struct stat_filter {
    uint32_t pid;       /* 0: all */
    const char *server; /* what is of this server, and the processes that use it; NULL: all */
    bool last;
};

/*
 * The sum is of all processes that run or ended; with a filter, of the processes shown. With
 * `server`, entries of other servers are removed from the snapshot.
 */
void stat_set_make(struct stat_set *set, struct stats_snapshot *snapshot,
                   const struct stat_filter *filter);
void stat_set_free(struct stat_set *set);
/* Adds `loaded`, which takes a look at each process of the host. They are in the view `processes`.
 */
void stat_set_add_loaded(struct stat_set *set, const struct stat_filter *filter);

/* The server of an index in the tables of a process; NULL if there is none. */
const struct directnfs_server_stats *stat_server_of(const struct directnfs_stats *stats,
                                                    uint32_t index);
/* The ID of a server, from 1; 0 for none. */
size_t stat_server_id(const struct stat_set *set, const struct directnfs_server_stats *server);

/* Columns that are not of the catalogue. */
struct stat_columns {
    const struct cmd_column *list;
    size_t count;
};

/* A view shows fields of the catalogue: of each process, or of each used slot of one of its tables
 * (of servers, of those of the set). Or it has its own columns and rows, or its own printers. */
struct stat_view {
    const char *name, *title;
    const struct stats_fields *fields;  /* NULL: none */
    const struct stats_table *table;    /* NULL: of the process */
    size_t key_columns, first_part;     /* as of struct cmd_table */
    const char *none;                   /* what is said when there is no row */
    bool sums;                          /* there is a row of the sum, too */
    bool on_request;                    /* not shown when no view is named */
    bool per_process;                   /* a row is of one process, and there is no sum */
    /* Its own columns, which `fill` puts rows into. With `fields` too they are what people see, and
     * the sum; a row for each process is for programs. */
    const struct stat_columns *columns;
    void (*fill)(struct cmd_table *table, const struct stat_set *set);
    void (*print)(const struct stat_set *set, size_t width, const char *sort, FILE *out);
    void (*print_json)(const struct stat_set *set, struct cmd_json *json, const char *key);
};

enum { STAT_VIEWS = 11, STAT_COLUMNS = 24 };
extern const struct stat_view stat_views[STAT_VIEWS];

/* NULL: there is no such view. */
const struct stat_view *stat_view_find(const char *name);
/* Prints for people, in `width` columns (0: no limit); `sort` is a column or NULL. In an interval
 * what was counted is shown per second. */
void stat_view_print(const struct stat_view *view, const struct stat_set *set, size_t width,
                     const char *sort, FILE *out);
/* Prints an array of objects; counts are shown as they are. */
void stat_view_print_json(const struct stat_view *view, const struct stat_set *set,
                          const char *sort, struct cmd_json *json, const char *key);

/* What a row shows: a record of a process. */
struct stat_row {
    const struct stat_set *set;
    const struct directnfs_stats *stats; /* NULL: of a server of the set */
    const void *record;
};
void stat_row_put(struct cmd_table *table, const struct stat_view *view,
                  const struct stat_row *row);
/* A table without rows, with columns of the view: until the next call. `own`: its own ones, if it
 * has some. */
struct cmd_table stat_table(const struct stat_view *view, double seconds, bool own);
/* By a column, if that is not NULL. */
void stat_table_sort(struct cmd_table *table, const char *sort);

/* The first screen, what is asked for without a view: in page.c. */
void stat_page_print(const struct stat_set *set, size_t width, FILE *out);

/* Bytes of a file that are kept until they are committed, or those of them that are not sent. */
uint64_t stat_uncommitted_in(const struct stat_set *set, const struct directnfs_file_stats *file,
                             bool unsent);

/* The views mounts and files, in mounts.c and files.c; agents and strays, in left.c. */
extern const struct stat_columns stat_mount_columns, stat_file_columns, stat_agent_columns,
    stat_stray_columns;
void stat_files_fill(struct cmd_table *table, const struct stat_set *set);
void stat_mounts_fill(struct cmd_table *table, const struct stat_set *set);
void stat_agents_fill(struct cmd_table *table, const struct stat_set *set);
void stat_strays_fill(struct cmd_table *table, const struct stat_set *set);

/* The views stats and latency, in counters.c and latency.c. */
void stat_counters_print(const struct stat_set *set, size_t width, const char *sort, FILE *out);
void stat_counters_print_json(const struct stat_set *set, struct cmd_json *json, const char *key);
void stat_latency_print(const struct stat_set *set, size_t width, const char *sort, FILE *out);
/* Asks the paths of processes that run, and says how long NULL takes beside READ and WRITE. */
void stat_null_print(const struct stat_set *set, size_t width, FILE *out);
void stat_latency_print_json(const struct stat_set *set, struct cmd_json *json, const char *key);
/* Members of the object that is open: the mean, percentiles and the longest, in microseconds. */
void stat_json_times(struct cmd_json *json, const struct directnfs_latency *counted);

/* A bucket's upper bound in microseconds; the lower one is half of it. */
static inline uint64_t stat_bucket_to(unsigned bucket)
{
    return UINT64_C(1) << bucket;
}

/* The whole set in Prometheus's text exposition format, and one more gauge. */
void stat_prometheus_print(const struct stat_set *set, FILE *out);
void stat_prometheus_gauge(FILE *out, const char *name, const char *help, double value);

/* A drawing of latencies, out of one report or several. Zero-initialised; freed by
 * stat_plot_free(). */
enum { STAT_PLOT_PROCEDURES = 3 }; /* that are drawn */
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

/* Adds a report; one of an interval becomes a point in time. */
void stat_plot_add(struct stat_plot *plot, const struct stat_set *set);
/* Writes an SVG file. CMD_FINE, or CMD_NOT_FINE after a complaint. */
int stat_plot_write(struct stat_plot *plot, const char *file);
void stat_plot_free(struct stat_plot *plot);

#endif
