/*
 * What powerserver.c is told of sessions, those of NFSv4.1. Operations by their numbers in RFC
 * 8881.
 *
 *     forget                   leases end, no client and no session is known any more
 *     lease SECONDS            what it tells of them: they end with nothing else
 *     slots N                  it wants no more slots to be used, and gives no more; 0: as it likes
 *     grace 0|1                data is not to be had, by NFS4ERR_GRACE
 *     status OP STATUS [N]     the next N operations (all) are answered so, not carried out
 *     silent OP...             COMPOUNDs with one of these are not answered
 *     minor N                  the only minor version that it speaks
 *     odd NAME                 what its replies claim: session, sequence, slot, target, grant,
 *                              no-grant (see enum odd_answer)
 *     sound                    an end of the last four
 *     operations               how many of each came, and how many clients and sessions there are
 */
#ifndef FAULT_SESSIONS_H
#define FAULT_SESSIONS_H

#include "control.h"
#include "memsessions.h"
#include "odd41.h"

extern struct odd sessions_odd;

/* False: it is none of these commands. */
bool sessions_command(char **words, unsigned count, FILE *out);

#endif
