#include "rpc/receiver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/message.h"

enum {
    GUESS_FIRST = 132, /* a READ reply with attributes: RFC 1813 section 3.3.6 */
    REPLY_MIN = 20     /* the shortest reply: a denied credential */
};

void rpc_receiver_init(struct rpc_receiver *receiver)
{
    memset(receiver, 0, sizeof(*receiver));
    receiver->guess = GUESS_FIRST;
}

void rpc_receiver_free(struct rpc_receiver *receiver)
{
    free(receiver->stage);
    free(receiver->record);
    memset(receiver, 0, sizeof(*receiver));
}

void rpc_receiver_reset(struct rpc_receiver *receiver)
{
    receiver->start = receiver->end = 0;
    receiver->aimed = 0;
    receiver->target = NULL;
    receiver->payload_length = 0;
    receiver->skip = 0;
    receiver->gathering = false;
    receiver->record_length = 0;
}

bool rpc_receiver_uses(const struct rpc_receiver *receiver, const struct rpc_call *call)
{
    return receiver->target == call;
}

static int stage_reserve(struct rpc_receiver *receiver, size_t capacity)
{
    if (capacity <= receiver->capacity)
        return 0;
    uint8_t *stage = realloc(receiver->stage, capacity);
    if (!stage)
        return -ENOMEM;
    receiver->stage = stage;
    receiver->capacity = capacity;
    return 0;
}

int rpc_receiver_vectors(struct rpc_receiver *receiver, struct rpc_call *only, bool payloads,
                         struct iovec *vectors)
{
    if (receiver->start > 0) {
        receiver->end -= receiver->start;
        memmove(receiver->stage, receiver->stage + receiver->start, receiver->end);
        receiver->start = 0;
    }
    size_t want = RPC_RECEIVER_STAGE;
    int result = stage_reserve(receiver, receiver->end + want);
    if (result != 0)
        return result;

    int count = 0;
    receiver->aimed = 0;
    if (receiver->payload_length >
        0) { /* the stage is empty: what it held of the payload is in place */
        struct rpc_call *call = receiver->target;
        count = rpc_vectors_slice(call->destination, call->destination_count, call->received,
                                  receiver->payload_length - call->received, vectors);
        if (payloads)
            want = receiver->skip + receiver->guess;
        if (want > RPC_RECEIVER_STAGE)
            want = RPC_RECEIVER_STAGE;
    } else if (only && only->find_payload && receiver->end == 0 && receiver->skip < 4 &&
               !receiver->gathering) {
        receiver->target = only;
        receiver->aimed = receiver->skip + receiver->guess; /* padding of the last reply first */
        vectors[0] = (struct iovec){receiver->stage, receiver->aimed};
        return 1 + rpc_vectors_slice(only->destination, only->destination_count, 0,
                                     only->destination_length, vectors + 1);
    } else if (payloads && !receiver->gathering) {
        want = receiver->skip + receiver->guess;
        want = receiver->end < want ? want - receiver->end : 128;
        if (want > RPC_RECEIVER_STAGE)
            want = RPC_RECEIVER_STAGE;
    }
    vectors[count++] = (struct iovec){receiver->stage + receiver->end, want};
    return count;
}

/* The record is in memory as a whole: fills the call's answer from it. */
static void answer_from_memory(struct rpc_call *call, const uint8_t *message, size_t length)
{
    size_t results = 0;
    int parsed = rpc_reply_parse(message, length, &results);
    call->received = 0;
    call->results_length = 0;
    call->error = parsed > 0 ? 0 : parsed == 0 ? -EBADMSG : parsed;
    if (parsed <= 0)
        return;
    const uint8_t *at = message + results;
    size_t head = length - results;
    uint32_t payload = 0;
    if (call->find_payload) {
        size_t found = 0;
        if (call->find_payload(at, head, &found, &payload) != 1 || found > head ||
            payload > head - found || payload > call->destination_length) {
            call->error = -EBADMSG;
            return;
        }
        if (payload > 0)
            head = found;
    }
    if (head > RPC_RESULTS_MAX) {
        call->error = -EBADMSG;
        return;
    }
    memcpy(call->results, at, head);
    call->results_length = head;
    struct iovec slice[RPC_VECTORS_MAX];
    int count = rpc_vectors_slice(call->destination, call->destination_count, 0, payload, slice);
    const uint8_t *from = at + head;
    for (int i = 0; i < count; i++) {
        memcpy(slice[i].iov_base, from, slice[i].iov_len);
        from += slice[i].iov_len;
    }
    call->received = payload;
}

