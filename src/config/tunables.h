/*
 * directnfs.conf(5): what an administrator may tune. Every member is always within its range.
 */
#ifndef CONF_TUNABLES_H
#define CONF_TUNABLES_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/diagnostic.h"
#include "sys/log.h"

enum conf_stability {
    CONF_STABILITY_UNSTABLE, /* UNSTABLE writes and COMMIT, RFC 1813 section 4.8 */
    CONF_STABILITY_STABLE,   /* every write is FILE_SYNC */
};

enum conf_privileged_port {
    CONF_PRIVILEGED_PORT_AUTO, /* below 1024 if the process may bind one */
    CONF_PRIVILEGED_PORT_YES,
    CONF_PRIVILEGED_PORT_NO,
};

/* io_uring_setup(2) by a program without liburing. */
enum conf_raw_io_uring {
    CONF_RAW_IO_URING_REFUSE, /* ENOSYS: we would not see its requests */
    CONF_RAW_IO_URING_KERNEL, /* the kernel's, with its requests */
};

/* Files of a program that makes system calls on files itself (sys/code.h). */
enum conf_raw_calls {
    CONF_RAW_CALLS_KERNEL, /* the kernel serves all of them */
    CONF_RAW_CALLS_SERVE,  /* we serve them, as the calls are for other files */
};

/* Filled once at start, then read-only: it needs no lock. Owned by the code that declares it. */
struct conf_tunables {
    int connections;        /* most sockets per path and process: 1..64, default 4 */
    int rsize;              /* bytes of one READ: 4096..1048576; 0: as FSINFO grants */
    int wsize;              /* bytes of one WRITE, likewise */
    double actimeo;         /* seconds that attributes may be stale: 0..3600, default 3 */
    int64_t read_cache_max; /* bytes kept of what was read or written: 0..4 GiB, default 0 */
    int read_ahead_max; /* bytes read ahead for an open file: 0 (never)..16 MiB, default 4 MiB */
    int64_t write_behind_max; /* dirty bytes of a file: 0 (write at once)..1 GiB, default 64 MiB */
    enum conf_stability stability;
    int64_t uncommitted_max;      /* bytes kept for rewriting, on the host for a user: >= 16 MiB,
                                     default 256 MiB */
    int64_t uncommitted_file_max; /* most bytes of one file before an early COMMIT: >= 1 MiB,
                                     default 32 MiB */
    enum conf_privileged_port privileged_port;
    int retransmit_timeout; /* seconds without a reply: 1..600, default 60 */
    int reconnect_max;      /* seconds, longest pause between attempts: 1..60, default 5 */
    double path_timeout;    /* seconds of silence before a path is left: 0..600, default 4 */
    double failover_hold;   /* seconds a request may outlive its connection: 0..600, default 3 */
    double
        silence_warning; /* seconds of silence until the log says so: 0 (never)..600, default 5 */
    int soft_timeout;    /* seconds until a call fails: 0 (never)..86400, default 0 */
    enum conf_raw_io_uring raw_io_uring;
    enum conf_raw_calls raw_calls;
    enum log_level log_level;
};

/* Sets every member to its default. */
void conf_tunables_default(struct conf_tunables *tunables);

/*
 * Sets defaults, and over them what `length` bytes in libconfig's syntax from `file` say. Unknown
 * keys, wrong types and values out of range are errors in `d`, and leave the default. 0; -EINVAL:
 * there was an error; or -ENOMEM. `tunables` is always valid afterwards.
 */
int conf_tunables_parse(struct conf_tunables *tunables, const char *file, const char *text,
                        size_t length, struct conf_diagnostics *d);

/*
 * Writes the name of the file to read to `file`: $DIRECTNFS_CONF, else
 * /etc/directnfs/directnfs.conf. 1: the environment asks for it, so it must exist; else 0. An empty
 * variable counts as unset.
 */
int conf_tunables_file(char file[PATH_MAX]);

/* Loads `file`. If it does not exist, takes the defaults; that is an error only if it is
 * `required`. Returns as conf_tunables_parse(). */
int conf_tunables_load(struct conf_tunables *tunables, const char *file, int required,
                       struct conf_diagnostics *d);

/* Writes all of them as a file that sets them so. */
void conf_tunables_print(const struct conf_tunables *tunables, FILE *out);

#endif
