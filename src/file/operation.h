/*
 * One WRITE, from its announcement in the ledger to its end there. Three parts of this room make
 * them: write.c what the program waits for; submit.c and async.c what is asynchronous; runs.c what
 * the ledger has, as it was written behind or lost. They differ in how a write is acquired, and in
 * what it means that it failed. The rest is the same:
 *
 *   acquired            it is announced; its stability and epoch are known
 *   file_write_begin    makes its call, to be sent alone or with others
 *   file_write_settle   judges the answer. Never waits
 *   file_write_alone    does what one call cannot do, in a thread that may wait
 *   ledger_writes_end   with the ending that the last two make
 */
#ifndef FILE_OPERATION_H
#define FILE_OPERATION_H

#include "file/renew.h"

/* In the memory of the part that acquires it, until it has ended. */
struct file_write {
    struct ledger_write announced;
    struct file_target *to;
    enum nfs_stable stable;
    int count;
    const struct iovec *vectors; /* the data, if it is not kept */
    uint64_t epoch;              /* as of ledger_file_asking(), after it was announced */
    uint64_t ns;                 /* result: how long it waited for the server */
    size_t taken;                /* result, if it failed: the server has so many bytes of it */
};

/* To announce it, at `offset`. */
static inline struct ledger_beginning file_write_beginning(struct file_write *write,
                                                           uint64_t offset, size_t length)
{
    return (struct ledger_beginning){.offset = offset,
                                     .data = write->vectors,
                                     .count = write->count,
                                     .length = length,
                                     .keep = write->stable == NFS_UNSTABLE,
                                     .write = &write->announced};
}

/* What a write may come to, beside -errno and the verdicts of the ledger. */
enum file_verdict {
    FILE_NO_ROOM = FILE_KERNEL - 1, /* the ledger cannot note it, not even without its data: the
                                       file must go to the kernel */
    FILE_WRITE_TROUBLED = 1         /* one answer does not settle it: file_write_alone() */
};

/* Does one call take all of it? */
static inline bool file_write_fits(const struct file_write *write)
{
    return write->announced.length <= write->to->client.write_max;
}

/* Makes its call. `kept`, LEDGER_WRITE_VECTORS of them, is for that as long as the call. */
void file_write_begin(const struct file_write *write, struct iovec *kept, struct rpc_call *call);
/* The call is over. 0 and the ending; FILE_WRITE_TROUBLED; or -errno and an ending FAILED. */
int file_write_settle(struct file_write *write, const struct rpc_call *call,
                      struct ledger_ending *ending);
/* Sends it, from the start, with all that it may need: several calls, short answers, JUKEBOX,
 * another handle. 0 or -errno, with an ending. */
int file_write_alone(struct file_write *write, struct ledger_ending *ending);
/* Sends it and waits, by one call if that will do. 0 or -errno, with an ending. */
int file_write_now(struct file_write *write, struct ledger_ending *ending);

/* What was answered to it, by 0 or -errno, makes this of it in the ledger: an ending, which is
 * FAILED after an error; and notes of older copies, and of errors that concern other data. The
 * kernel's client is told of what arrived, if this process has the file. Never waits. */
void file_write_judge(struct file_write *write, int result, const struct nfs_transfer *transfer,
                      struct ledger_ending *ending);

#endif
