#include "rpc/receiver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "rpc/message.h"
#include "rpc/secure/secure.h"
#include "sys/critical.h"
#include "sys/alloc.h"

enum {
    GUESS_FIRST = 132, /* a READ reply with attributes: RFC 1813 section 3.3.6 */
    REPLY_MIN = 20,    /* the shortest reply: a denied credential */
    BULK_REPLIES = 64, /* how many replies come in bulk before order is tried again */
    STAGE_KEPT = 2 * RPC_RECEIVER_BULK
};

void rpc_receiver_init(struct rpc_receiver *receiver)
{
    memset(receiver, 0, sizeof(*receiver));
    receiver->guess = GUESS_FIRST;
    receiver->width = 1;
}

void rpc_receiver_free(struct rpc_receiver *receiver)
{
    sys_free(receiver->stage);
    memset(receiver, 0, sizeof(*receiver));
}

static int stage_reserve(struct rpc_receiver *receiver, size_t capacity)
{
    if (capacity <= receiver->capacity)
        return 0;
    uint8_t *stage = sys_realloc(receiver->stage, capacity);
    if (!stage)
        return -ENOMEM;
    receiver->stage = stage;
    receiver->capacity = capacity;
    return 0;
}

/* Replies in an unexpected order may have made the stage as long as several of the longest ones. An
 * idle connection does not keep that. */
static void stage_shrink(struct rpc_receiver *receiver)
{
    if (receiver->capacity <= STAGE_KEPT || receiver->start != receiver->end)
        return;
    sys_free(receiver->stage);
    receiver->stage = NULL;
    receiver->capacity = receiver->start = receiver->end = 0;
}

void rpc_receiver_reset(struct rpc_receiver *receiver)
{
    receiver->start = receiver->end = 0;
    receiver->aim_count = receiver->aim = 0;
    receiver->target = NULL;
    receiver->payload_length = 0;
    receiver->skip = receiver->wanted = 0;
    receiver->careful = false;
    stage_shrink(receiver);
}

/* Copies bytes [from, from + length) of a call's payload to its destination; `back`: from there. */
static void copy_payload(const struct rpc_call *call, size_t from, size_t length, uint8_t *stage,
                         bool back)
{
    struct iovec slice[RPC_VECTORS_MAX];
    int count = rpc_vectors_slice(call->destination, call->destination_count, from, length, slice);
    for (int i = 0; i < count; i++) {
        memcpy(back ? stage : slice[i].iov_base, back ? slice[i].iov_base : stage,
               slice[i].iov_len);
        stage += slice[i].iov_len;
    }
}

/* Bytes of the stage for a call, on their way to memory of the application. */
struct delivery {
    const struct rpc_call *call;
    size_t length;
    uint8_t *stage;
};

static void deliver_all(const void *argument)
{
    const struct delivery *delivery = argument;
    copy_payload(delivery->call, delivery->call->received, delivery->length, delivery->stage,
                 false);
}

/* 0 or -EFAULT. Without a handler for the signal, the signal ends the program. */
static int deliver(const struct rpc_call *call, size_t length, uint8_t *stage)
{
    const struct delivery delivery = {call, length, stage};
    if (sys_critical_catches())
        return sys_critical_guarded(deliver_all, &delivery);
    deliver_all(&delivery);
    return 0;
}

/*
 * Adds vectors for replies that should come next, each with as much payload as is certain. The last
 * aim may have no call: it is padding, and the head of what follows. Only if `first`, which is the
 * first reply of all, may it have many vectors. Returns how many were added.
 */
static int aim(struct rpc_receiver *receiver, struct rpc_call *const *expected, unsigned count,
               bool first, struct iovec *vectors)
{
    uint8_t *at = receiver->stage;
    unsigned aims = 0;
    int used = 0;
    size_t padding = receiver->skip; /* of the reply before */
    while (aims < count && aims < receiver->width) {
        struct rpc_call *call = expected[aims];
        if ((aims > 0 || !first) && call->destination_count > 2)
            break;
        size_t head = padding + receiver->guess;
        receiver->aims[aims++] = (struct rpc_aim){call, head, call->certain};
        vectors[used++] = (struct iovec){at, head};
        at += head;
        used += rpc_vectors_slice(call->destination, call->destination_count, 0, call->certain,
                                  vectors + used);
        padding = -call->certain & 3;
    }
    if (aims > 0 && aims < receiver->width && count > 1)
        padding += receiver->guess;
    if (aims > 0 && padding > 0) {
        receiver->aims[aims++] = (struct rpc_aim){NULL, padding, 0};
        vectors[used++] = (struct iovec){at, padding};
    }
    receiver->aim_count = aims;
    return used;
}

