/*
 * Strays: dirty data without any living owner, as its process and the agent are dead
 * (ledger/agent.h). It is sent only after the proof that nobody changed the file meanwhile. Else
 * what the server does not have all the same is set aside, in a file of the run directory that
 * `directnfs flush --force` and `--discard` read (run/strays.h).
 */
#ifndef FILE_STRAY_H
#define FILE_STRAY_H

#include "file/committing.h"

/*
 * Before anything dirty of the file is sent, or the file is opened: it has no strays any more. They
 * were sent, to stable storage, one WRITE after the other, each only if the file is what the one
 * before made of it; or the server had them; or they were set aside, which the log says. With
 * NFSv3, which has no such WRITE, somebody may change the file between the proof and the WRITE:
 * then the answer tells, and the log says so. 0; or -errno: they are where they were, as the server
 * does not tell or does not take them, or there is no room. Loads only, where there is none.
 */
int file_strays_settle(struct committing *c);

/* Likewise, before what the server lost is written again: what was sent already. 1: some of it is
 * not in the ledger any more, as it was set aside, or the server has it. */
int file_strays_settle_sent(struct committing *c);

/* What the server says of the file, asked at *epoch. 0 or -errno. */
int file_strays_ask(struct committing *c, uint64_t *epoch, struct nfs_attr *now);

#endif
