/*
 * A thread of a process that torture.c starts, and how it reads, writes and syncs through every
 * API.
 */
#ifndef FAULT_CALLS_H
#define FAULT_CALLS_H

#include <aio.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "journal.h"

enum { DEPTH = 4, BUFFER_MOST = BLOCK_MOST > RUN_MOST * 65536 ? BLOCK_MOST : RUN_MOST * 65536 };

struct worker;

/* A write or read: of neighbouring blocks, of a part of a sized file, or of records. */
struct operation {
    bool writes, stable;
    bool under_way;
    unsigned file; /* FILES and more: the sized ones, then those of records */
    uint32_t first, count;
    uint32_t least[RUN_MOST]; /* of a write: its numbers; of a read: acknowledged before */
    unsigned char *buffer;
    size_t length, poisoned;
    off_t offset;
    ssize_t result; /* of files of records */
    /* `result` is what the call returned, or -errno. */
    void (*end)(struct worker *w, struct operation *op, enum api api, ssize_t result);
    struct aiocb posix;
    struct iocb linux_aio;
};

struct worker {
    pthread_t thread;
    unsigned slot, round;
    uint64_t random;
    int plain[ALL_FILES], dsync[ALL_FILES];
    int memory;               /* a file in memory */
    bool lacks[ALL_FILES];    /* files that it does not use */
    bool can_exec;            /* its descriptors of files stay open over exec */
    bool alone;               /* it cannot make stable what others wrote to other files */
    bool is_told;             /* its syncs say what the server refused before all was healed */
    unsigned told[ALL_FILES]; /* of a loss by a sync of `plain`, in the round before this number */
    aio_context_t context;
    struct io_uring ring;
    struct operation operations[DEPTH];
    struct sized_view *view;
    unsigned char *log; /* LOG_ROOM bytes for the contents of a file of records */
};

unsigned pick(struct worker *w, unsigned below);
enum api pick_api(struct worker *w);

/* How messages name an operation. */
void operation_name(const struct worker *w, const struct operation *op, enum api api,
                    char name[96]);
void buffers_check(struct worker *w);

/* Before an operation is prepared: file, offset and length are known. */
void operation_begin(struct worker *w, struct operation *op);
void operation_end(struct worker *w, struct operation *op, enum api api, ssize_t result);

/* Cuts a buffer into pieces of odd lengths. */
int cut(struct worker *w, const struct operation *op, struct iovec vectors[4]);
ssize_t do_now(struct worker *w, struct operation *op, enum api api);

/* Does the first operations, all at once where the API can. */
void carry_out(struct worker *w, enum api api, unsigned count);

enum { SYNCS = 5 };

/*
 * Syncs a file. True: all that was acknowledged before, by whomever, is stable. False: it failed,
 * as was planned, or failed() was called; or it says nothing. Where the server refuses data that
 * writes left behind (DATA_REFUSED) each open file, which a thread has with its children, is told
 * once of all that was lost up to then. So what was acknowledged before that stays unknown: until
 * the round ends no sync of this open file vouches. As long as it was not told of a loss there must
 * be none.
 */
bool sync_vouches(struct worker *w, unsigned file, unsigned how);

#endif
