/*
 * What administrators say of network paths, for all processes of one user on this host: which of
 * them are offline. Kept in the file `paths` of the run directory, which outlives processes: what
 * was said holds for those that start later, until it is taken back or the host boots.
 *
 * A path is named by the words of the nfstab: the server's name, and the addresses of `path:` and
 * `local:` as they stand there.
 */
#ifndef RUN_OFFLINE_H
#define RUN_OFFLINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "directnfs/stats.h"

enum { RUN_OFFLINE_MAX = 64 };

/* A path that is offline. */
struct run_offline {
    uint64_t since_ns; /* CLOCK_REALTIME */
    char server[DIRECTNFS_NAME_BYTES];
    char peer[DIRECTNFS_ADDRESS_BYTES];
    char local[DIRECTNFS_ADDRESS_BYTES]; /* empty: with every local address, and with none */
};

/* ---- in processes that use paths ---- */

/*
 * Maps the file, making it if it is missing and repairing it if it is damaged. Once a process, any
 * thread; a child of fork() keeps the mapping. When it cannot be had the log says why, and no path
 * is offline in this process.
 */
void run_offline_open(void);

/* Where the mapped file counts changes. */
extern _Atomic(const _Atomic uint32_t *) run_offline_word;

/* The run directory is another one: the next run_offline_open() opens the file there. */
void run_offline_move(void);

/*
 * Changes whenever anything is said; 0 while nothing ever was. Two loads. Take it before asking
 * run_is_offline(): an answer holds until it changes.
 */
static inline uint32_t run_offline_generation(void)
{
    return atomic_load_explicit(atomic_load_explicit(&run_offline_word, memory_order_acquire),
                                memory_order_acquire);
}

/* Is the path offline? `local` NULL or empty: none is configured. No lock, no system call, a few
 * microseconds; false without run_offline_open(). */
bool run_is_offline(const char *server, const char *peer, const char *local);

/*
 * Sleeps until *word (a private futex) is not `value`, or run_offline_generation() not
 * `generation`, or for `limit_ns`. On kernels older than 5.16 it looks at the generation every two
 * seconds only.
 */
void run_offline_wait(_Atomic uint32_t *word, uint32_t value, uint32_t generation,
                      uint64_t limit_ns);

/* ---- for the command ---- */

/*
 * Says that a path is offline or online again; `local` NULL or empty: with any local address. Holds
 * when it returns 0, also if it held already. -EBUSY: cannot be online with this local address as
 * the path is offline with every one. -ENOSPC: RUN_OFFLINE_MAX paths are offline, or no memory is
 * left in the run directory. -ENAMETOOLONG. -EBADMSG: it is no regular file. -EPROTO: the file is
 * of another version of directnfs. -ETIMEDOUT: a process holds the lock for half a second, stopped
 * perhaps. Other -errno of the file system. A damaged file is begun anew, and the log says that
 * nothing is offline any more.
 */
int run_offline_set(const char *server, const char *peer, const char *local, bool offline);

/*
 * Reads which paths are offline from the file; nothing is made. The count, 0 too when there is no
 * file; -EBADMSG: it is damaged; -EPROTO; -errno.
 */
int run_offline_read(struct run_offline paths[RUN_OFFLINE_MAX]);

#endif