int rpc_receiver_vectors(struct rpc_receiver *receiver, struct rpc_call *const *expected,
                         unsigned count, size_t longest, struct iovec *vectors)
{
    if (receiver->start > 0) {
        receiver->end -= receiver->start;
        memmove(receiver->stage, receiver->stage + receiver->start, receiver->end);
        receiver->start = 0;
    }
    if (receiver->careful)
        count = 0;
    bool bulk = !receiver->careful && longest <= RPC_RECEIVER_BULK_PAYLOAD &&
                (receiver->bulk > 0 || count == 0);
    size_t want = longest == 0 ? RPC_RECEIVER_SHORT : bulk ? RPC_RECEIVER_BULK : receiver->guess;
    want += receiver->skip < RPC_RECEIVER_STAGE ? receiver->skip : RPC_RECEIVER_STAGE;
    if (longest > 0 && !bulk && receiver->end < want)
        want -= receiver->end; /* what follows is payload, for its destination */
    if (receiver->wanted > 0)
        want = receiver->wanted;
    else if (want < receiver->end)
        want = receiver->end; /* a long record, which has to be here as a whole */
    size_t heads = (RPC_AIMS_MAX + 1) * (receiver->guess + 3);
    size_t capacity = receiver->end + want > heads ? receiver->end + want : heads;
    int result =
        stage_reserve(receiver, capacity > RPC_RECEIVER_STAGE ? capacity : RPC_RECEIVER_STAGE);
    if (result != 0)
        return result;

    receiver->aim_count = receiver->aim = 0;
    int used = 0;
    if (receiver->payload_length > 0) { /* the stage is empty: its content is in place */
        struct rpc_call *call = receiver->target;
        used = rpc_vectors_slice(call->destination, call->destination_count, call->received,
                                 receiver->payload_length - call->received, vectors);
        if (count > 0 && expected[0] == call) {
            expected++;
            count--;
        }
        for (unsigned i = 0; i < count; i++) { /* its memory is in use */
            if (expected[i] == call)
                count = i;
        }
    }
    if (!bulk && count > 0 && receiver->end == 0 && receiver->skip < 4) {
        int aimed = aim(receiver, expected, count, used == 0, vectors + used);
        if (aimed > 0)
            return used + aimed;
    }
    vectors[used++] = (struct iovec){receiver->stage + receiver->end, want};
    return used;
}

/* The whole record is in memory and has no payload: fills the call's answer from it. */
static void answer_from_memory(struct rpc_call *call, const uint8_t *message, size_t length)
{
    size_t results = 0, found = 0;
    uint32_t payload = 0;
    int parsed = rpc_reply_parse(message, length, &results);
    size_t have = length - results;
    if (parsed == 0 ||
        (parsed > 0 && (have > RPC_RESULTS_MAX ||
                        (call->find_payload &&
                         (call->find_payload(message + results, have, &found, &payload) != 1 ||
                          found > have || payload > 0)))))
        parsed = -EBADMSG;
    call->error = parsed > 0 ? 0 : parsed;
    call->received = 0;
    call->results_length = parsed > 0 ? have : 0;
    memcpy(call->results, message + results, call->results_length);
}

int rpc_results_take(struct rpc_call *call, uint8_t *results, size_t length)
{
    size_t head = length;
    uint32_t payload = 0;
    call->error = 0;
    call->received = call->results_length = 0;
    if (call->find_payload &&
        (call->find_payload(results, length, &head, &payload) != 1 || head > length ||
         payload > length - head || payload > call->destination_length))
        call->error = -EBADMSG;
    if (payload == 0)
        head = length;
    if (head > RPC_RESULTS_MAX)
        call->error = -EBADMSG;
    if (call->error != 0)
        return 0;
    if (payload > 0 && deliver(call, payload, results + head) != 0)
        return -EFAULT;
    memcpy(call->results, results, head);
    call->results_length = head;
    call->received = payload;
    return 0;
}

