/*
 * The stream of replies on a connection: record marking (RFC 5531 section 11), replies in any
 * order, payload received in place.
 *
 * It does no I/O. rpc_receiver_vectors() says where the next bytes of the stream are wanted. The
 * owner receives them there. rpc_receiver_received() makes sense of them. While replies come in the
 * order of the calls, one receive aims at several. Each payload goes to its destination, after as
 * many bytes as the head of the last such reply had. A wrong guess costs a copy. For a while after
 * it, small payloads are received in bulk and copied.
 */
#ifndef RPC_RECEIVER_H
#define RPC_RECEIVER_H

#include "rpc/rpc.h"

enum {
    RPC_RECEIVER_STAGE = 8192,
    /* Of replies without payload, about 16 are taken at once. So the server has work while we look
     * at them, and what follows from them is sent together: see rpc_can_keep(). */
    RPC_RECEIVER_SHORT = 2560,
    RPC_RECEIVER_BULK = 65536,         /* the stage while replies come in any order, */
    RPC_RECEIVER_BULK_PAYLOAD = 32768, /* and none has a longer payload than this */
    RPC_AIMS_MAX = 16,
    RPC_RECEIVER_VECTORS = RPC_VECTORS_MAX + 2 + 3 * RPC_AIMS_MAX,
    RPC_RECORD_MAX = RPC_PAYLOAD_MAX + 4096
};

/* An expected reply: bytes in the stage, then payload at the call's destination. */
struct rpc_aim {
    struct rpc_call *call; /* NULL: nothing for a destination */
    size_t head;           /* wanted; then received and not shown to the parser yet */
    size_t landed;         /* wanted at the destination; then there, and not understood yet */
};

/* The functions of the receiver's owner. */
struct rpc_receiver_owner {
    /* The call in flight with this xid, or NULL. */
    struct rpc_call *(*find)(void *context, uint32_t xid);
    /* The call is answered: error, results and received are set. Do not touch it afterwards. */
    void (*answered)(void *context, struct rpc_call *call);
    void *context;
    /* The whole reply to a call with an identity is in memory: unpacks it, and answers the call.
     * 0, or as rpc_receiver_received(). */
    int (*secured)(void *context, struct rpc_call *call, uint8_t *message, size_t length);
    /* Is such a reply, with arguments in clear, what it should be up to its results? 0, or as
     * rpc_receiver_received(): do not touch the call then. */
    int (*verified)(void *context, struct rpc_call *call, const uint8_t *message, size_t have);
};

/* Owned by the leader of a channel. */
struct rpc_receiver {
    uint8_t *stage;  /* bytes of the stream that are not understood yet: [start, end) */
    size_t capacity; /* of stage; grows after a wrong guess, or for a record needed whole */
    size_t start, end;
    size_t guess;            /* from record mark to payload, in the last reply with a payload */
    struct rpc_call *target; /* the call that gets payload at its destination, or is aimed at */
    size_t payload_length;   /* of target; 0 while it is only aimed at */
    size_t wanted;           /* bytes that a record lacks which is needed whole; 0: not known */
    size_t skip;             /* bytes of the stream to drop: padding, unknown calls */

    struct rpc_aim aims[RPC_AIMS_MAX + 1];
    unsigned aim_count, aim; /* aims[aim] is being understood */
    unsigned width;          /* how many replies to aim at: grows while guesses are right */
    unsigned bulk;           /* how many replies to receive in bulk before aiming again */
    bool careful;            /* some memory is missing: one destination at a time, to find which */
};

void rpc_receiver_init(struct rpc_receiver *receiver);
void rpc_receiver_free(struct rpc_receiver *receiver);

/* Forgets the stream, for a new connection. Keeps the memory and the guess. */
void rpc_receiver_reset(struct rpc_receiver *receiver);

/*
 * Says where to receive next. `expected`: the calls in flight that are answered next if the server
 * answers in order, as far as they expect payloads. `longest`: the longest payload that any call in
 * flight expects; 0: none does. Returns the number of vectors (at most RPC_RECEIVER_VECTORS), or
 * -ENOMEM.
 */
int rpc_receiver_vectors(struct rpc_receiver *receiver, struct rpc_call *const *expected,
                         unsigned count, size_t longest, struct iovec *vectors);

/*
 * `length` bytes arrived in the vectors.
 * 0: they are taken.
 * -EBADMSG: the stream makes no sense. Close the connection.
 * -ENOMEM: there is no memory. Close the connection.
 * -EFAULT: memory of `target` is missing. Close the connection.
 * -ECONNRESET: what came cannot be believed, and the log says so. Close the connection.
 */
int rpc_receiver_received(struct rpc_receiver *receiver, size_t length,
                          const struct rpc_receiver_owner *owner);

#endif
