/*
 * Whether this host holds a fence, and with which verifier. Each fence has a small file in the run
 * directory. `directnfs fence take` writes it, and so does a process that finds out that another
 * host has taken the fence. What another boot of the host wrote does not count.
 */
#ifndef RUN_FENCE_H
#define RUN_FENCE_H

#include <stdbool.h>
#include <stdint.h>

enum run_fence_state {
    RUN_FENCE_NONE,
    RUN_FENCE_HELD,
    RUN_FENCE_LOST,
    RUN_FENCE_UNKNOWN /* not known now: see run_fence_is_shortage() */
};

struct run_fence {
    enum run_fence_state state;
    uint64_t verifier; /* of the last time that this host took it; with NONE: 0 */
};

/*
 * Locks the file of a fence; waits up to `timeout_ms` (0: for ever) for another process of the
 * host. Returns a descriptor for run_fence_unlock(), -ETIMEDOUT, or another -errno. A child of
 * fork() closes it with run_fence_drop().
 */
int run_fence_lock(const char *server, const char *name, int timeout_ms);
void run_fence_unlock(int fd);
void run_fence_drop(int fd);

/* Does the error only mean that this process, or the host, is out of descriptors or memory for the
 * moment? */
bool run_fence_is_shortage(int error);

/* Reads a locked file. NONE if it makes no sense; UNKNOWN if this boot cannot be told from
 * others. */
void run_fence_read(int fd, struct run_fence *fence);
/* Writes a locked file. 0 or -errno. */
int run_fence_write(int fd, const struct run_fence *fence);

/* Reads the file without the lock: how it is at some moment. Makes nothing. */
void run_fence_look(const char *server, const char *name, struct run_fence *fence);

#endif
