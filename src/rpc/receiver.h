/*
 * The stream of replies on a connection: record marking (RFC 5531 section 11), replies in any
 * order, payload received in place.
 *
 * It does no I/O: rpc_receiver_vectors() says where the next bytes of the stream are wanted, the
 * owner receives them there, and rpc_receiver_received() makes sense of them. Where replies come in
 * the order of the calls, several are aimed at with one receive, each payload at its destination
 * behind as many bytes as the head of the last such reply had. A wrong guess costs a copy, and for
 * a while small payloads are then received in bulk and copied.
 */
#ifndef RPC_RECEIVER_H
#define RPC_RECEIVER_H

#include "rpc/rpc.h"

enum {
    RPC_RECEIVER_STAGE = 8192,
    /* Of replies without payload some 16 are taken at once, so that the server has something to do
     * while they are looked at, and what follows them is sent together: see rpc_can_keep(). */
    RPC_RECEIVER_SHORT = 2560,
    RPC_RECEIVER_BULK = 65536,         /* the stage when replies come in any order, and ... */
    RPC_RECEIVER_BULK_PAYLOAD = 32768, /* ... none has a longer payload than this */
    RPC_AIMS_MAX = 16,
    RPC_RECEIVER_VECTORS = RPC_VECTORS_MAX + 2 + 3 * RPC_AIMS_MAX,
    RPC_RECORD_MAX = RPC_PAYLOAD_MAX + 4096
};

/* A reply that is expected: bytes in the stage, then payload at the call's destination. */
struct rpc_aim {
    struct rpc_call *call; /* NULL: nothing at a destination */
    size_t head;           /* wanted; then received and not yet shown to the parser */
    size_t landed;         /* wanted at the destination; then there, and not yet understood */
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
    size_t capacity; /* of stage; grows when a guess was wrong, or a record must be there whole */
    size_t start, end;
    size_t guess;            /* record mark to payload in the last reply that had a payload */
    struct rpc_call *target; /* payload is being received into its destination, or aimed at it */
    size_t payload_length;   /* of target; 0 while only aimed */
    size_t skip;             /* bytes of the stream to drop: padding, unknown calls */

    struct rpc_aim aims[RPC_AIMS_MAX + 1];
    unsigned aim_count, aim; /* aims[aim] is being understood */
    unsigned width;          /* how many replies are aimed at: grows while guesses are right */
    unsigned bulk;           /* replies to receive in bulk before aiming again */
    bool careful; /* some memory is not there: one destination at a time, to find whose */
};

void rpc_receiver_init(struct rpc_receiver *receiver);
void rpc_receiver_free(struct rpc_receiver *receiver);

/* Forgets the stream, for a new connection. Keeps memory and the guess. */
void rpc_receiver_reset(struct rpc_receiver *receiver);

/*
 * Where to receive next. `expected` are the calls in flight that will be answered next if the
 * server answers in order, the longest run of them that expect payloads; `longest` is the longest
 * payload that any call in flight expects, 0 for none. Returns the number of vectors (at most
 * RPC_RECEIVER_VECTORS), or -ENOMEM.
 */
int rpc_receiver_vectors(struct rpc_receiver *receiver, struct rpc_call *const *expected,
                         unsigned count, size_t longest, struct iovec *vectors);

/*
 * `length` bytes arrived in the vectors. Returns 0, or -EBADMSG when the stream makes no sense, or
 * -ENOMEM: the connection must be closed; -EFAULT: so it must, and `target` has memory that is not
 * there.
 */
int rpc_receiver_received(struct rpc_receiver *receiver, size_t length,
                          const struct rpc_receiver_owner *owner);

#endif
