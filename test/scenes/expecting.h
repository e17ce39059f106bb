/* Calls that wait for replies (replies.h), and what they must get. */
#ifndef TEST_EXPECTING_H
#define TEST_EXPECTING_H

#include "replies.h"
#include "unit.h"

/* Finds the payload of a READ's results, as rpc_payload_find says. */
int find_read_payload(const uint8_t *results, size_t have, size_t *head, uint32_t *length);

/* A call that waits for a reply, and its destination in vectors with guards around each. */
struct expecting {
    struct rpc_call call;
    struct reply reply;
    bool in_flight;
    unsigned answers;
    struct iovec vectors[4];
    uint8_t *blocks[4];
};

struct expecting *expecting_new(uint32_t xid, bool read, size_t destination, int vectors);
void expecting_check_guards(const struct expecting *e);

/* The call was answered: compares with the truth. */
void expecting_check(const struct expecting *e);
void expecting_free(struct expecting *e);

#endif
