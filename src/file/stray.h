/*
 * Strays: dirty data without any living owner, as its process and the agent are dead
 * (ledger/agent.h). It is sent only after the proof that nobody changed the file meanwhile. Else what
 * the server does not have all the same is set aside, in a file of the run directory that
 * `directnfs flush --force` and `--discard` read (run/strays.h).
 */
#ifndef FILE_STRAY_H
#define FILE_STRAY_H

#include "file/committing.h"

/*
 * Before anything dirty of the file is sent, or the file is opened: it has no strays any more. They
 * were sent, by this process, with all else that is dirty; or the server had them; or they were set
 * aside, which the log says. 0; or -errno: they are where they were, as the server does not tell, or there is no room;
 * or they are this process's own and could not be sent. Loads only, where there is none.
 */
int file_strays_settle(struct committing *c);

/* Likewise, before what the server lost is written again: what was sent already. 1: some of it is
 * not in the ledger any more, as it was set aside, or the server has it. */
int file_strays_settle_sent(struct committing *c);

#endif
