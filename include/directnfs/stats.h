/*
 * The layout of the statistics that each process shows in shared memory.
 *
 * A process that uses directnfs keeps one file `stats.<pid>.<starttime>` in the run directory
 * ($DIRECTNFS_RUN, else /dev/shm/directnfs.<uid>/), holding one struct directnfs_stats. It is
 * mapped and updated by its process only, without locks; anyone may read it at any moment. When
 * the process ends its counters are added to the file `stats.ended.LAYOUT`, of the same layout,
 * which is only ever replaced as a whole. So versions of different layouts can run side by side:
 * each adds up its own.
 *
 * For readers: check magic, layout and size first. Bound every count and terminate every string:
 * the writer may be in the middle of a change. Numbers are of the host's byte order.
 */
#ifndef DIRECTNFS_STATS_H
#define DIRECTNFS_STATS_H

#include <stdint.h>

#define DIRECTNFS_STATS_MAGIC  UINT64_C(0x7461747353464e44) /* "DNFSstat" in memory */
#define DIRECTNFS_STATS_LAYOUT 10u
#define DIRECTNFS_STATS_ENDED  "stats.ended.10" /* of that layout */

enum {
    DIRECTNFS_HISTOGRAM_BUCKETS = 32,
    DIRECTNFS_SERVERS = 16,
    DIRECTNFS_SESSIONS = 16,
    DIRECTNFS_MOUNTS = 32,
    DIRECTNFS_PATHS = 64,
    DIRECTNFS_CHANNELS = 128,
    DIRECTNFS_FILES = 512,
    DIRECTNFS_NAME_BYTES = 256,
    DIRECTNFS_FILE_NAME_BYTES = 512, /* of a longer name the end is kept, after "..." */
    DIRECTNFS_ADDRESS_BYTES = 64,
    DIRECTNFS_REASON_BYTES = 96
};

/*
 * What is called: the procedures of NFSv3 by their numbers (NULL 0 ... COMMIT 21), MOUNT, and
 * operations of NFSv4.1 that NFSv3 has nothing like. A COMPOUND is what it is sent for.
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
    DIRECTNFS_PROCEDURE_SEQUENCE, /* alone: the lease is renewed */
    DIRECTNFS_PROCEDURES
};

enum directnfs_slot {
    DIRECTNFS_SLOT_FREE,
    DIRECTNFS_SLOT_USED,
    DIRECTNFS_SLOT_CLOSED /* of a file without descriptors; kept until its place is needed */
};

enum directnfs_channel_state {
    DIRECTNFS_CHANNEL_DOWN,
    DIRECTNFS_CHANNEL_UP,
    DIRECTNFS_CHANNEL_PROBING, /* of a path: not needed so far, so nobody knows where it leads */
    DIRECTNFS_CHANNEL_OFFLINE,
    DIRECTNFS_CHANNEL_SILENT, /* of a path: calls wait longer than is usual, and nothing comes */
    DIRECTNFS_CHANNEL_STATES
};

enum directnfs_file_state { DIRECTNFS_FILE_DIRECT, DIRECTNFS_FILE_KERNEL };

enum directnfs_mount_kind { DIRECTNFS_KERNEL_BACKED, DIRECTNFS_STANDALONE };

/*
 * Latencies of answered calls. Bucket 0 of the histogram counts calls of less than a microsecond,
 * bucket i those of 2^(i-1) up to 2^i microseconds, the last one everything beyond.
 */
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

/* What is added up when processes end. Only uint64_t; max_ns is not added but compared. */
struct directnfs_counters {
    struct directnfs_procedure_stats procedures[DIRECTNFS_PROCEDURES];
    uint64_t read_bytes;        /* NFS_READBYTES: received by READ */
    uint64_t write_bytes;       /* NFS_WRITEBYTES: acknowledged by WRITE */
    uint64_t verifier_changes;  /* COMMITs that came back with another verifier than the WRITEs */
    uint64_t jukebox_waits;     /* replies NFS3ERR_JUKEBOX */
    uint64_t retransmissions;   /* calls sent again with the same xid */
    uint64_t rewritten_bytes;   /* written again after a change of verifier */
    uint64_t files_direct;      /* files adopted */
    uint64_t files_kernel;      /* files of a mount that were left or handed to the kernel */
    uint64_t files_handed_over; /* of these: that were direct, and the kernel serves from then on */
    uint64_t files_not_shown;   /* for which the table below had no room */
    uint64_t channels_not_shown; /* likewise */
    uint64_t paths_not_shown;    /* likewise */
    uint64_t mounts_not_shown;   /* likewise; of a sum, as is that of paths */
    uint64_t read_ahead_bytes;   /* of read_bytes: asked for before they were wanted */
    uint64_t read_ahead_used;    /* and given to who wanted them */
    uint64_t gathered_writes;    /* WRITEs of data that write(2) had left behind */
    uint64_t gathered_bytes;     /* in them */
    uint64_t behind_waits;       /* writes that waited for room behind others */
    uint64_t cache_hits;         /* reads that the cache of the host answered */
    uint64_t cache_misses;       /* reads of files that it has some of, which it did not */
    uint64_t cache_bytes;        /* given by it */
    uint64_t sessions_made;      /* of NFSv4.1 */
    uint64_t session_replays;    /* answers of theirs to calls that were sent again: none was
                                    carried out twice */
    uint64_t sequence_errors;    /* answers that deny the sequence or the slot of a call */
    uint64_t slot_waits;         /* times that a call found no free slot */
};

