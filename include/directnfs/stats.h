/*
 * The layout of the statistics that each process shows in shared memory.
 *
 * A process that uses directnfs keeps one file `stats.<pid>.<starttime>` in the run directory
 * ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>/). The file holds one struct directnfs_stats. Only
 * this process maps and updates it, without locks; anyone may read it at any moment. When the
 * process ends, its counters are added to the file `stats.ended.LAYOUT`, which has this layout too.
 * That file is only ever replaced as a whole. Versions with different layouts can run side by side,
 * since each adds up its own.
 *
 * A reader checks magic, layout and size first. It bounds every count and terminates every string,
 * as the writer may be in the middle of a change. Numbers are in the host's byte order.
 */
#ifndef DIRECTNFS_STATS_H
#define DIRECTNFS_STATS_H

#include <stdint.h>

#define DIRECTNFS_STATS_MAGIC  UINT64_C(0x7461747353464e44) /* "DNFSstat" in memory */
#define DIRECTNFS_STATS_LAYOUT 12u
#define DIRECTNFS_STATS_ENDED  "stats.ended.12" /* the 12 is the layout */

enum {
    DIRECTNFS_HISTOGRAM_BUCKETS = 32,
    DIRECTNFS_SERVERS = 16,
    DIRECTNFS_SESSIONS = 16,
    DIRECTNFS_MOUNTS = 32,
    DIRECTNFS_PATHS = 64,
    DIRECTNFS_CHANNELS = 128,
    DIRECTNFS_FILES = 512,
    DIRECTNFS_NAME_BYTES = 256,
    DIRECTNFS_FILE_NAME_BYTES = 512, /* a longer name keeps its end, after "..." */
    DIRECTNFS_ADDRESS_BYTES = 64,
    DIRECTNFS_REASON_BYTES = 96
};

/*
 * What a call is counted as: the procedures of NFSv3 by their numbers (NULL 0 ... COMMIT 21),
 * MOUNT, and those operations of NFSv4.1 that NFSv3 has no equal of. A COMPOUND counts as the
 * operation that it is sent for.
 */
enum {
    DIRECTNFS_PROCEDURE_MOUNT = 22,
    DIRECTNFS_PROCEDURE_OPEN,
    DIRECTNFS_PROCEDURE_CLOSE,
    DIRECTNFS_PROCEDURE_EXCHANGE_ID,
    DIRECTNFS_PROCEDURE_CREATE_SESSION,
    DIRECTNFS_PROCEDURE_DESTROY_SESSION,
    DIRECTNFS_PROCEDURE_DESTROY_CLIENTID,
    DIRECTNFS_PROCEDURE_BIND_CONN_TO_SESSION,
    DIRECTNFS_PROCEDURE_RECLAIM_COMPLETE,
    DIRECTNFS_PROCEDURE_SEQUENCE, /* sent alone, it renews the lease */
    DIRECTNFS_PROCEDURES
};

enum directnfs_slot {
    DIRECTNFS_SLOT_FREE,
    DIRECTNFS_SLOT_USED,
    DIRECTNFS_SLOT_CLOSED /* a file without descriptors; kept until its place is needed */
};

enum directnfs_channel_state {
    DIRECTNFS_CHANNEL_DOWN,
    DIRECTNFS_CHANNEL_UP,
    DIRECTNFS_CHANNEL_PROBING, /* a path that was not needed so far: nobody knows where it leads */
    DIRECTNFS_CHANNEL_OFFLINE,
    DIRECTNFS_CHANNEL_SILENT, /* a path whose calls wait longer than usual, and nothing comes */
    DIRECTNFS_CHANNEL_STATES
};

/* How the calls of a connection are protected. One that serves several mounts may have several of
 * the first four. */
enum {
    DIRECTNFS_SECURITY_SYS = 1, /* not at all: AUTH_SYS */
    DIRECTNFS_SECURITY_KRB5 = 2,
    DIRECTNFS_SECURITY_KRB5I = 4,
    DIRECTNFS_SECURITY_KRB5P = 8,
    DIRECTNFS_SECURITY_TLS = 16,
    DIRECTNFS_SECURITY_MTLS = 32, /* TLS, and this host gave a certificate */
    DIRECTNFS_SECURITY_ALL = 63
};

enum directnfs_file_state { DIRECTNFS_FILE_DIRECT, DIRECTNFS_FILE_KERNEL };

enum directnfs_mount_kind { DIRECTNFS_KERNEL_BACKED, DIRECTNFS_STANDALONE };

/* Latencies of answered calls. Bucket 0 of the histogram counts calls of less than a microsecond.
 * Bucket i counts those from 2^(i-1) up to 2^i microseconds, and the last one everything beyond. */
struct directnfs_latency {
    uint64_t calls; /* answered, errors included */
    uint64_t total_ns;
    uint64_t max_ns;
    uint64_t histogram[DIRECTNFS_HISTOGRAM_BUCKETS];
};

struct directnfs_procedure_stats {
    struct directnfs_latency latency;
    uint64_t errors; /* status other than OK, or no usable reply */
};

