#include "stats/catalogue.h"

#include <stdio.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A column, a member and its size. */
#define FIELD(column, is, record, member, ...)                                                 \
    {                                                                                          \
        .name = (column), .kind = (is), .offset = offsetof(struct directnfs_##record, member), \
        .bound = sizeof(((struct directnfs_##record *)0)->member), __VA_ARGS__                 \
    }
/* A column and a member that has an upper bound. */
#define UP_TO(most, column, is, record, member)               \
    {                                                         \
        .name = (column), .kind = (is), .bound = (most),      \
        .offset = offsetof(struct directnfs_##record, member) \
    }
#define TIMES(record, member)                                                                   \
    FIELD("MEAN_US", STATS_MEAN, record, member), FIELD("P50_US", STATS_P50, record, member),   \
        FIELD("P90_US", STATS_P90, record, member), FIELD("P99_US", STATS_P99, record, member), \
        FIELD("MAX_US", STATS_MAX, record, member)
#define MADE(column, is)               \
    {                                  \
        .name = (column), .kind = (is) \
    }

static const struct stats_field server_fields[] = {
    MADE("ID", STATS_SERVER_OWN),
    FIELD("SVRNAME", STATS_CUT_END, server_stats, name),
    FIELD("DIRNAME", STATS_CUT_START, server_stats, directory),
    FIELD("MNTPORT", STATS_NUMBER, server_stats, mntport),
    FIELD("NFSPORT", STATS_NUMBER, server_stats, nfsport),
    FIELD("NFSVERSION", STATS_VERSION, server_stats, version),
    FIELD("WTMAX", STATS_NUMBER, server_stats, wtmax),
    FIELD("RTMAX", STATS_NUMBER, server_stats, rtmax),
    FIELD("SECURITY", STATS_TEXT, server_stats, security),
    FIELD("MOUNT", STATS_CUT_START, server_stats, mount),
    UP_TO(DIRECTNFS_STANDALONE, "KIND", STATS_MOUNT_KIND, server_stats, kind),
    UP_TO(DIRECTNFS_SLOT_USED, NULL, STATS_SLOT, server_stats, slot),
};

static const struct stats_field session_fields[] = {
    MADE("PID", STATS_PROCESS),
    FIELD("SVRNAME", STATS_CUT_END, session_stats, name),
    FIELD("SLOTS", STATS_NUMBER, session_stats, slots, .metric = "session_slots",
          .help = "Slots of the sessions with a server."),
    FIELD("USED", STATS_NUMBER, session_stats, used, .metric = "session_slots_used",
          .help = "Slots that a call has now."),
    FIELD("LOST", STATS_NUMBER, session_stats, lost, .metric = "session_slots_lost",
          .help = "Slots of no use any more, as a call ended without an answer."),
    FIELD("LEASE_S", STATS_NUMBER, session_stats, lease_s),
    FIELD("CLIENT_ID", STATS_ID, session_stats, client),
    UP_TO(DIRECTNFS_SLOT_USED, NULL, STATS_SLOT, session_stats, slot),
};

/* `stat mounts` shows them, a row for each operation. */
#define OPERATION(which)                                                             \
    FIELD(NULL, STATS_COUNT, mount_stats, operations[DIRECTNFS_##which].calls),      \
        FIELD(NULL, STATS_COUNT, mount_stats, operations[DIRECTNFS_##which].errors), \
        FIELD(NULL, STATS_COUNT, mount_stats, operations[DIRECTNFS_##which].resent), \
        FIELD(NULL, STATS_COUNT, mount_stats, operations[DIRECTNFS_##which].bytes),  \
        FIELD(NULL, STATS_COUNT, mount_stats, operations[DIRECTNFS_##which].rtt_ns), \
        FIELD(NULL, STATS_COUNT, mount_stats, operations[DIRECTNFS_##which].queue_ns)
static const struct stats_field mount_fields[] = {
    FIELD(NULL, STATS_TEXT, mount_stats, name),
    FIELD(NULL, STATS_TEXT, mount_stats, directory),
    FIELD(NULL, STATS_TEXT, mount_stats, mount),
    UP_TO(DIRECTNFS_SLOT_USED, NULL, STATS_SLOT, mount_stats, slot),
    OPERATION(READ),
    OPERATION(WRITE),
    OPERATION(OTHER),
};

static const struct stats_field path_fields[] = {
    MADE("PID", STATS_PROCESS),
    FIELD("SVRNAME", STATS_CUT_END, path_stats, name),
    FIELD("PATH", STATS_TEXT, path_stats, path),
    FIELD("LOCAL", STATS_TEXT, path_stats, local),
    UP_TO(DIRECTNFS_CHANNEL_SILENT, "STATE", STATS_STATE, path_stats, state),
    FIELD("CALLS", STATS_LATENCY, path_stats, latency, .metric = "path_call_duration_seconds",
          .help = "Time from sending a call to its answer, by network path."),
    TIMES(path_stats, latency),
    FIELD("DOWNS", STATS_COUNT, path_stats, downs, .metric = "path_downs_total",
          .help = "Times a path went down."),
    FIELD("REISSUED", STATS_COUNT, path_stats, reissued, .metric = "path_reissued_calls_total",
          .help = "Calls moved from a path to another one."),
    FIELD("OLDEST_US", STATS_AGE, path_stats, oldest_ns, .metric = "path_oldest_call_seconds",
          .help = "How long the oldest call on a path waits, in any process; 0 below a second."),
    FIELD("CERT_S", STATS_UNTIL, path_stats, peer_ends_ns,
          .metric = "path_certificate_end_timestamp_seconds",
          .help = "When the server's certificate ends, by network path; 0: without TLS."),
    FIELD("OWN_CERT_S", STATS_UNTIL, path_stats, own_ends_ns,
          .metric = "path_own_certificate_end_timestamp_seconds",
          .help = "When the certificate of this host ends; 0: none is given."),
    FIELD("TICKET_S", STATS_UNTIL, path_stats, ticket_ends_ns,
          .metric = "path_ticket_end_timestamp_seconds",
          .help = "When the first of the processes' Kerberos tickets ends; 0: without Kerberos."),
    FIELD("SINCE", STATS_TIME, path_stats, since_ns),
    FIELD("REASON", STATS_CUT_END, path_stats, reason),
    UP_TO(DIRECTNFS_SERVERS, NULL, STATS_SERVER, path_stats, server),
    UP_TO(DIRECTNFS_SLOT_USED, NULL, STATS_SLOT, path_stats, slot),
};

static const struct stats_field channel_fields[] = {
    MADE("PID", STATS_PROCESS),
    UP_TO(DIRECTNFS_SERVERS, "SVRNAME", STATS_SERVER_NAME, channel_stats, server),
    FIELD("PATH", STATS_TEXT, channel_stats, path),
    FIELD("LOCAL", STATS_TEXT, channel_stats, local),
    FIELD("CH_ID", STATS_NUMBER, channel_stats, id),
    UP_TO(DIRECTNFS_SERVERS, "SVR_ID", STATS_SERVER, channel_stats, server),
    FIELD("SENDS", STATS_COUNT, channel_stats, sends),
    FIELD("RECVS", STATS_COUNT, channel_stats, recvs),
    FIELD("PINGS", STATS_COUNT, channel_stats, pings),
    FIELD("RECO", STATS_COUNT, channel_stats, reconnects),
    UP_TO(DIRECTNFS_CHANNEL_SILENT, "STATE", STATS_STATE, channel_stats, state),
    FIELD("OUTSTANDING", STATS_GAUGE, channel_stats, outstanding),
    FIELD("OLDEST_US", STATS_AGE, channel_stats, oldest_ns),
    FIELD("SENT_BYTES", STATS_COUNT, channel_stats, sent_bytes),
    FIELD("RECV_BYTES", STATS_COUNT, channel_stats, received_bytes),
    FIELD("RTT_US", STATS_GAUGE, channel_stats, rtt_us),
    FIELD("REISSUED", STATS_COUNT, channel_stats, reissued),
    UP_TO(DIRECTNFS_SECURITY_ALL, "SECURITY", STATS_SECURITY, channel_stats, security),
    FIELD("CERT_S", STATS_UNTIL, channel_stats, peer_ends_ns),
    FIELD("OWN_CERT_S", STATS_UNTIL, channel_stats, own_ends_ns),
    FIELD("TLS", STATS_TEXT, channel_stats, tls),
    UP_TO(DIRECTNFS_SLOT_USED, NULL, STATS_SLOT, channel_stats, slot),
};

static const struct stats_field file_fields[] = {
    FIELD("FILENAME", STATS_CUT_START, file_stats, name),
    FIELD("FILESIZE", STATS_GAUGE, file_stats, size),
    MADE("PID", STATS_PROCESS),
    UP_TO(DIRECTNFS_SERVERS, "SVR_ID", STATS_SERVER, file_stats, server),
    MADE("UNCOMMITTED", STATS_UNCOMMITTED),
    UP_TO(DIRECTNFS_FILE_KERNEL, "STATE", STATS_FILE_STATE, file_stats, state),
    MADE("UNSENT", STATS_UNSENT),
    FIELD("READS", STATS_COUNT, file_stats, reads),
    FIELD("READ_BYTES", STATS_COUNT, file_stats, read_bytes),
    FIELD("READ_US", STATS_WAITED, file_stats, read_ns),
    FIELD("WRITES", STATS_COUNT, file_stats, writes),
    FIELD("WRITE_BYTES", STATS_COUNT, file_stats, write_bytes),
    FIELD("WRITE_US", STATS_WAITED, file_stats, write_ns),
    FIELD("SYNCS", STATS_COUNT, file_stats, syncs),
    FIELD("SYNC_US", STATS_WAITED, file_stats, sync_ns),
    FIELD(NULL, STATS_TEXT, file_stats, reason),
    UP_TO(DIRECTNFS_SLOT_CLOSED, NULL, STATS_SLOT, file_stats, slot),
};

#define TABLE(member)                                                     \
    {                                                                     \
        .offset = offsetof(struct directnfs_stats, member##s),            \
        .count_offset = offsetof(struct directnfs_stats, member##_count), \
        .slot = sizeof(struct directnfs_##member##_stats),                \
        .slots = LENGTH(((struct directnfs_stats *)0)->member##s),        \
        .fields = {member##_fields, LENGTH(member##_fields)},             \
    }

const struct stats_table stats_tables[STATS_TABLES] = {
    [STATS_SERVERS] = TABLE(server),   [STATS_SESSIONS] = TABLE(session),
    [STATS_MOUNTS] = TABLE(mount),     [STATS_PATHS] = TABLE(path),
    [STATS_CHANNELS] = TABLE(channel), [STATS_FILES] = TABLE(file),
};

static const struct stats_field process_fields[] = {
    MADE("PID", STATS_PROCESS),
    FIELD("PROGRAM", STATS_TEXT, stats, program),
    FIELD("READS", STATS_LATENCY, stats, counters.procedures[6].latency),
    FIELD("READ_BYTES", STATS_COUNT, stats, counters.read_bytes),
    FIELD("READ_US", STATS_MEAN, stats, counters.procedures[6].latency),
    FIELD("WRITES", STATS_LATENCY, stats, counters.procedures[7].latency),
    FIELD("WRITE_BYTES", STATS_COUNT, stats, counters.write_bytes),
    FIELD("WRITE_US", STATS_MEAN, stats, counters.procedures[7].latency),
    FIELD("ERRORS", STATS_ERRORS, stats, counters),
    FIELD("DIRECT", STATS_COUNT, stats, counters.files_direct),
    FIELD("KERNEL", STATS_COUNT, stats, counters.files_kernel),
};

static const struct stats_field procedure_fields[] = {
    MADE("PROCEDURE", STATS_PROCEDURE),
    FIELD("CALLS", STATS_LATENCY, procedure_stats, latency),
    FIELD("ERRORS", STATS_COUNT, procedure_stats, errors),
    TIMES(procedure_stats, latency),
};

#define COUNTER(column, member, metric_name, sentence) \
    FIELD(column, STATS_COUNT, counters, member, .metric = (metric_name), .help = (sentence))

static const struct stats_field counters[] = {
    COUNTER("NFS_READBYTES", read_bytes, "read_bytes_total", "Bytes received by READ."),
    COUNTER("NFS_WRITEBYTES", write_bytes, "written_bytes_total", "Bytes acknowledged by WRITE."),
    COUNTER("READ_AHEAD_BYTES", read_ahead_bytes, "read_ahead_bytes_total",
            "Bytes received by READ before they were wanted."),
    COUNTER("READ_AHEAD_USED", read_ahead_used, "read_ahead_used_total",
            "Bytes read ahead that were wanted."),
    COUNTER("GATHERED_WRITES", gathered_writes, "gathered_writes_total",
            "WRITEs of data that programs had left behind."),
    COUNTER("GATHERED_BYTES", gathered_bytes, "gathered_bytes_total", "Bytes in them."),
    COUNTER("BEHIND_WAITS", behind_waits, "behind_waits_total",
            "Writes of programs that waited for room behind others."),
    COUNTER("CACHE_HITS", cache_hits, "cache_hits_total",
            "Reads that the cache of the host answered."),
    COUNTER("CACHE_MISSES", cache_misses, "cache_misses_total",
            "Reads of files that it knows, which it did not answer."),
    COUNTER("CACHE_BYTES", cache_bytes, "cache_bytes_total", "Bytes given by it."),
    COUNTER("VERIFIER_CHANGES", verifier_changes, "verifier_changes_total",
            "COMMITs that showed that the server had restarted since the WRITEs."),
    COUNTER("REWRITTEN_BYTES", rewritten_bytes, "rewritten_bytes_total",
            "Bytes written again after a restart of the server."),
    COUNTER("JUKEBOX_WAITS", jukebox_waits, "jukebox_waits_total",
            "Answers that asked to try again later."),
    COUNTER("RETRANSMISSIONS", retransmissions, "retransmissions_total", "Calls sent again."),
    COUNTER("SESSIONS_MADE", sessions_made, "sessions_made_total",
            "Sessions of NFSv4.1 that were made."),
    COUNTER("SESSION_REPLAYS", session_replays, "session_replays_total",
            "Calls sent again in a session and answered, carried out once."),
    COUNTER("SEQUENCE_ERRORS", sequence_errors, "sequence_errors_total",
            "Answers that denied the sequence or the slot of a call."),
    COUNTER("SLOT_WAITS", slot_waits, "slot_waits_total",
            "Times that a call found no free slot of its session."),
    COUNTER("TLS_HANDSHAKES", tls_handshakes, "tls_handshakes_total",
            "Connections that TLS protects."),
    COUNTER("TLS_FAILURES", tls_failures, "tls_failures_total",
            "Connections that TLS refused, or ended."),
    COUNTER("KERBEROS_CONTEXTS", kerberos_contexts, "kerberos_contexts_total",
            "Contexts of Kerberos that were made with servers."),
    COUNTER("KERBEROS_RENEWALS", kerberos_renewals, "kerberos_renewals_total",
            "Contexts that were made before the one before ended."),
    COUNTER("KERBEROS_FAILURES", kerberos_failures, "kerberos_failures_total",
            "Attempts to make a context of Kerberos that failed."),
    COUNTER("FILES_DIRECT", files_direct, "files_direct_total", "Files served by directnfs."),
    COUNTER("FILES_KERNEL", files_kernel, "files_kernel_total",
            "Files of a mount left or handed to the kernel."),
    COUNTER("FILES_HANDED_OVER", files_handed_over, "files_handed_over_total",
            "Files that were direct and were handed to the kernel."),
    COUNTER("FILES_NOT_SHOWN", files_not_shown, "files_not_shown_total",
            "Files that the table had no room for."),
    COUNTER("CHANNELS_NOT_SHOWN", channels_not_shown, "channels_not_shown_total",
            "Connections that the table had no room for."),
    COUNTER("PATHS_NOT_SHOWN", paths_not_shown, "paths_not_shown_total",
            "Network paths that the table had no room for."),
    COUNTER("MOUNTS_NOT_SHOWN", mounts_not_shown, "mounts_not_shown_total",
            "Mounts of ended processes that the table had no room for."),
};

const struct stats_fields stats_process_fields = {process_fields, LENGTH(process_fields)};
const struct stats_fields stats_procedure_fields = {procedure_fields, LENGTH(procedure_fields)};
const struct stats_fields stats_counters = {counters, LENGTH(counters)};

const char *stats_procedure_name(unsigned procedure)
{
    static const char *const names[DIRECTNFS_PROCEDURES] = {"NFS_NULL",
                                                            "NFS_GETATTR",
                                                            "NFS_SETATTR",
                                                            "NFS_LOOKUP",
                                                            "NFS_ACCESS",
                                                            "NFS_READLINK",
                                                            "NFS_READ",
                                                            "NFS_WRITE",
                                                            "NFS_CREATE",
                                                            "NFS_MKDIR",
                                                            "NFS_SYMLINK",
                                                            "NFS_MKNOD",
                                                            "NFS_REMOVE",
                                                            "NFS_RMDIR",
                                                            "NFS_RENAME",
                                                            "NFS_LINK",
                                                            "NFS_READDIR",
                                                            "NFS_READDIRPLUS",
                                                            "NFS_FSSTAT",
                                                            "NFS_FSINFO",
                                                            "NFS_PATHCONF",
                                                            "NFS_COMMIT",
                                                            "NFS_MOUNT",
                                                            "NFS_OPEN",
                                                            "NFS_CLOSE",
                                                            "NFS_EXCHANGE_ID",
                                                            "NFS_CREATE_SESSION",
                                                            "NFS_DESTROY_SESSION",
                                                            "NFS_DESTROY_CLIENTID",
                                                            "NFS_BIND_CONN_TO_SESSION",
                                                            "NFS_RECLAIM_COMPLETE",
                                                            "NFS_SEQUENCE"};
    return procedure < DIRECTNFS_PROCEDURES ? names[procedure] : NULL;
}

const char *stats_operation_name(unsigned operation)
{
    static const char *const names[DIRECTNFS_OPERATIONS] = {"READ", "WRITE", "OTHER"};
    return operation < DIRECTNFS_OPERATIONS ? names[operation] : NULL;
}

const char *stats_state_name(uint32_t state)
{
    static const char *const names[] = {
        [DIRECTNFS_CHANNEL_DOWN] = "down",      [DIRECTNFS_CHANNEL_UP] = "up",
        [DIRECTNFS_CHANNEL_PROBING] = "unused", [DIRECTNFS_CHANNEL_OFFLINE] = "offline",
        [DIRECTNFS_CHANNEL_SILENT] = "silent",
    };
    return state < LENGTH(names) ? names[state] : "unknown";
}

const char *stats_security_text(uint32_t bits, char text[STATS_SECURITY_BYTES])
{
    static const char *const names[] = {"sys", "krb5", "krb5i", "krb5p"};
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < LENGTH(names); i++) {
        if (bits & 1u << i)
            used += (size_t)snprintf(text + used, STATS_SECURITY_BYTES - used, "%s%s",
                                     used ? "," : "", names[i]);
    }
    if (bits & (DIRECTNFS_SECURITY_TLS | DIRECTNFS_SECURITY_MTLS))
        snprintf(text + used, STATS_SECURITY_BYTES - used, "%s%s", used ? "+" : "",
                 bits & DIRECTNFS_SECURITY_MTLS ? "mtls" : "tls");
    return text;
}
