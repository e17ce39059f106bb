/*
 * What a host said on its log of data that it sent while the other one changed the file: of both,
 * the server has these bytes. NFSv3 has no WRITE that the server refuses then, and what the other
 * host wrote is lost; that it is told is all that can be asked for (src/file/stray.h).
 */
#ifndef FAULT_HOSTS_OVERTAKEN_H
#define FAULT_HOSTS_OVERTAKEN_H

#include "hosts_processes.h"

extern unsigned overtaken; /* blocks */

/* Was it told, and not before, that what one of the hosts wrote to the block may be lost? Then
 * nothing that was written there until now is expected any more. */
bool is_overtaken(unsigned file, unsigned block);

#endif
