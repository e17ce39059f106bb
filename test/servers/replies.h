/*
 * Streams of RPC replies and the truth about them: replies of READ's shape (NFSv3, RFC 1813 section
 * 3.3.6) and others, good and bad, in one or more fragments.
 */
#ifndef TEST_REPLIES_H
#define TEST_REPLIES_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/message.h"
#include "stream.h"

enum { ATTRIBUTES = 84 };

void put_pattern(struct bytes *bytes, size_t length, uint8_t seed);

/* A small generator with a known seed, so that every failure comes again. */
uint32_t random_word(uint64_t *seed);
size_t random_of(uint64_t *seed, size_t limit);

/* A reply, and what a caller must see of it. */
struct reply {
    struct bytes message; /* from the xid on, without record marks */
    uint32_t xid;
    int error;
    struct bytes results;
    struct bytes payload;
};

void reply_free(struct reply *reply);

/* xid to accept status. */
void reply_begin(struct reply *reply, uint32_t xid, uint32_t verifier, uint32_t status);
void reply_result(struct reply *reply, const void *data, size_t length);
void reply_result_word(struct reply *reply, uint32_t value);
void reply_read(struct reply *reply, uint32_t xid, bool attributes, size_t length);
void reply_plain(struct reply *reply, uint32_t xid, size_t length);
void reply_bad(struct reply *reply, int error);

/* Appends the reply as a record of one fragment. */
void put_record(struct bytes *stream, const struct bytes *message);

/* Appends it in fragments of at most `longest` bytes, some of them empty. */
void put_fragments(struct bytes *stream, const struct bytes *message, size_t longest,
                   uint64_t *seed);

#endif
