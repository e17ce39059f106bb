/*
 * A COMPOUND of NFSv4.1 as the call of NFSv3 that it stands for: of one file, behind SEQUENCE and
 * PUTFH. What is none counts as NULL.
 */
#ifndef FAULT_COMPOUND_H
#define FAULT_COMPOUND_H

#include "wire41.h"

struct call {
    uint32_t xid, program, procedure;
    struct wire_reader args;      /* of the procedure: a handle comes first */
    bool in_session;              /* NFSv4.1: */
    struct wire_reader operation; /* its arguments; nothing of NFSv3 */
};

/* Looks for the operation, from `args` on. */
void compound_parse(struct call *call);

#endif
