/*
 * Whether this host holds a fence, and with which verifier: a small file of the run directory for
 * each fence, which `directnfs fence take` writes, and a process that finds out that another host
 * has taken it. What another boot of the host wrote counts for nothing.
 */
#ifndef RUN_FENCE_H
#define RUN_FENCE_H

#include <stdbool.h>
#include <stdint.h>

enum run_fence_state {
    RUN_FENCE_NONE,
    RUN_FENCE_HELD,
    RUN_FENCE_LOST,
    RUN_FENCE_UNKNOWN /* it cannot be told now: see run_fence_is_shortage() */
};

struct run_fence {
    enum run_fence_state state;
    uint64_t verifier; /* of the last time that this host took it; NONE: 0 */
};

/*
 * Waits until no other process of the host has it locked, for this long (0: for ever). A descriptor
 * for run_fence_unlock(), or -ETIMEDOUT or another -errno. The child of a fork() closes it, with
 * run_fence_drop().
 */
int run_fence_lock(const char *server, const char *name, int timeout_ms);
void run_fence_unlock(int fd);
void run_fence_drop(int fd);

/* Does the error mean no more than that this process, or the host, has no descriptor or memory left
 * for the moment? */
bool run_fence_is_shortage(int error);

/* Of a file that is locked. NONE if it cannot be understood. */
void run_fence_read(int fd, struct run_fence *fence);
/* 0 or -errno. */
int run_fence_write(int fd, const struct run_fence *fence);

/* Without the lock: what it is at some moment. Nothing is made. */
void run_fence_look(const char *server, const char *name, struct run_fence *fence);

#endif
