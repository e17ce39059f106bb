/*
 * What is counted: a list of the members of the shared memory, each once. These come from it:
 * cleaning what others wrote, sums and differences, the columns of `directnfs stat`, the members of
 * its JSON, and the metrics.
 *
 * A new counter needs a member in directnfs/stats.h, a line in catalogue.c, and a place that
 * counts. test_stats_catalogue asks for its name in directnfs-stats(7), test/integration/stat for
 * one in test/lib/stat.schema.json. The number of the layout goes up.
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
    STATS_LATENCY, /* struct directnfs_latency, which counts up too; its calls are shown */
    STATS_ERRORS,  /* errors of all procedures of struct directnfs_counters */
    STATS_LAST_COUNT = STATS_ERRORS,
    /* Times out of struct directnfs_latency, in microseconds. */
    STATS_MEAN,
    STATS_P50,
    STATS_P90,
    STATS_P99,
    STATS_MAX,
    STATS_WAITED, /* uint64_t, nanoseconds of a file's reads, writes or syncs: their mean */
    /* Other numbers, as of now. */
    STATS_GAUGE,   /* uint64_t */
    STATS_AGE,     /* uint64_t, CLOCK_MONOTONIC: microseconds since then; 0: none */
    STATS_UNTIL,   /* uint64_t, CLOCK_REALTIME: seconds until then; 0: none, or it is over */
    STATS_NUMBER,  /* uint32_t */
    STATS_PROCESS, /* the process, or that this is the sum */
    STATS_SERVER,  /* uint32_t, an index in `servers`; `bound` is none; the server's ID is shown */
    STATS_SERVER_OWN,  /* the ID of the server itself */
    STATS_UNCOMMITTED, /* bytes of a file that are uncommitted */
    STATS_UNSENT,      /* bytes of them that are not sent */
    STATS_LAST_NUMBER = STATS_UNSENT,

    /* Arrays of `bound` characters. */
    STATS_TEXT,
    STATS_CUT_END,   /* when too long it loses its end */
    STATS_CUT_START, /* when too long it loses its start */
    STATS_LAST_TEXT = STATS_CUT_START,
    /* Words for a uint32_t, which is an enum: a number above `bound` is taken as 0. */
    STATS_SLOT,
    STATS_STATE, /* enum directnfs_channel_state */
    STATS_FILE_STATE,
    STATS_MOUNT_KIND,
    STATS_SECURITY, /* not an enum, but bits: DIRECTNFS_SECURITY_... */
    STATS_LAST_BOUNDED = STATS_SECURITY,
    /* Other words. */
    STATS_VERSION,     /* uint32_t, the version of NFS */
    STATS_TIME,        /* uint64_t, CLOCK_REALTIME in nanoseconds */
    STATS_ID,          /* uint64_t, as 16 hexadecimal digits */
    STATS_SERVER_NAME, /* uint32_t, as STATS_SERVER */
    STATS_PROCEDURE,
};

struct stats_field {
    const char *name; /* of the column, in JSON in lower case; NULL: in no view */
    enum stats_kind kind;
    size_t offset, bound;
    const char *metric, *help; /* the metric without "directnfs_"; NULL: none */
};

struct stats_fields {
    const struct stats_field *list; /* in the order of columns, those without a name last */
    size_t count;
};

/* A table behind the counters. The slots that were ever used come first. */
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
    size_t slot;                 /* bytes of a slot, which begins with enum directnfs_slot */
    uint32_t slots;
    struct stats_fields fields;
};
extern const struct stats_table stats_tables[STATS_TABLES];

/* The fields of struct directnfs_stats as a row, of struct directnfs_procedure_stats, and of struct
 * directnfs_counters without its procedures. */
extern const struct stats_fields stats_process_fields, stats_procedure_fields, stats_counters;

/* How many slots of a table were ever used; one of these slots; the member of a record. */
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

/* Do both have the names of one mount of a server, one mount, one path? */
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
/* "krb5p", "sys+tls", "sys,krb5i+mtls" of the bits DIRECTNFS_SECURITY_...; empty: 0. Returns the
 * text. */
enum { STATS_SECURITY_BYTES = 40 };
const char *stats_security_text(uint32_t bits, char text[STATS_SECURITY_BYTES]);

#endif