/* Joins the first two fragments of the record at the stage's start, as soon as the mark between
 * them is there. Sets *needs_more if it is not. */
static int join_fragments(struct rpc_receiver *receiver, bool *needs_more)
{
    uint8_t *at = receiver->stage + receiver->start;
    size_t have = receiver->end - receiver->start, length = rpc_word(at), next = 4 + length;
    *needs_more = have < next + 4;
    if (*needs_more)
        return 0;
    uint32_t mark = rpc_word(at + next);
    if ((mark & ~RPC_LAST_FRAGMENT) > RPC_RECORD_MAX - length)
        return -EBADMSG;
    mark = htonl(mark + (uint32_t)length);
    memcpy(at, &mark, 4);
    memmove(at + next, at + next + 4, have - next - 4);
    receiver->end -= 4;
    return 0;
}

/* Did bytes of the stream arrive behind those that the stage shows? */
static bool aimed_left(const struct rpc_receiver *receiver)
{
    for (unsigned i = receiver->aim; i < receiver->aim_count; i++) {
        if (receiver->aims[i].landed > 0 || (i > receiver->aim && receiver->aims[i].head > 0))
            return true;
    }
    return false;
}

/* Shows the parser the head of the next aim. */
static void aim_next(struct rpc_receiver *receiver)
{
    receiver->aims[receiver->aim].landed = 0;
    if (++receiver->aim < receiver->aim_count)
        receiver->end += receiver->aims[receiver->aim].head;
}

/*
 * The replies are not the expected ones: puts all received bytes into the stage, in the order of
 * the stream. The heads are there already, one after the other. From the last one on, each moves to
 * its place behind the payload before it.
 */
static int take_back(struct rpc_receiver *receiver)
{
    size_t heads = receiver->end, landed = 0;
    for (unsigned i = receiver->aim; i < receiver->aim_count; i++) {
        heads += i > receiver->aim ? receiver->aims[i].head : 0;
        landed += receiver->aims[i].landed;
    }
    int result = stage_reserve(receiver, heads + landed);
    if (result != 0)
        return result;
    uint8_t *from = receiver->stage + heads, *to = from + landed;
    receiver->end = heads + landed;
    for (unsigned i = receiver->aim_count; i-- > receiver->aim;) {
        const struct rpc_aim *aim = &receiver->aims[i];
        to -= aim->landed;
        if (aim->landed > 0)
            copy_payload(aim->call, 0, aim->landed, to, true);
        if (i > receiver->aim) {
            to -= aim->head;
            from -= aim->head;
            memmove(to, from, aim->head);
        }
    }
    receiver->aim_count = receiver->aim = 0;
    receiver->width = 1;
    receiver->bulk = BULK_REPLIES;
    return 0;
}

/* Parses a reply that begins at the stage's start. Bytes behind the stage's end may be at the aims.
 * Sets *needs_more when the stage has too little of it. */
