/* RPC messages (RFC 5531 section 9) and pieces of vectors: inside src/rpc, and for its tests. */
#ifndef RPC_MESSAGE_H
#define RPC_MESSAGE_H

#include "rpc/rpc.h"

#define RPC_LAST_FRAGMENT 0x80000000u /* of a record mark: RFC 5531 section 11 */

/* A big-endian word. */
uint32_t rpc_word(const uint8_t *at);

/* Writes the record mark and the xid into the call's head. */
void rpc_call_stamp(struct rpc_call *call, uint32_t xid);

/*
 * Parses a reply, of which the first `have` bytes (from the xid on) are at `message`.
 * 1: accepted and successful, the results begin at *results; 0: needs more bytes;
 * -errno: the error of the call, see rpc_wait().
 */
int rpc_reply_parse(const uint8_t *message, size_t have, size_t *results);

/* Bytes [from, from + length) of `vectors` as vectors of their own; room for `count`. Returns how
 * many were used. */
int rpc_vectors_slice(const struct iovec *vectors, int count, size_t from, size_t length,
                      struct iovec *slice);

#endif
