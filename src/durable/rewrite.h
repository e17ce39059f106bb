/* Writing again what a server lost. */
#ifndef DURABLE_REWRITE_H
#define DURABLE_REWRITE_H

#include "durable/committing.h"
#include "ledger/commits.h"

/* Writes again what the server lost of what the COMMIT was to vouch for; UNSTABLE it waits for a
 * further COMMIT, and stays in the ledger. First the server is asked whether somebody else changed
 * the file. 0; -EIO after a line on the log; -ESTALE; or why the server does not tell. */
int durable_commit_rewrite(struct committing *c, struct ledger_commit *commit);

#endif
