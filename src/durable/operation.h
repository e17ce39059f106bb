/*
 * One WRITE. It is announced in the ledger; begun: its call is made, to be sent alone or with
 * others; settled by the answer, or carried out alone where one call does not do; and ended in the
 * ledger. Three files make WRITEs: io/write.c those that the program waits for, async/submit.c
 * asynchronous ones, runs.c those of what the ledger has. They differ in how a write is acquired,
 * and in what a failure means. stray.c sends by calls of its own, and uses the judge only.
 */
#ifndef DURABLE_OPERATION_H
#define DURABLE_OPERATION_H

#include "file/enter.h"
#include "file/renew.h"

/* In the memory of the file that acquires it, until it has ended. */
struct durable_write {
    struct ledger_write announced;
    struct file_target *to;
    enum nfs_stable stable;
    int count;
    const struct iovec *vectors; /* the data, if it is not kept */
    uint64_t epoch;              /* as of ledger_file_asking(), after it was announced */
    uint64_t ns;                 /* result: for so long the server was waited for */
    size_t taken; /* so many of its bytes are at the server, by a short answer; result,
                     if it failed */
};

/* What the ledger is told when it is announced, at `offset`. */
static inline struct ledger_beginning durable_write_beginning(struct durable_write *write,
                                                              uint64_t offset, size_t length)
{
    return (struct ledger_beginning){.offset = offset,
                                     .data = write->vectors,
                                     .count = write->count,
                                     .length = length,
                                     .keep = write->stable == NFS_UNSTABLE,
                                     .write = &write->announced};
}

/* A result of a write, besides -errno and the verdicts of the ledger. */
enum durable_verdict {
    DURABLE_WRITE_TROUBLED = 1 /* one answer does not settle it: durable_write_alone() */
};

/* The bytes that are sent. They are the ledger's if they are kept there, as they may have to be
 * sent again; else the program's. */
static inline struct nfs_data durable_write_data(const struct durable_write *write,
                                                 struct iovec kept[LEDGER_WRITE_VECTORS])
{
    const struct ledger_write *announced = &write->announced;
    if (!announced->kept)
        return (struct nfs_data){write->vectors, write->count, announced->length, 0};
    int count = ledger_write_data(announced, 0, announced->length, kept);
    return (struct nfs_data){kept, count, announced->length, 0};
}

/* Does one call take all of the write? */
static inline bool durable_write_fits(const struct durable_write *write)
{
    return write->announced.length <= nfs_longest(&write->to->client, true);
}

/* Makes the call of the write. `kept` must live until the call is over. */
void durable_write_begin(const struct durable_write *write, struct iovec kept[LEDGER_WRITE_VECTORS],
                         struct rpc_call *call);
/*
 * The call is over: judges the answer.
 * 0: it is settled, with an ending.
 * DURABLE_WRITE_TROUBLED: one answer does not settle it.
 * Else -errno, with an ending that is FAILED.
 */
int durable_write_settle(struct durable_write *write, const struct rpc_call *call,
                         struct ledger_ending *ending);
/* Sends the write from its start, with all that it may need: several calls, short answers, JUKEBOX,
 * another handle. Waits. 0 or -errno, with an ending. */
int durable_write_alone(struct durable_write *write, struct ledger_ending *ending);
/* Sends the write and waits; by one call if that will do. 0 or -errno, with an ending. */
int durable_write_now(struct durable_write *write, struct ledger_ending *ending);

/* Makes the ending of a write from its answer, by `result`: 0 or -errno. The ending is FAILED after
 * an error. Notes whether older copies may be on their way, and whether an error may concern other
 * data. The kernel's client will be told of data that arrived, if this process has the file. Never
 * waits. */
void durable_write_judge(struct durable_write *write, int result,
                         const struct nfs_transfer *transfer, struct ledger_ending *ending);

#endif
