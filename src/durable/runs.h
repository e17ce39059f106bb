/* WRITEs of what the ledger has, many on their way together: for flush.c and rewrite.c. */
#ifndef DURABLE_RUNS_H
#define DURABLE_RUNS_H

#include "durable/committing.h"
#include "durable/operation.h"
#include "ledger/stamp.h"

enum { DURABLE_RUNS = 64 /* on their way at a time */ };

/* One WRITE. */
struct durable_run {
    struct durable_write write;
    struct ledger_stamp stamp; /* the file when it was taken; generation 0: not known */
};

/* Where runs come from, and where they end. */
struct durable_runs {
    struct committing *c;
    /* The next of them, announced, to be sent from the ledger, and its stability: 1; 0: there is
     * none; -EAGAIN: not before something in flight is over, and the caller does not `wait`;
     * -errno. */
    int (*next)(struct durable_runs *runs, bool wait, struct durable_run *run);
    /* The server answered, or will not: 0 or -errno. Ends it in the ledger. */
    void (*end)(struct durable_runs *runs, struct durable_run *run, int result,
                struct ledger_ending *ending);
    size_t bytes; /* of one durable_runs_send(), roughly */
};

/* Sends runs, a window of them on their way at any time, and waits for their ends. If there are
 * none but some in flight it waits for those, if `wait`. Returns what `next` said last: 1, there
 * may be more. */
int durable_runs_send(struct durable_runs *runs, bool wait);

#endif
