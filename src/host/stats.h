/*
 * Counters of this process for `directnfs stat`: the writer's side.
 *
 * Everything may be called at any time from any thread: until host_stats_open() the memory is this
 * process's own, then it is the shared segment, at the same address. So pointers into it stay valid
 * for the life of the process, fork included (a child counts in a segment of its own, from zero).
 * Counters are changed with host_stats_add() and host_stats_set(); nothing here blocks or fails.
 */
#ifndef HOST_STATS_H
#define HOST_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "directnfs/stats.h"

extern struct directnfs_stats *const host_stats;

/* A library without counting shows what counting costs: CFLAGS='-O2 -DDIRECTNFS_NO_STATS'. */
#ifdef DIRECTNFS_NO_STATS
#define HOST_STATS_COUNTING 0
#else
#define HOST_STATS_COUNTING 1
#endif

/* Relaxed atomics: `host_stats_add(&channel->sends, 1)`. Fields of 32 and 64 bits. */
#define host_stats_add(field, n) \
    ((void)(HOST_STATS_COUNTING && __atomic_fetch_add((field), (n), __ATOMIC_RELAXED)))
#define host_stats_sub(field, n) \
    ((void)(HOST_STATS_COUNTING && __atomic_fetch_sub((field), (n), __ATOMIC_RELAXED)))
#define host_stats_set(field, value) __atomic_store_n((field), (value), __ATOMIC_RELAXED)
#define host_stats_get(field)        __atomic_load_n((field), __ATOMIC_RELAXED)

static inline void host_stats_latency_add(struct directnfs_latency *latency, uint64_t ns)
{
    if (!HOST_STATS_COUNTING)
        return;
    uint64_t microseconds = ns / 1000, max = host_stats_get(&latency->max_ns);
    unsigned bucket = microseconds ? 64 - (unsigned)__builtin_clzll(microseconds) : 0;
    if (bucket >= DIRECTNFS_HISTOGRAM_BUCKETS)
        bucket = DIRECTNFS_HISTOGRAM_BUCKETS - 1;
    host_stats_add(&latency->calls, 1);
    host_stats_add(&latency->total_ns, ns);
    host_stats_add(&latency->histogram[bucket], 1);
    while (ns > max && !__atomic_compare_exchange_n(&latency->max_ns, &max, ns, true,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/*
 * Makes the segment in the run directory and maps it; again only after a fork (and then it happens
 * by itself at the child's first channel or call). 0 or -errno, said on the log once; counting goes
 * on in private memory then.
 */
int host_stats_open(void);

/*
 * Counts an answered call: `procedure` is the number of NFSv3's or DIRECTNFS_PROCEDURE_MOUNT, from
 * sending to the reply in nanoseconds, `error` for a status other than OK or an unusable reply.
 */
void host_stats_call(unsigned procedure, uint64_t latency_ns, bool error);

/* A mount of a server. Strings are copied, and cut when too long. */
struct host_stats_server {
    const char *name, *directory, *mount, *security;
    enum directnfs_mount_kind kind;
    unsigned mntport, nfsport;
    unsigned wtmax, rtmax; /* bytes */
};

/*
 * Enters a mount, or updates it when name, directory and mount are known already. Returns its
 * number, DIRECTNFS_SERVERS when the table is full (it is then not shown; valid as an argument
 * below).
 */
unsigned host_stats_server(const struct host_stats_server *server);

/*
 * A network path of a server, from `local` (may be NULL) to `path`: enters it, state down, or finds
 * it. Never NULL: when the table is full, memory that is not shown. Valid for the life of the
 * process; a child of fork() keeps it, with its state, and counts from zero.
 */
struct directnfs_path_stats *host_stats_path(unsigned server, const char *path, const char *local);
/* Enters its state and why (NULL: no reason). A change is dated; one to `down` is counted. */
void host_stats_path_state(struct directnfs_path_stats *path, enum directnfs_channel_state state,
                           const char *reason);
/* Counts a call that was answered on it, from sending to the reply in nanoseconds. */
static inline void host_stats_path_answered(struct directnfs_path_stats *path, uint64_t latency_ns)
{
    host_stats_latency_add(&path->latency, latency_ns);
}

/* Count a read or a write of the application that was served. */
static inline void host_stats_file_read(struct directnfs_file_stats *file, uint64_t bytes)
{
    host_stats_add(&file->reads, 1);
    host_stats_add(&file->read_bytes, bytes);
}
static inline void host_stats_file_written(struct directnfs_file_stats *file, uint64_t bytes)
{
    host_stats_add(&file->writes, 1);
    host_stats_add(&file->write_bytes, bytes);
}

/* Enters a channel, state down. Never NULL: when the table is full, memory that is not shown. */
struct directnfs_channel_stats *host_stats_channel(unsigned server, const char *path,
                                                   const char *local);
/* The channel is gone. Its counters are not used by anyone any more. */
void host_stats_channel_free(struct directnfs_channel_stats *channel);

/*
 * A file was opened: enters it, or counts another open of the same name and server. `reason` (may
 * be NULL) says why the kernel serves it. Never NULL.
 */
struct directnfs_file_stats *host_stats_file(const char *name, unsigned server, uint64_t size,
                                             enum directnfs_file_state state, const char *reason);
/* Which file it is, so that others can tell what is uncommitted in it. */
static inline void host_stats_file_is(struct directnfs_file_stats *file, uint64_t device,
                                      uint64_t inode)
{
    host_stats_set(&file->device, device);
    host_stats_set(&file->inode, inode);
}
/* A change of who serves it (demotion): counts in files_kernel when it goes to the kernel. */
void host_stats_file_state(struct directnfs_file_stats *file, enum directnfs_file_state state,
                           const char *reason);
/* One open less; without any the slot may be reused for another file. */
void host_stats_file_close(struct directnfs_file_stats *file);

/* In the child of fork(), before anything else here: keeps servers and open files, zeroes counters
 * and forgets channels. No system call that could fail matters; the parent's segment is untouched.
 */
void host_stats_after_fork(void);

/* At exit: adds the counters to those of ended processes and removes the segment. Idempotent;
 * counting afterwards is harmless and lost. */
void host_stats_finish(void);

/* Adds and removes the segments of processes that died without host_stats_finish(). */
void host_stats_reap(void);

#endif
