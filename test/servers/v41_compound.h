/*
 * COMPOUND of the server of v41_server.h: RFC 8881, sections 2.10.6 and 16.2.
 */
#ifndef TEST_V41_COMPOUND_H
#define TEST_V41_COMPOUND_H

#include "v41_files.h"

enum { V41_RECORD_MOST = 1 << 25 };

/* Reads the arguments of COMPOUND, and puts its results into call->out. */
void v41_compound(struct v41_call *call);

/* Which operations a COMPOUND has, a bit each, without executing it. */
uint64_t v41_operations(struct v41_in in);

/* Is one of the operations of a COMPOUND the one that a count waits for? */
bool v41_any_ends(_Atomic unsigned *counts, uint64_t operations);

#endif
