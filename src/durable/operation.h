/*
 * One WRITE: it is announced in the ledger, begun (its call is made, to be sent alone or with
 * others), settled by the answer, or carried out alone where one call does not do, and ended in the
 * ledger. Three make them: write.c what the program waits for, submit.c what is asynchronous,
 * runs.c what the ledger has. They differ in how a write is acquired, and in what it means that it
 * failed.
 */
#ifndef DURABLE_OPERATION_H
#define DURABLE_OPERATION_H

#include "file/enter.h"
#include "file/renew.h"

/* In the memory of the part that acquires it, until it has ended. */
struct durable_write {
    struct ledger_write announced;
    struct file_target *to;
    enum nfs_stable stable;
    int count;
    const struct iovec *vectors; /* the data, if it is not kept */
    uint64_t epoch;              /* as of ledger_file_asking(), after it was announced */
    uint64_t ns;                 /* result: how long it waited for the server */
    size_t taken;                /* the server has so many bytes of it, by a short answer; result, if
                                    it failed */
};

/* To announce it, at `offset`. */
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

/* What a write may come to, beside -errno and the verdicts of the ledger. */
enum durable_verdict {
    DURABLE_WRITE_TROUBLED = 1 /* one answer does not settle it: durable_write_alone() */
};

/* The bytes that are sent: what may have to be sent again is in the ledger. */
static inline struct nfs_data durable_write_data(const struct durable_write *write,
                                                 struct iovec kept[LEDGER_WRITE_VECTORS])
{
    const struct ledger_write *announced = &write->announced;
    if (!announced->kept)
        return (struct nfs_data){write->vectors, write->count, announced->length, 0};
    int count = ledger_write_data(announced, 0, announced->length, kept);
    return (struct nfs_data){kept, count, announced->length, 0};
}

/* Does one call take all of it? */
static inline bool durable_write_fits(const struct durable_write *write)
{
    return write->announced.length <= nfs_longest(&write->to->client, true);
}

/* Makes its call, which uses `kept`. */
void durable_write_begin(const struct durable_write *write, struct iovec kept[LEDGER_WRITE_VECTORS],
                         struct rpc_call *call);
/* The call is over. 0 and the ending; DURABLE_WRITE_TROUBLED; or -errno and an ending FAILED. */
int durable_write_settle(struct durable_write *write, const struct rpc_call *call,
                         struct ledger_ending *ending);
/* Sends it, from the start, with all that it may need: several calls, short answers, JUKEBOX,
 * another handle. 0 or -errno, with an ending. */
int durable_write_alone(struct durable_write *write, struct ledger_ending *ending);
/* Sends it and waits, by one call if that will do. 0 or -errno, with an ending. */
int durable_write_now(struct durable_write *write, struct ledger_ending *ending);

/* What was answered to it, by 0 or -errno, makes this of it in the ledger: an ending, which is
 * FAILED after an error; and notes of older copies, and of errors that concern other data. The
 * kernel's client is told of what arrived, if this process has the file. Never waits. */
void durable_write_judge(struct durable_write *write, int result,
                         const struct nfs_transfer *transfer, struct ledger_ending *ending);

#endif
