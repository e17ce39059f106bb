/*
 * Strays: dirty data without a living owner, as its process and the agent are dead
 * (ledger/agent.h). They are sent only after the proof that nobody changed the file meanwhile.
 * Without the proof, those that the server does not have all the same are set aside: in a file of
 * the run directory, which `directnfs flush --force` and `--discard` read (run/strays.h).
 */
#ifndef DURABLE_STRAY_H
#define DURABLE_STRAY_H

#include "durable/committing.h"

/*
 * To be called before anything dirty of the file is sent, and when the file is opened.
 * 0: the file has no strays any more. They were sent, to stable storage, one WRITE after the other,
 * each only if the file is what the one before made of it; or the server had them; or they were set
 * aside, which the log says.
 * -errno: they are where they were, as the server does not tell or does not take them, or there is
 * no room.
 * NFSv3 has no such WRITE: somebody may change the file between the proof and the WRITE. Then the
 * answer tells, and the log says so. Costs only loads if there are no strays.
 */
int durable_strays_settle(struct committing *c);

/*
 * As durable_strays_settle(), for strays that were sent already. To be called before what the
 * server lost is written again.
 * 0: it may be written again.
 * 1: some of it is not in the ledger any more, as it was set aside, or the server has it.
 * Else -errno.
 */
int durable_strays_settle_sent(struct committing *c);

/*
 * What the COMMIT does not vouch for was lost by the server, and somebody else changed the file
 * since: it is set aside, whoever wrote it. What the server has all the same is no loss.
 * 0: there is nothing left of that. c->is_lost: some was set aside. -EIO: it is where it was, as
 * there is no room.
 */
int durable_strays_set_lost_aside(struct committing *c, const struct ledger_commit *commit);

/* Asks the server for the file's attributes, at *epoch. 0 or -errno. */
int durable_strays_ask(struct committing *c, uint64_t *epoch, struct nfs_attr *now);

#endif
