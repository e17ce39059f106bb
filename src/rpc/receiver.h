/*
 * The stream of replies on a connection: record marking (RFC 5531 section 11), replies in any
 * order, payload received in place.
 *
 * It does no I/O: rpc_receiver_vectors() says where the next bytes of the stream are wanted, the
 * owner receives them there, and rpc_receiver_received() makes sense of them. Where the next reply
 * can only be that of one call, its payload is aimed at directly, behind as many bytes as the head
 * of the last such reply had; a wrong guess costs a copy.
 */
#ifndef RPC_RECEIVER_H
#define RPC_RECEIVER_H

#include "rpc/rpc.h"

enum {
    RPC_RECEIVER_STAGE = 8192,
    RPC_RECEIVER_VECTORS = RPC_VECTORS_MAX + 2,
    RPC_RECORD_MAX = RPC_PAYLOAD_MAX + 4096
};

/* What the receiver asks of its owner. */
struct rpc_receiver_owner {
    /* The call in flight with this xid, or NULL. */
    struct rpc_call *(*find)(void *context, uint32_t xid);
    /* The call is answered: error, results, received are set. It must not be touched afterwards. */
    void (*answered)(void *context, struct rpc_call *call);
    void *context;
};

/* Owned by the leader of a channel. */
struct rpc_receiver {
    uint8_t *stage;  /* bytes of the stream that are not understood yet: [start, end) */
    size_t capacity; /* of stage; grows when a guess was wrong */
    size_t start, end;
    size_t guess;            /* record mark to payload in the last reply that had a payload */
    size_t aimed;            /* bytes wanted in stage before `target`'s payload; 0: not aimed */
    struct rpc_call *target; /* payload is being received into its destination, or aimed at it */
    size_t payload_length;   /* of target; 0 while only aimed */
    size_t skip;             /* bytes of the stream to drop: padding, unknown calls */

    bool gathering; /* a record in several fragments is put together in `record` */
    bool last_fragment;
    size_t fragment_left;
    uint8_t *record;
    size_t record_length, record_capacity;
};

void rpc_receiver_init(struct rpc_receiver *receiver);
void rpc_receiver_free(struct rpc_receiver *receiver);

/* Forgets the stream, for a new connection. Keeps memory and the guess. */
void rpc_receiver_reset(struct rpc_receiver *receiver);

/*
 * Where to receive next. `only` is the one call that can be answered next, NULL if there are
 * several; `payloads` tells whether any call in flight expects a payload (then no more is read
 * ahead than the head of a reply). Returns the number of vectors (at most RPC_RECEIVER_VECTORS), or
 * -ENOMEM.
 */
int rpc_receiver_vectors(struct rpc_receiver *receiver, struct rpc_call *only, bool payloads,
                         struct iovec *vectors);

/*
 * `length` bytes arrived in the vectors. Returns 0, or -EBADMSG when the stream makes no sense, or
 * -ENOMEM: the connection must be closed.
 */
int rpc_receiver_received(struct rpc_receiver *receiver, size_t length,
                          const struct rpc_receiver_owner *owner);

/* Is the receiver about to write into this call's memory? */
bool rpc_receiver_uses(const struct rpc_receiver *receiver, const struct rpc_call *call);

#endif
