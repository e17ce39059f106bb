/*
 * Which network paths are offline, as administrators said, for all processes of one user on this
 * host. It is kept in the file `paths` of the run directory, which outlives processes. What was
 * said holds for later processes too, until it is taken back or the host boots.
 *
 * A path is named by the words of the nfstab: the server's name, and the addresses of `path:` and
 * `local:` as they are written there.
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
 * Maps the file. It makes the file if it is missing, and repairs it if it is damaged. Once a
 * process, in any thread; a child of fork() keeps the mapping. If it fails the log says why, and no
 * path is offline in this process.
 */
void run_offline_open(void);

/* The word of the mapped file that counts changes. */
extern _Atomic(const _Atomic uint32_t *) run_offline_word;

/* The run directory has changed. If the file was open, this opens the one in the new directory. */
void run_offline_move(void);

/* Changes whenever a path is taken offline or online; 0: none ever was. Two loads. Take it before
 * you ask run_is_offline(): the answer holds until it changes. */
static inline uint32_t run_offline_generation(void)
{
    return atomic_load_explicit(atomic_load_explicit(&run_offline_word, memory_order_acquire),
                                memory_order_acquire);
}

/* Is the path offline? `local` NULL or empty: none is configured. No lock, no system call, a few
 * microseconds. False without run_offline_open(). */
bool run_is_offline(const char *server, const char *peer, const char *local);

/*
 * Sleeps until *word (a private futex) is not `value`, or run_offline_generation() is not
 * `generation`, or `limit_ns` is over. On kernels older than 5.16 it looks at the generation only
 * every two seconds.
 */
void run_offline_wait(_Atomic uint32_t *word, uint32_t value, uint32_t generation,
                      uint64_t limit_ns);

/* ---- for the command ---- */

/*
 * Takes a path offline, or online again. `local` NULL or empty: with any local address. A damaged
 * file is begun anew, and the log says that nothing is offline any more.
 * 0: it is so, and perhaps was before.
 * -EBUSY: it cannot be online with this local address, as it is offline with every one.
 * -ENOSPC: RUN_OFFLINE_MAX paths are offline, or the run directory has no memory left.
 * -ENAMETOOLONG: a name or address is too long.
 * -EINVAL: the server or the peer is empty.
 * -EBADMSG: it is no regular file.
 * -EPROTO: the file belongs to another version of directnfs.
 * -ETIMEDOUT: a process held the lock for half a second; it may be stopped.
 * Another -errno: the file system's.
 */
int run_offline_set(const char *server, const char *peer, const char *local, bool offline);

/*
 * Reads from the file which paths are offline; makes nothing. Returns the count.
 * 0: none is, or there is no file.
 * -EBADMSG: the file is damaged.
 * -EPROTO: it belongs to another version of directnfs.
 * -EAGAIN: it changed all the time.
 * Another -errno: it cannot be read.
 */
int run_offline_read(struct run_offline paths[RUN_OFFLINE_MAX]);

#endif