/* The counters that are added up when processes end. All are uint64_t. Of max_ns the larger one is
 * kept. */
struct directnfs_counters {
    struct directnfs_procedure_stats procedures[DIRECTNFS_PROCEDURES];
    uint64_t read_bytes;         /* NFS_READBYTES: received by READ */
    uint64_t write_bytes;        /* NFS_WRITEBYTES: acknowledged by WRITE */
    uint64_t verifier_changes;   /* COMMITs with another verifier than their WRITEs */
    uint64_t jukebox_waits;      /* replies NFS3ERR_JUKEBOX */
    uint64_t retransmissions;    /* calls sent again with the same xid */
    uint64_t rewritten_bytes;    /* written again after a change of verifier */
    uint64_t files_direct;       /* files adopted */
    uint64_t files_kernel;       /* files of a mount that were left or handed to the kernel */
    uint64_t files_handed_over;  /* those of files_kernel that were direct before */
    uint64_t files_not_shown;    /* files that the table below had no room for */
    uint64_t channels_not_shown; /* channels, likewise */
    uint64_t paths_not_shown;    /* paths, likewise */
    uint64_t mounts_not_shown;   /* mounts, likewise; in a sum, paths too */
    uint64_t read_ahead_bytes;   /* part of read_bytes: read before it was asked for */
    uint64_t read_ahead_used;    /* part of read_ahead_bytes: asked for later */
    uint64_t gathered_writes;    /* WRITEs of data that write(2) had left behind */
    uint64_t gathered_bytes;     /* bytes in gathered_writes */
    uint64_t behind_waits;       /* writes that waited for room behind others */
    uint64_t cache_hits;         /* reads that the cache of the host answered */
    uint64_t cache_misses;       /* reads that it did not answer, of files that it has a part of */
    uint64_t cache_bytes;        /* bytes that it gave */
    uint64_t sessions_made;      /* sessions of NFSv4.1 */
    uint64_t session_replays;    /* answers in a session to calls that were sent again: none was
                                    carried out twice */
    uint64_t sequence_errors;    /* answers that deny the sequence or the slot of a call */
    uint64_t slot_waits;         /* times that a call found no free slot */
    uint64_t tls_handshakes;     /* connections that TLS protects */
    uint64_t tls_failures;       /* connections that TLS refused, or ended */
    uint64_t kerberos_contexts;  /* contexts that were made */
    uint64_t kerberos_renewals;  /* part of kerberos_contexts: made before the one before ended */
    uint64_t kerberos_failures;  /* attempts to make one that failed */
};

struct directnfs_server_stats {
    uint32_t slot; /* enum directnfs_slot */
    uint32_t kind; /* enum directnfs_mount_kind */
    uint32_t mntport, nfsport;
    uint32_t version; /* 3, or 4: NFSv4.1 */
    uint32_t wtmax, rtmax;
    uint32_t spare;
    char name[DIRECTNFS_NAME_BYTES];      /* the server's, from the nfstab */
    char directory[DIRECTNFS_NAME_BYTES]; /* exported */
    char mount[DIRECTNFS_NAME_BYTES];     /* the mount point on this host */
    char security[16];                    /* "sys" */
};

/* The NFSv4.1 session of a process with a server. */
struct directnfs_session_stats {
    uint32_t slot;
    uint32_t slots;   /* slots that the server grants now; 0: there is no session */
    uint32_t used;    /* slots that a call has now */
    uint32_t lost;    /* slots of no use any more: their calls ended without an answer */
    uint32_t lease_s; /* seconds */
    uint32_t spare;
    uint64_t client;                 /* the client id that the server gave */
    char name[DIRECTNFS_NAME_BYTES]; /* the server's */
};

/* Calls of one kind on a mount. Only uint64_t. */
struct directnfs_operation_stats {
    uint64_t calls;    /* answered, errors included */
    uint64_t errors;   /* as in struct directnfs_procedure_stats */
    uint64_t resent;   /* sent again with the same xid */
    uint64_t bytes;    /* received by READ, sent by WRITEs that went well */
    uint64_t rtt_ns;   /* from first sending to the answer */
    uint64_t queue_ns; /* before that: the wait for a connection, or for room on it */
};

enum directnfs_operation {
    DIRECTNFS_READ,
    DIRECTNFS_WRITE,
    DIRECTNFS_OTHER, /* all other procedures of NFS */
    DIRECTNFS_OPERATIONS
};

/* What a mount costs. In a process's segment, slot i belongs to server i. In the sum of ended
 * processes, each mount is the sum over all of them, in any slot. */
struct directnfs_mount_stats {
    uint32_t slot;
    uint32_t spare;
    struct directnfs_operation_stats operations[DIRECTNFS_OPERATIONS];
    char name[DIRECTNFS_NAME_BYTES]; /* as in struct directnfs_server_stats */
    char directory[DIRECTNFS_NAME_BYTES];
    char mount[DIRECTNFS_NAME_BYTES];
};

