/* Files as an administrator knows them: each file once, summed over the processes that use it. */
#ifndef CMD_FILES_H
#define CMD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/index.h"
#include "stats/read.h"

/* A file by its name and server. Text is printable as far as stats_snapshot_read() says. */
struct cmd_file {
    /* Counts are sums. `slot` is USED if a process has the file open. If the kernel serves it for a
     * process, `state` and `reason` say so. */
    struct directnfs_file_stats sum;
    const struct directnfs_server_stats *server; /* of one process; NULL: it had no room for it */
    uint32_t uid;                                /* of one of the processes that use it */
    uint32_t pid;                                /* the only process; 0: there are several */
    unsigned processes, kernel; /* that use it; and those of them for which the kernel serves it */
    uint64_t key;
};

/* Zero-initialised; freed by cmd_files_free(). */
struct cmd_files {
    struct cmd_file *list;
    size_t count;
    struct cmd_index index;
};

/* Adds those files of a process for which `wanted` is true; NULL: all. False: no memory. */
bool cmd_files_add(struct cmd_files *files, const struct directnfs_stats *stats,
                   bool (*wanted)(const struct directnfs_file_stats *file));
void cmd_files_free(struct cmd_files *files);

/*
 * Asks the kernel for the sizes of files that it serves. Asks as the users that use them, as nobody
 * else may know the sizes. It may have to wait for a server. Without an answer within `timeout_ms`,
 * a file keeps the size that a process last knew.
 */
void cmd_files_ask_sizes(struct cmd_files *files, int timeout_ms);

/* "direct", "direct (closed)", "kernel: mmap", "kernel: mmap (for 2 of 9)". Returns `text`. */
enum { CMD_FILE_STATE = DIRECTNFS_REASON_BYTES + 48 };
const char *cmd_file_state(const struct cmd_file *file, char text[CMD_FILE_STATE]);

#endif