/* Takes bytes of a fragmented record from the stage. True when it needs more. */
static int gather(struct rpc_receiver *receiver, const struct rpc_receiver_owner *owner,
                  bool *needs_more)
{
    *needs_more = false;
    size_t have = receiver->end - receiver->start;
    if (receiver->fragment_left == 0 && !receiver->last_fragment) {
        if (have < 4) {
            *needs_more = true;
            return 0;
        }
        uint32_t mark = rpc_word(receiver->stage + receiver->start);
        receiver->start += 4;
        receiver->last_fragment = mark & RPC_LAST_FRAGMENT;
        receiver->fragment_left = mark & ~RPC_LAST_FRAGMENT;
        if (receiver->fragment_left > RPC_RECORD_MAX - receiver->record_length)
            return -EBADMSG;
        size_t capacity = receiver->record_length + receiver->fragment_left;
        if (capacity > receiver->record_capacity) {
            uint8_t *record = realloc(receiver->record, capacity);
            if (!record)
                return -ENOMEM;
            receiver->record = record;
            receiver->record_capacity = capacity;
        }
        have -= 4;
    }
    size_t take = have < receiver->fragment_left ? have : receiver->fragment_left;
    if (take > 0)
        memcpy(receiver->record + receiver->record_length, receiver->stage + receiver->start, take);
    receiver->record_length += take;
    receiver->fragment_left -= take;
    receiver->start += take;
    if (receiver->fragment_left > 0) {
        *needs_more = true;
        return 0;
    }
    if (!receiver->last_fragment)
        return 0;
    receiver->gathering = false;
    if (receiver->record_length < REPLY_MIN)
        return -EBADMSG;
    struct rpc_call *call = owner->find(owner->context, rpc_word(receiver->record));
    if (call) {
        answer_from_memory(call, receiver->record, receiver->record_length);
        owner->answered(owner->context, call);
    }
    return 0;
}

static void gather_begin(struct rpc_receiver *receiver)
{
    receiver->gathering = true;
    receiver->last_fragment = false;
    receiver->fragment_left = 0;
    receiver->record_length = 0;
}

/*
 * Bytes that were aimed at the target's destination are not (only) its payload: puts them back into
 * the stream, behind what is in the stage.
 */
static int take_back(struct rpc_receiver *receiver, size_t *landed)
{
    struct rpc_call *call = receiver->target;
    int result = stage_reserve(receiver, receiver->end + *landed);
    if (result != 0)
        return result;
    struct iovec slice[RPC_VECTORS_MAX];
    int count = rpc_vectors_slice(call->destination, call->destination_count, 0, *landed, slice);
    for (int i = 0; i < count; i++) {
        memcpy(receiver->stage + receiver->end, slice[i].iov_base, slice[i].iov_len);
        receiver->end += slice[i].iov_len;
    }
    *landed = 0;
    return 0;
}

/*
 * Parses a reply that begins at the stage's start. `landed` bytes behind the stage's end are at the
 * target's destination. Sets *needs_more when the stage has too little of it.
 */
