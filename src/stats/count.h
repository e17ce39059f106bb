/*
 * Counters of this process for `directnfs stat`: the writer's side.
 *
 * Any thread may call these functions at any time. Until stats_open() the memory is this process's
 * own, then it is the shared segment, at the same address. So pointers into it stay valid for the
 * life of the process. This includes fork(): a child counts in a segment of its own, from zero.
 * Change counters with stats_add() and stats_set(), which neither block nor fail.
 */
#ifndef STATS_COUNT_H
#define STATS_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "directnfs/stats.h"

extern struct directnfs_stats *const stats_own;

/* Relaxed atomics: `stats_add(&channel->sends, 1)`. Fields of 32 and 64 bits. */
#define stats_add(field, n) ((void)__atomic_fetch_add((field), (n), __ATOMIC_RELAXED))
/* For a field that is only changed under a lock. */
#define stats_add_locked(field, n) stats_set((field), stats_get(field) + (n))
#define stats_set(field, value)    __atomic_store_n((field), (value), __ATOMIC_RELAXED)
#define stats_get(field)           __atomic_load_n((field), __ATOMIC_RELAXED)

/* Calls of one thread on their way into one latency. Calls in a row that fall into one bucket are
 * entered together: every locked instruction costs as much as twenty others. */
struct stats_tally {
    struct directnfs_latency *latency;
    unsigned bucket;
    uint64_t calls, total_ns, max_ns;
};

