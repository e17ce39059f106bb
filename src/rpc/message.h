/* RPC messages (RFC 5531 section 9) and slices of vectors: only for src/rpc and its tests. */
#ifndef RPC_MESSAGE_H
#define RPC_MESSAGE_H

#include "rpc/rpc.h"

#define RPC_LAST_FRAGMENT 0x80000000u /* in a record mark: RFC 5531 section 11 */

/* A big-endian word. */
uint32_t rpc_word(const uint8_t *at);

/* Writes the record mark and the xid into the call's head. */
void rpc_call_stamp(struct rpc_call *call, uint32_t xid);

/*
 * Parses a reply. Its first `have` bytes, from the xid on, are at `message`.
 * 1: it is accepted and successful; the results begin at *results.
 * 0: it needs more bytes.
 * -errno: the error of the call, see rpc_wait().
 */
int rpc_reply_parse(const uint8_t *message, size_t have, size_t *results);

/*
 * Takes all results of a call, which are accepted and successful: sets its error, results and
 * received, and copies the payload to its destination. 0 or -EFAULT.
 */
int rpc_results_take(struct rpc_call *call, uint8_t *results, size_t length);

/* Makes vectors for the bytes [from, from + length) of `vectors`; `slice` has room for `count`.
 * Returns how many it made. */
int rpc_vectors_slice(const struct iovec *vectors, int count, size_t from, size_t length,
                      struct iovec *slice);
/* The same for as many bytes, at most *length, as RPC_VECTORS_MAX vectors have. *length becomes how
 * many that are. */
int rpc_vectors_cut(const struct iovec *vectors, int count, size_t from, size_t *length,
                    struct iovec slice[RPC_VECTORS_MAX]);

#endif