static int parse_reply(struct rpc_receiver *receiver, size_t *landed,
                       const struct rpc_receiver_owner *owner, bool *needs_more)
{
    const uint8_t *at = receiver->stage + receiver->start;
    size_t have = receiver->end - receiver->start;
    *needs_more = have < 8;
    if (*needs_more)
        return 0;
    uint32_t mark = rpc_word(at);
    size_t length = mark & ~RPC_LAST_FRAGMENT;
    if (length > RPC_RECORD_MAX)
        return -EBADMSG;
    if (!(mark & RPC_LAST_FRAGMENT)) {
        if (*landed > 0)
            return take_back(receiver, landed);
        gather_begin(receiver);
        return 0;
    }
    if (length < REPLY_MIN)
        return -EBADMSG;
    struct rpc_call *call = owner->find(owner->context, rpc_word(at + 4));
    if (!call) { /* the late reply to a call that was answered on another connection */
        if (*landed > 0)
            return take_back(receiver, landed);
        receiver->start += 4;
        receiver->skip = length;
        return 0;
    }

    const uint8_t *message = at + 4;
    size_t available = have - 4 < length ? have - 4 : length;
    size_t results = 0, head = 0;
    uint32_t payload = 0;
    if (call->find_payload && rpc_reply_parse(message, available, &results) > 0) {
        int found = call->find_payload(message + results, available - results, &head, &payload);
        size_t before = results + head;
        if (found == 1 && payload > 0 && before <= length && payload <= length - before &&
            payload <= call->destination_length && head <= RPC_RESULTS_MAX) {
            bool in_place = call == receiver->target && 4 + before == have && *landed <= payload;
            if (*landed > 0 && !in_place)
                return take_back(receiver, landed);
            receiver->guess = 4 + before;
            call->error = 0;
            memcpy(call->results, message + results, head);
            call->results_length = head;
            call->received = *landed;
            *landed = 0;
            receiver->start += 4 + before;
            receiver->target = call;
            receiver->payload_length = payload;
            receiver->skip = length - before - payload;
            return 0;
        }
    }
    if (*landed > 0)
        return take_back(receiver, landed);
    if (length > receiver->capacity - 4 || length > RPC_RECEIVER_STAGE) {
        if (have - 4 < length) { /* too long for the stage: put it together elsewhere */
            gather_begin(receiver);
            return 0;
        }
    }
    *needs_more = available < length;
    if (*needs_more)
        return 0;
    answer_from_memory(call, message, length);
    receiver->start += 4 + length;
    owner->answered(owner->context, call);
    return 0;
}

/* Moves payload from the stage to the target, and ends the call when it is complete. */
static void take_payload(struct rpc_receiver *receiver, const struct rpc_receiver_owner *owner)
{
    struct rpc_call *call = receiver->target;
    size_t have = receiver->end - receiver->start;
    size_t left = receiver->payload_length - call->received;
    size_t take = have < left ? have : left;
    if (take > 0) {
        struct iovec slice[RPC_VECTORS_MAX];
        int count = rpc_vectors_slice(call->destination, call->destination_count, call->received,
                                      take, slice);
        for (int i = 0; i < count; i++) {
            memcpy(slice[i].iov_base, receiver->stage + receiver->start, slice[i].iov_len);
            receiver->start += slice[i].iov_len;
        }
        call->received += take;
    }
    if (call->received == receiver->payload_length) {
        receiver->target = NULL;
        receiver->payload_length = 0;
        owner->answered(owner->context, call);
    }
}

int rpc_receiver_received(struct rpc_receiver *receiver, size_t length,
                          const struct rpc_receiver_owner *owner)
{
    size_t landed = 0; /* bytes that are at the target's destination, to be understood */
    if (receiver->payload_length > 0) {
        size_t left = receiver->payload_length - receiver->target->received;
        size_t direct = length < left ? length : left;
        receiver->target->received += direct;
        length -= direct;
    } else if (receiver->aimed > 0) {
        size_t staged = length < receiver->aimed ? length : receiver->aimed;
        landed = length - staged;
        length = staged;
    }
    receiver->aimed = 0;
    receiver->end += length;

    int result = 0;
    bool needs_more = false;
    while (result == 0 && !needs_more) {
        size_t have = receiver->end - receiver->start;
        if (receiver->payload_length > 0) {
            take_payload(receiver, owner);
            needs_more = receiver->payload_length > 0;
        } else if (receiver->skip > 0) {
            size_t drop = have < receiver->skip ? have : receiver->skip;
            receiver->start += drop;
            receiver->skip -= drop;
            needs_more = receiver->skip > 0;
        } else if (receiver->gathering) {
            result = gather(receiver, owner, &needs_more);
        } else {
            result = parse_reply(receiver, &landed, owner, &needs_more);
            if (needs_more && landed > 0) {
                result = take_back(receiver, &landed);
                needs_more = false;
            }
        }
    }
    if (receiver->payload_length == 0)
        receiver->target = NULL;
    return result;
}