static inline void stats_tally_end(struct stats_tally *tally)
{
    struct directnfs_latency *latency = tally->latency;
    if (tally->calls == 0)
        return;
    uint64_t max = stats_get(&latency->max_ns);
    stats_add(&latency->calls, tally->calls);
    stats_add(&latency->total_ns, tally->total_ns);
    stats_add(&latency->histogram[tally->bucket], tally->calls);
    while (tally->max_ns > max &&
           !__atomic_compare_exchange_n(&latency->max_ns, &max, tally->max_ns, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    tally->calls = tally->total_ns = tally->max_ns = 0;
}

static inline void stats_tally_add(struct stats_tally *tally, struct directnfs_latency *latency,
                                   uint64_t ns)
{
    uint64_t microseconds = ns / 1000;
    unsigned bucket = microseconds ? 64 - (unsigned)__builtin_clzll(microseconds) : 0;
    if (bucket >= DIRECTNFS_HISTOGRAM_BUCKETS)
        bucket = DIRECTNFS_HISTOGRAM_BUCKETS - 1;
    if (tally->latency != latency || tally->bucket != bucket)
        stats_tally_end(tally);
    tally->latency = latency;
    tally->bucket = bucket;
    tally->calls++;
    tally->total_ns += ns;
    if (ns > tally->max_ns)
        tally->max_ns = ns;
}

/* How long calls like these take at most, for 99 of 100: an upper bound in nanoseconds. 0: fewer
 * than 100 calls were counted. */
uint64_t stats_usual_ns(const struct directnfs_latency *latency);

/*
 * Makes the segment in the run directory and maps it. Only a fork makes that necessary again, and
 * then the child's first channel or call does it.
 * 0: done.
 * -errno: counting goes on in private memory. The log says so once.
 */
int stats_open(void);

/* Between these two calls, what this thread counts of calls, transfers, and reads and writes of
 * files is added up. It is entered at the end. Not nested. */
void stats_together_begin(void);
void stats_together_end(void);

/*
 * Counts an answered call. `procedure` is a number of NFSv3 or DIRECTNFS_PROCEDURE_... .
 * `latency_ns` is the time from sending to the reply. `error`: the status was not OK, or the reply
 * was unusable.
 */
void stats_call(unsigned procedure, uint64_t latency_ns, bool error);

/* A mount of a server. Strings are copied, and cut when too long. */
struct stats_server {
    const char *name, *directory, *mount, *security;
    enum directnfs_mount_kind kind;
    unsigned mntport, nfsport;
    unsigned version;      /* of NFS: 3 or 4 */
    unsigned wtmax, rtmax; /* bytes */
};

/*
 * Enters a mount, or updates the one with this name, directory and mount. Returns its number.
 * DIRECTNFS_SERVERS: the table is full, and the mount is not shown. This is a valid argument below.
 */
unsigned stats_server(const struct stats_server *server);

/*
 * The member that shows the session with the server of this name; the session's owner sets it.
 * Never NULL: when the table is full, it is memory that is not shown. Valid for the life of the
 * process. In a child of fork() there is no session yet.
 */
struct directnfs_session_stats *stats_session(const char *name);

/* The counters of the mount with that number; NULL: it is not shown. Valid for the life of the
 * process; a child of fork() counts from zero. */
struct directnfs_mount_stats *stats_mount(unsigned server);

/* An answered call on a mount. */
struct stats_answer {
    uint64_t bytes; /* that the READ or WRITE moved */
    uint64_t rtt_ns, queue_ns;
    bool error;
};
void stats_mount_call(struct directnfs_mount_stats *mount, enum directnfs_operation operation,
                      const struct stats_answer *answer);

/*
 * Enters a network path to a server, from `local` (may be NULL) to `path`, in state down, or finds
 * it. Never NULL: when the table is full, it is memory that is not shown. Valid for the life of the
 * process. A child of fork() keeps it, with its state, and counts from zero.
 */
struct directnfs_path_stats *stats_path(unsigned server, const char *path, const char *local);
/* Enters the path's state and why (NULL: no reason). A change is dated; one to down is counted. */
void stats_path_state(struct directnfs_path_stats *path, enum directnfs_channel_state state,
                      const char *reason);
/* Counts the bytes that a READ or WRITE moved. */
void stats_transferred(bool write, uint64_t bytes);
/* Count a read or a write of the application that was served, its bytes, and how long it waited for
 * the server. */
void stats_file_read(struct directnfs_file_stats *file, uint64_t bytes, uint64_t ns);
void stats_file_written(struct directnfs_file_stats *file, uint64_t bytes, uint64_t ns);
/* Counts an fsync, or a call that does as much, and how long it took. */
void stats_file_synced(struct directnfs_file_stats *file, uint64_t ns);

/* Enters a channel in state down. Never NULL: when the table is full, it is memory that is not
 * shown. */
struct directnfs_channel_stats *stats_channel(unsigned server, const char *path, const char *local);
/* The channel is gone: nobody uses its counters any more. */
void stats_channel_free(struct directnfs_channel_stats *channel);

/* Enters a file that was opened, or counts another open of this name and server. `reason` (may be
 * NULL) says why the kernel serves it. Never NULL. */
struct directnfs_file_stats *stats_file(const char *name, unsigned server, uint64_t size,
                                        enum directnfs_file_state state, const char *reason);
/* Tells which file it is, so that readers find what is uncommitted in it. */
static inline void stats_file_is(struct directnfs_file_stats *file, uint64_t device, uint64_t inode)
{
    stats_set(&file->device, device);
    stats_set(&file->inode, inode);
}
/* Enters which world serves the file. A change is counted in files_direct or files_kernel. */
void stats_file_state(struct directnfs_file_stats *file, enum directnfs_file_state state,
                      const char *reason);
/* Counts one open less. The slot of a file without any may be reused for another file. */
void stats_file_close(struct directnfs_file_stats *file);

/*
 * In the child of fork(), before anything else here: keeps servers and open files, zeroes counters,
 * and forgets channels. The parent's segment stays as it is. Only without memory for a copy of it
 * the child goes on counting there.
 */
void stats_after_fork(void);
/* The run directory has changed: what is counted from now on is shown in the new one. What was
 * counted before stays in the old one until the process ends. */
void stats_move(void);

/* At exit: adds the counters to those of ended processes and removes the segment. Calling it again
 * does nothing. Counting afterwards is harmless, and lost. */
void stats_finish(void);

#endif
