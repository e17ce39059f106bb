/* WRITEs of what the ledger has, many on their way together: for flush.c and rewrite.c. */
#ifndef FILE_RUNS_H
#define FILE_RUNS_H

#include "file/committing.h"
#include "file/operation.h"
#include "ledger/stamp.h"

enum { FILE_RUNS = 64 /* on their way at a time */ };

/* One WRITE. */
struct file_run {
    struct file_write write;
    struct ledger_stamp stamp; /* the file when it was taken; generation 0: not known */
};

/* Where runs come from, and where they end. */
struct file_runs {
    struct committing *c;
    /* The next of them, announced, to be sent from the ledger, and its stability: 1; 0: there is
     * none; -EAGAIN: not before something in flight is over, and the caller does not `wait`;
     * -errno. */
    int (*next)(struct file_runs *runs, bool wait, struct file_run *run);
    /* The server answered, or will not: 0 or -errno. Ends it in the ledger. */
    void (*end)(struct file_runs *runs, struct file_run *run, int result,
                struct ledger_ending *ending);
    size_t bytes; /* of one file_runs_send(), roughly */
};

/* Sends runs, a window of them on their way at any time, and waits for their ends. If there are
 * none but some in flight it waits for those, if `wait`. Returns what `next` said last: 1, there
 * may be more. */
int file_runs_send(struct file_runs *runs, bool wait);

#endif
