/*
 * What is counted: the members of the shared memory, each once. From it come the cleaning of what
 * others wrote, sums and differences, the columns of `directnfs stat`, the members of its JSON, and
 * the metrics.
 *
 * A new counter: a member in directnfs/stats.h, a line in catalogue.c, and the place that counts.
 * test_stats_catalogue asks for its name in directnfs-stats(7), test/integration/stat for one in
 * test/lib/stat.schema.json. The number of the layout goes up.
 */
#ifndef STATS_CATALOGUE_H
#define STATS_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "directnfs/stats.h"

/* What a field is, and how it is shown. */
enum stats_kind {
    /* Counts: added, subtracted, shown per second. */
    STATS_COUNT,   /* uint64_t that counts up */
    STATS_LATENCY, /* struct directnfs_latency, which does, too; its calls are shown */
    STATS_ERRORS,  /* of all procedures of struct directnfs_counters */
    STATS_LAST_COUNT = STATS_ERRORS,
    /* Times out of struct directnfs_latency, in microseconds. */
    STATS_MEAN,
    STATS_P50,
    STATS_P90,
    STATS_P99,
    STATS_MAX,
    STATS_WAITED, /* uint64_t, nanoseconds of a file's reads, writes or syncs: their mean */
    /* Other numbers, as of now. */
    STATS_GAUGE,       /* uint64_t */
    STATS_AGE,         /* uint64_t, CLOCK_MONOTONIC: microseconds since then; 0: none */
    STATS_NUMBER,      /* uint32_t */
    STATS_PROCESS,     /* the process, or that it is the sum */
    STATS_SERVER,      /* uint32_t, an index in `servers` up to `bound`, which is none; its ID */
    STATS_SERVER_OWN,  /* the ID of a server */
    STATS_UNCOMMITTED, /* bytes of a file, */
    STATS_UNSENT,      /* and those of them that are not sent */
    STATS_LAST_NUMBER = STATS_UNSENT,

    /* Arrays of `bound` characters. */
    STATS_TEXT,
    STATS_CUT_END,   /* without room it loses its end, */
    STATS_CUT_START, /* or its start */
    STATS_LAST_TEXT = STATS_CUT_START,
    /* Words of a uint32_t, an enum: up to `bound`, else 0. */
    STATS_SLOT,
    STATS_STATE, /* enum directnfs_channel_state */
    STATS_FILE_STATE,
    STATS_MOUNT_KIND,
    STATS_LAST_BOUNDED = STATS_MOUNT_KIND,
    /* Other words. */
    STATS_VERSION,     /* uint32_t, of NFS */
    STATS_TIME,        /* uint64_t, CLOCK_REALTIME in nanoseconds */
    STATS_ID,          /* uint64_t, as 16 hexadecimal digits */
    STATS_SERVER_NAME, /* uint32_t, as STATS_SERVER */
    STATS_PROCEDURE,
};

struct stats_field {
    const char *name; /* of the column; JSON has it in lower case. NULL: in no view */
    enum stats_kind kind;
    size_t offset, bound;
    const char *metric, *help; /* the metric without "directnfs_"; NULL: none */
};

struct stats_fields {
    const struct stats_field *list; /* in the order of columns, those without a name last */
    size_t count;
};

/* A table behind the counters: the slots that were ever used come first. */
enum {
    STATS_SERVERS,
    STATS_SESSIONS,
    STATS_MOUNTS,
    STATS_PATHS,
    STATS_CHANNELS,
    STATS_FILES,
    STATS_TABLES
};
struct stats_table {
    size_t offset, count_offset; /* in struct directnfs_stats */
    size_t slot;                 /* bytes of one, which begins with enum directnfs_slot */
    uint32_t slots;
    struct stats_fields fields;
};
extern const struct stats_table stats_tables[STATS_TABLES];

/* Of struct directnfs_stats as a row, struct directnfs_procedure_stats, and struct
 * directnfs_counters without procedures. */
extern const struct stats_fields stats_process_fields, stats_procedure_fields, stats_counters;

/* How many slots of a table were ever used, such a slot, and the member of a record. */
static inline uint32_t *stats_count(const struct directnfs_stats *stats,
                                    const struct stats_table *table)
{
    return (uint32_t *)((uintptr_t)stats + table->count_offset);
}
static inline void *stats_slot(const struct directnfs_stats *stats, const struct stats_table *table,
                               size_t index)
{
    return (void *)((uintptr_t)stats + table->offset + index * table->slot);
}
static inline void *stats_at(const struct stats_field *field, const void *record)
{
    return (void *)((uintptr_t)record + field->offset);
}

/* A mount of a server, what it costs, a path: are they the same, by their names? */
bool stats_same_server(const struct directnfs_server_stats *a,
                       const struct directnfs_server_stats *b);
bool stats_same_mount(const struct directnfs_mount_stats *a, const struct directnfs_mount_stats *b);
bool stats_same_path(const struct directnfs_path_stats *a, const struct directnfs_path_stats *b);

/* "NFS_NULL" ... "NFS_COMMIT", "NFS_MOUNT", "NFS_OPEN" ...; NULL beyond. */
const char *stats_procedure_name(unsigned procedure);
/* "READ", "WRITE", "OTHER" of enum directnfs_operation; NULL beyond. */
const char *stats_operation_name(unsigned operation);
/* "up", "down", ... of enum directnfs_channel_state; "unknown" beyond. */
const char *stats_state_name(uint32_t state);

#endif
