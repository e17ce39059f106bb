/* Writing again what a server lost. */
#ifndef DURABLE_REWRITE_H
#define DURABLE_REWRITE_H

#include "durable/committing.h"
#include "ledger/commits.h"

/*
 * Writes again what the server lost of what the COMMIT was to vouch for. First the server is asked
 * whether somebody else changed the file. What is written UNSTABLE waits for a further COMMIT, and
 * stays in the ledger.
 * 0: it is written.
 * -EIO: it is not, and the log says why.
 * -ESTALE: the file is gone.
 * Else why the server does not tell.
 */
int durable_commit_rewrite(struct committing *c, struct ledger_commit *commit);

#endif
