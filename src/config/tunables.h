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

/* Who makes and opens the records of TLS: the kernel if it can (kTLS), or always OpenSSL. */
enum conf_tls_records { CONF_TLS_RECORDS_AUTO, CONF_TLS_RECORDS_OPENSSL };

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

#define CONF_MIB INT64_C(1048576)

/*
 * Every tunable, once: its type, its name, its default, the least and the most that it may be.
 *
 * INT:   an int
 * SIZE:  an int: 0, or within the range
 * BYTES: an int64_t
 * FLOAT: a double
 * WORD:  an enumeration, with its default and its words, in the order of its values
 */
#define CONF_TUNABLES(INT, SIZE, BYTES, FLOAT, WORD)                                            \
    /* Most sockets of a path and process. */                                                   \
    INT(connections, 4, 1, 64)                                                                  \
    /* Bytes of one READ, and of one WRITE. 0: as FSINFO grants. */                             \
    SIZE(rsize, 0, 4096, 1048576)                                                               \
    SIZE(wsize, 0, 4096, 1048576)                                                               \
    /* Seconds that attributes may be stale. */                                                 \
    FLOAT(actimeo, 3, 0, 3600)                                                                  \
    /* Bytes that are read ahead for an open file. 0: never. */                                 \
    INT(read_ahead_max, 4 * CONF_MIB, 0, 16 * CONF_MIB)                                         \
    /* Bytes that the host keeps of what was read or written. */                                \
    BYTES(read_cache_max, 0, 0, 4096 * CONF_MIB)                                                \
    /* Dirty bytes of a file. 0: each write is sent at once. */                                 \
    BYTES(write_behind_max, 64 * CONF_MIB, 0, 1024 * CONF_MIB)                                  \
    WORD(conf_stability, stability, CONF_STABILITY_UNSTABLE, "unstable", "stable")              \
    /* Bytes that are kept to be written again, on the host for a user. */                      \
    BYTES(uncommitted_max, 256 * CONF_MIB, 16 * CONF_MIB, 1048576 * CONF_MIB)                   \
    /* Most bytes of one file before an early COMMIT. */                                        \
    BYTES(uncommitted_file_max, 32 * CONF_MIB, CONF_MIB, 1048576 * CONF_MIB)                    \
    WORD(conf_privileged_port, privileged_port, CONF_PRIVILEGED_PORT_AUTO, "auto", "yes", "no") \
    /* Seconds without a reply. */                                                              \
    INT(retransmit_timeout, 60, 1, 600)                                                         \
    /* Seconds: the longest pause between attempts to connect. */                               \
    INT(reconnect_max, 5, 1, 60)                                                                \
    /* Seconds of silence before a path is left. */                                             \
    FLOAT(path_timeout, 4, 0, 600)                                                              \
    /* Seconds that a request may outlive its connection. */                                    \
    FLOAT(failover_hold, 3, 0, 600)                                                             \
    /* Seconds of silence until the log says so. 0: never. */                                   \
    FLOAT(silence_warning, 5, 0, 600)                                                           \
    /* Seconds until a call fails. 0: never. */                                                 \
    INT(soft_timeout, 0, 0, 86400)                                                              \
    WORD(conf_tls_records, tls_records, CONF_TLS_RECORDS_AUTO, "auto", "openssl")               \
    WORD(conf_raw_io_uring, raw_io_uring, CONF_RAW_IO_URING_REFUSE, "refuse", "kernel")         \
    WORD(conf_raw_calls, raw_calls, CONF_RAW_CALLS_KERNEL, "kernel", "serve")                   \
    WORD(log_level, log_level, LOG_LEVEL_NOTICE, "error", "warning", "notice", "info", "debug")

#define CONF_INT(name, ...)        int name;
#define CONF_BYTES(name, ...)      int64_t name;
#define CONF_FLOAT(name, ...)      double name;
#define CONF_WORD(type, name, ...) enum type name;

/* Filled once at start, then read-only: it needs no lock. Owned by the code that declares it. */
struct conf_tunables {
    CONF_TUNABLES(CONF_INT, CONF_INT, CONF_BYTES, CONF_FLOAT, CONF_WORD)
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
