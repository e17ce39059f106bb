/* WRITEs of what the ledger has, many on their way together: for flush.c and rewrite.c. */
#ifndef DURABLE_RUNS_H
#define DURABLE_RUNS_H

#include "durable/committing.h"
#include "durable/operation.h"
#include "ledger/stamp.h"

enum { DURABLE_RUNS = 64 /* so many are on their way at a time */ };

/* One WRITE of dirty or lost data. */
struct durable_run {
    struct durable_write write;
    struct ledger_stamp stamp; /* taken with the data; generation 0: not known */
};

/* Where runs come from, and what becomes of them. */
struct durable_runs {
    struct committing *c;
    /*
     * Gets the next run, announced, with its data in the ledger and its stability.
     * 1: there is one.
     * 0: there is none.
     * -EAGAIN: there is none before something in flight is over, and the caller does not `wait`.
     * Else -errno.
     */
    int (*next)(struct durable_runs *runs, bool wait, struct durable_run *run);
    /* Ends a run in the ledger. result: 0, or -errno, also if the server will not answer. */
    void (*end)(struct durable_runs *runs, struct durable_run *run, int result,
                struct ledger_ending *ending);
    size_t bytes; /* for one durable_runs_send(), roughly */
};

/* Sends runs, with a window of them on their way, and waits for their ends. If there are none but
 * some in flight, it waits for those, if `wait`. Returns 1: there may be more; else what `next`
 * said: 0 or -errno. */
int durable_runs_send(struct durable_runs *runs, bool wait);

#endif