struct directnfs_server_stats {
    uint32_t slot; /* enum directnfs_slot */
    uint32_t kind; /* enum directnfs_mount_kind */
    uint32_t mntport, nfsport;
    uint32_t version; /* 3, or 4: NFSv4.1 */
    uint32_t wtmax, rtmax;
    uint32_t spare;
    char name[DIRECTNFS_NAME_BYTES];      /* of the server, from the nfstab */
    char directory[DIRECTNFS_NAME_BYTES]; /* exported */
    char mount[DIRECTNFS_NAME_BYTES];     /* where it is seen here */
    char security[16];                    /* "sys" */
};

/* The session of a process with a server, of NFSv4.1. */
struct directnfs_session_stats {
    uint32_t slot;
    uint32_t slots;   /* that the server grants now; 0: there is no session */
    uint32_t used;    /* that a call has now */
    uint32_t lost;    /* of no use any more: of calls that ended without an answer */
    uint32_t lease_s; /* seconds */
    uint32_t spare;
    uint64_t client;                 /* the client id that the server gave */
    char name[DIRECTNFS_NAME_BYTES]; /* of the server */
};

/* Calls of one kind on a mount. Only uint64_t. */
struct directnfs_operation_stats {
    uint64_t calls;    /* answered, errors included */
    uint64_t errors;   /* as of a procedure */
    uint64_t resent;   /* sent again with the same xid */
    uint64_t bytes;    /* received by READ, sent by WRITEs that went well */
    uint64_t rtt_ns;   /* from first sending to the answer */
    uint64_t queue_ns; /* before: calls waited for a connection, or for room on it */
};

enum directnfs_operation {
    DIRECTNFS_READ,
    DIRECTNFS_WRITE,
    DIRECTNFS_OTHER, /* all other procedures of NFS */
    DIRECTNFS_OPERATIONS
};

/*
 * What a mount costs. Of a process, slot i is of server i. In the sum of what ended each mount is
 * the sum of all ended processes, in any slot.
 */
struct directnfs_mount_stats {
    uint32_t slot;
    uint32_t spare;
    struct directnfs_operation_stats operations[DIRECTNFS_OPERATIONS];
    char name[DIRECTNFS_NAME_BYTES]; /* as of the server */
    char directory[DIRECTNFS_NAME_BYTES];
    char mount[DIRECTNFS_NAME_BYTES];
};

/*
 * A network path to a server. In the sum of what ended each path is the sum of all ended processes,
 * with the state that was entered last.
 */
struct directnfs_path_stats {
    uint32_t slot;
    uint32_t server; /* index in `servers`; DIRECTNFS_SERVERS: not shown there */
    uint32_t state;  /* enum directnfs_channel_state */
    uint32_t spare;
    uint64_t since_ns;  /* CLOCK_REALTIME of the last change of state */
    uint64_t downs;     /* times it went down */
    uint64_t reissued;  /* calls moved from it to another path */
    uint64_t oldest_ns; /* CLOCK_MONOTONIC: when its oldest call was sent, if that waits for a
                           second or longer; else 0 */
    struct directnfs_latency latency;
    char reason[DIRECTNFS_REASON_BYTES]; /* of the state; of the last outage while it is up */
    char name[DIRECTNFS_ADDRESS_BYTES];  /* of the server */
    char path[DIRECTNFS_ADDRESS_BYTES];
    char local[DIRECTNFS_ADDRESS_BYTES];
};

struct directnfs_channel_stats {
    uint32_t slot;
    uint32_t server; /* index in `servers` */
    uint32_t id;     /* CH_ID: counts up in a process, never used twice */
    uint32_t state;  /* enum directnfs_channel_state */
    uint64_t sends;  /* calls sent */
    uint64_t recvs;  /* replies received */
    uint64_t pings;  /* NULL calls that ask whether the path lives */
    uint64_t reconnects;
    uint64_t outstanding; /* calls in flight now */
    uint64_t sent_bytes, received_bytes;
    uint64_t rtt_us;    /* smoothed round trip time */
    uint64_t reissued;  /* calls sent again */
    uint64_t oldest_ns; /* as of a path */
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
    uint64_t read_bytes, write_bytes; /* by them */
    uint64_t read_ns, write_ns;       /* that they waited for the server */
    uint64_t syncs, sync_ns;          /* calls of fsync and the like that were served; their time */
    char reason[DIRECTNFS_REASON_BYTES]; /* why the kernel serves it; empty for direct */
    char name[DIRECTNFS_FILE_NAME_BYTES];
};

struct directnfs_stats {
    uint64_t magic;
    uint32_t layout;
    uint32_t size; /* bytes of this struct */

    /* The process; in the sum the last ended process that had files. */
    uint32_t pid;
    uint32_t uid;           /* effective */
    uint64_t starttime;     /* /proc/PID/stat, field 22: with `pid` it names the process for ever */
    uint64_t pid_namespace; /* inode number of /proc/PID/ns/pid */
    char program[DIRECTNFS_ADDRESS_BYTES];
    uint64_t started_ns, updated_ns, ended_ns; /* CLOCK_REALTIME; ended_ns 0: alive or killed */

    /* In `stats.ended.LAYOUT` only. */
    uint64_t processes;      /* how many are added up in `counters` */
    uint64_t last_pid;       /* the one that was added last, so that a death between adding it */
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
