/*
 * Operations on files of the server of v41_server.h: RFC 8881, chapter 18. Arguments have
 * all been read when an operation begins to do something.
 */
#ifndef TEST_V41_FILES_H
#define TEST_V41_FILES_H

#include "v41_attributes.h"

/* ---- state ---- */

struct v41_open_arguments {
    uint32_t share, deny, how, claim;
    uint64_t client;
    struct v41_bytes owner, name;
    bool create;
    struct v41_changes changes;
};

void v41_get_open(struct v41_in *in, struct v41_open_arguments *open);
uint32_t v41_open(struct v41_call *call);
uint32_t v41_close(struct v41_call *call);
uint32_t v41_test_stateid(struct v41_call *call);
uint32_t v41_free_stateid(struct v41_call *call);
uint32_t v41_setattr(struct v41_call *call);

/* ---- data ---- */

uint32_t v41_read(struct v41_call *call);
uint32_t v41_write(struct v41_call *call);
uint32_t v41_commit(struct v41_call *call);

/* ---- names and handles ---- */

uint32_t v41_putfh(struct v41_call *call);
uint32_t v41_lookup(struct v41_call *call);
uint32_t v41_handles(struct v41_call *call, uint32_t op);
uint32_t v41_access(struct v41_call *call);
uint32_t v41_secinfo(struct v41_call *call);
uint32_t v41_secinfo_of(struct v41_call *call);
uint32_t v41_readdir(struct v41_call *call);

#endif