/* A network path to a server. In the sum of ended processes, each path is the sum over all of them,
 * with the state that was entered last. */
struct directnfs_path_stats {
    uint32_t slot;
    uint32_t server; /* index in `servers`; DIRECTNFS_SERVERS: not shown there */
    uint32_t state;  /* enum directnfs_channel_state */
    uint32_t spare;
    uint64_t since_ns;  /* CLOCK_REALTIME of the last change of state */
    uint64_t downs;     /* times it went down */
    uint64_t reissued;  /* calls moved from it to another path */
    uint64_t oldest_ns; /* CLOCK_MONOTONIC: when its oldest call was sent, if that has waited for a
                           second or longer; else 0 */
    uint64_t peer_ends_ns;   /* CLOCK_REALTIME: when the server's certificate ends (TLS); 0: none */
    uint64_t own_ends_ns;    /* and the one of this host */
    uint64_t ticket_ends_ns; /* CLOCK_REALTIME: when the ticket ends that a context was last made
                                with (Kerberos); 0: none was */
    struct directnfs_latency latency;
    char reason[DIRECTNFS_REASON_BYTES]; /* why this state; while it is up: why it was down last */
    char name[DIRECTNFS_ADDRESS_BYTES];  /* the server's */
    char path[DIRECTNFS_ADDRESS_BYTES];
    char local[DIRECTNFS_ADDRESS_BYTES];
};

struct directnfs_channel_stats {
    uint32_t slot;
    uint32_t server;   /* index in `servers` */
    uint32_t id;       /* CH_ID: counts up in a process, never used twice */
    uint32_t state;    /* enum directnfs_channel_state */
    uint32_t security; /* DIRECTNFS_SECURITY_... of its last connection; 0: not known yet */
    uint32_t spare;
    uint64_t sends; /* calls sent */
    uint64_t recvs; /* replies received */
    uint64_t pings; /* NULL calls that ask whether the path lives */
    uint64_t reconnects;
    uint64_t outstanding; /* calls in flight now */
    uint64_t sent_bytes, received_bytes;
    uint64_t rtt_us;                    /* smoothed round trip time */
    uint64_t reissued;                  /* calls sent again */
    uint64_t oldest_ns;                 /* as in struct directnfs_path_stats */
    uint64_t peer_ends_ns, own_ends_ns; /* likewise */
    char tls[DIRECTNFS_ADDRESS_BYTES];  /* "TLSv1.3 TLS_AES_256_GCM_SHA384"; empty: in clear */
    char path[DIRECTNFS_ADDRESS_BYTES];
    char local[DIRECTNFS_ADDRESS_BYTES];
};

struct directnfs_file_stats {
    uint32_t slot;
    uint32_t server;
    uint32_t state; /* enum directnfs_file_state */
    uint32_t opens; /* open file descriptions of this process now */
    uint64_t size;  /* bytes, as last known to this process */
    uint64_t closed_ns;
    uint64_t name_hash;
    uint64_t device, inode;           /* as stat(2) shows them; 0: not known */
    uint64_t reads, writes;           /* calls of this process that were served */
    uint64_t read_bytes, write_bytes; /* bytes that they moved */
    uint64_t read_ns, write_ns;       /* how long they waited for the server */
    uint64_t syncs, sync_ns; /* calls of fsync and the like that were served; how long they took */
    char reason[DIRECTNFS_REASON_BYTES]; /* why the kernel serves it; empty if it is direct */
    char name[DIRECTNFS_FILE_NAME_BYTES];
};

struct directnfs_stats {
    uint64_t magic;
    uint32_t layout;
    uint32_t size; /* bytes of this struct */

    /* The process. In the sum: the last ended process that had files. */
    uint32_t pid;
    uint32_t uid;           /* effective */
    uint64_t starttime;     /* /proc/PID/stat, field 22: with `pid` it names the process for ever */
    uint64_t pid_namespace; /* inode number of /proc/PID/ns/pid */
    char program[DIRECTNFS_ADDRESS_BYTES];
    uint64_t started_ns, updated_ns, ended_ns; /* CLOCK_REALTIME; ended_ns 0: alive or killed */

    /* In `stats.ended.LAYOUT` only. */
    uint64_t processes;      /* how many processes `counters` is the sum of */
    uint64_t last_pid;       /* the one that was added last. So a death between adding it */
    uint64_t last_starttime; /* and removing its file cannot make it count twice */
    uint64_t last_started_ns;

    /* Slots that were ever used, from the start of each table. */
    uint32_t server_count, session_count, mount_count, path_count, channel_count, file_count;

    struct directnfs_counters counters;
    struct directnfs_server_stats servers[DIRECTNFS_SERVERS];
    struct directnfs_session_stats sessions[DIRECTNFS_SESSIONS];
    struct directnfs_mount_stats mounts[DIRECTNFS_MOUNTS];
    struct directnfs_path_stats paths[DIRECTNFS_PATHS];
    struct directnfs_channel_stats channels[DIRECTNFS_CHANNELS];
    struct directnfs_file_stats files[DIRECTNFS_FILES];
};

#endif