static int parse_reply(struct rpc_receiver *receiver, const struct rpc_receiver_owner *owner,
                       bool *needs_more)
{
    const uint8_t *at = receiver->stage + receiver->start;
    size_t have = receiver->end - receiver->start;
    receiver->wanted = 0;
    *needs_more = have < 4;
    if (*needs_more)
        return 0;
    uint32_t mark = rpc_word(at);
    size_t length = mark & ~RPC_LAST_FRAGMENT;
    if (length > RPC_RECORD_MAX)
        return -EBADMSG;
    if (!(mark & RPC_LAST_FRAGMENT))
        return aimed_left(receiver) ? take_back(receiver) : join_fragments(receiver, needs_more);
    if (length < REPLY_MIN)
        return -EBADMSG;
    *needs_more = have < 8;
    if (*needs_more)
        return 0;
    struct rpc_call *call = owner->find(owner->context, rpc_word(at + 4));
    if (!call) { /* a late reply: the call was answered on another connection */
        if (aimed_left(receiver))
            return take_back(receiver);
        receiver->start += 4;
        receiver->skip = length;
        return 0;
    }

    const uint8_t *message = at + 4;
    size_t available = have - 4 < length ? have - 4 : length;
    size_t results = 0, head = 0;
    uint32_t payload = 0;
    if (call->find_payload && !rpc_is_wrapped(call) &&
        rpc_reply_parse(message, available, &results) > 0) {
        int found = call->find_payload(message + results, available - results, &head, &payload);
        size_t before = results + head;
        if (found == 1 && payload > 0 && before <= length && payload <= length - before &&
            payload <= call->destination_length && head <= RPC_RESULTS_MAX) {
            const struct rpc_aim *aim = &receiver->aims[receiver->aim];
            bool aimed = receiver->aim < receiver->aim_count && call == aim->call;
            bool in_place = aimed && 4 + before == have && aim->landed <= payload;
            if (aimed_left(receiver) && !in_place)
                return take_back(receiver);
            if (__builtin_expect(call->identity != NULL, false)) {
                int good = owner->verified(owner->context, call, message, available);
                if (good != 0)
                    return good;
            }
            receiver->guess = 4 + before;
            call->error = 0;
            memcpy(call->results, message + results, head);
            call->results_length = head;
            call->received = in_place ? aim->landed : 0;
            receiver->start += 4 + before;
            receiver->target = call;
            receiver->payload_length = payload;
            receiver->skip = length - before - payload;
            if (in_place)
                aim_next(receiver);
            return 0;
        }
    }
    if (aimed_left(receiver))
        return take_back(receiver);
    *needs_more = available < length;
    receiver->wanted = *needs_more && call->identity ? length - available : 0;
    if (*needs_more)
        return 0;
    if (__builtin_expect(call->identity != NULL, false)) {
        receiver->start += 4 + length;
        return owner->secured(owner->context, call, (uint8_t *)message, length);
    }
    answer_from_memory(call, message, length);
    receiver->start += 4 + length;
    owner->answered(owner->context, call);
    return 0;
}

/* Moves payload from the stage to the target, and ends the call when it is complete. 0 or
 * -EFAULT. */
static int take_payload(struct rpc_receiver *receiver, const struct rpc_receiver_owner *owner)
{
    struct rpc_call *call = receiver->target;
    size_t have = receiver->end - receiver->start;
    size_t left = receiver->payload_length - call->received;
    size_t take = have < left ? have : left;
    if (take > 0 && deliver(call, take, receiver->stage + receiver->start) != 0)
        return -EFAULT;
    receiver->start += take;
    call->received += take;
    if (call->received == receiver->payload_length) {
        if (receiver->bulk > 0)
            receiver->bulk--;
        receiver->target = NULL;
        receiver->payload_length = 0;
        owner->answered(owner->context, call);
    }
    return 0;
}

/* Tells the aims what they got of `length` bytes. */
static void aims_received(struct rpc_receiver *receiver, size_t length)
{
    for (unsigned i = 0; i < receiver->aim_count; i++) {
        struct rpc_aim *aim = &receiver->aims[i];
        if (aim->head > length)
            aim->head = length;
        length -= aim->head;
        if (aim->landed > length)
            aim->landed = length;
        length -= aim->landed;
    }
    receiver->end += receiver->aims[0].head;
}

int rpc_receiver_received(struct rpc_receiver *receiver, size_t length,
                          const struct rpc_receiver_owner *owner)
{
    if (receiver->payload_length > 0) {
        size_t left = receiver->payload_length - receiver->target->received;
        size_t direct = length < left ? length : left;
        receiver->target->received += direct;
        length -= direct;
    }
    if (receiver->aim_count > 0)
        aims_received(receiver, length);
    else
        receiver->end += length;

    int result = 0;
    bool needs_more = false;
    while (result == 0 && !needs_more) {
        size_t have = receiver->end - receiver->start;
        if (receiver->payload_length > 0) {
            result = take_payload(receiver, owner);
            needs_more = receiver->payload_length > 0;
        } else if (receiver->skip > 0) {
            size_t drop = have < receiver->skip ? have : receiver->skip;
            receiver->start += drop;
            receiver->skip -= drop;
            needs_more = receiver->skip > 0;
        } else {
            result = parse_reply(receiver, owner, &needs_more);
        }
        if (needs_more && aimed_left(receiver) && result == 0) {
            result = take_back(receiver);
            needs_more = false;
        }
    }
    if (receiver->aim_count > 0 && receiver->aim >= receiver->width &&
        receiver->width < RPC_AIMS_MAX)
        receiver->width *= 2; /* all that was aimed at came as expected */
    receiver->aim_count = receiver->aim = 0;
    stage_shrink(receiver);
    return result;
}
