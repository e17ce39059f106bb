/* What SQEs mean, and carrying one out at once. */
#ifndef PRELOAD_URING_NOW_H
#define PRELOAD_URING_NOW_H

#include "preload/uring/uring.h"

enum preload_uring_kind {
    PRELOAD_URING_PASS,     /* names no file that could be ours, or does nothing to its data */
    PRELOAD_URING_TRANSFER, /* reads and writes */
    PRELOAD_URING_AT_ONCE,  /* fsync and what else src/file does before it returns */
    PRELOAD_URING_COPY,     /* splice, tee */
    PRELOAD_URING_NAME,     /* openat, statx: a path that may be below a mount */
    PRELOAD_URING_TABLE,    /* changes the table of registered files */
    PRELOAD_URING_OTHER     /* of a managed file: the kernel's */
};

enum preload_uring_kind preload_uring_kind(const struct io_uring_sqe *sqe);
bool preload_uring_is_write(unsigned opcode);

/* Copies what an SQE says of its memory, which the application may use again after
 * io_uring_submit(). 0 or -errno. */
int preload_uring_memory(struct preload_request *request, const struct io_uring_sqe *sqe);

/* Is the source of a splice or tee managed? */
bool preload_uring_source_managed(struct preload_uring *record, const struct io_uring_sqe *sqe);

/* The kernel is about to change slots of the table. */
void preload_uring_table_changes(struct preload_uring *record, const struct io_uring_sqe *sqe);

/*
 * Carries an SQE out. `open`: its file, NULL for paths. Returns what its CQE shall hold, or
 * FILE_KERNEL. *complete is set to false if a transfer was short.
 */
ssize_t preload_uring_now(const struct io_uring_sqe *sqe, struct file_open *open, int fd,
                          bool *complete);

#endif
