/*
 * The receiver of replies. Byte 0: calls in flight, for each a byte: its destination; then a byte
 * that decides how the stream is cut and who is expected; the rest is the stream. However it is
 * cut, each call is answered the same, at most once, and no byte lands outside of the destinations
 * of calls in flight.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../unit/rpc_scene.h"
#include "fuzz.h"

enum { PAYLOAD_MOST = 70000 };

static const size_t sizes[] = {0, 1, 7, 64, 200, 1000, 9000, PAYLOAD_MOST};

/* How a call ended. */
struct outcome {
    bool answered;
    int error;
    size_t results_length, received;
    uint8_t results[RPC_RESULTS_MAX];
    uint8_t payload[PAYLOAD_MOST];
};

static void note_outcome(const struct expecting *e, struct outcome *outcome)
{
    const struct rpc_call *call = &e->call;
    memset(outcome, 0, offsetof(struct outcome, results));
    outcome->answered = e->answers > 0;
    if (!outcome->answered)
        return;
    must(e->answers == 1 && call->results_length <= RPC_RESULTS_MAX);
    must(call->error <= 0 && (call->error == 0 || call->received == 0));
    outcome->error = call->error;
    outcome->results_length = call->results_length;
    outcome->received = call->received;
    memcpy(outcome->results, call->results, call->results_length);
    if (call->received == 0)
        return; /* a call without a destination says nothing of its length */
    must(call->received <= call->destination_length);
    for (size_t at = 0, i = 0; at < call->received; i++) {
        size_t length = e->vectors[i].iov_len;
        if (length > call->received - at)
            length = call->received - at;
        memcpy(outcome->payload + at, e->vectors[i].iov_base, length);
        at += length;
    }
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    must(a->error == b->error && a->results_length == b->results_length);
    must(a->received == b->received);
    must(memcmp(a->results, b->results, a->results_length) == 0);
    must(memcmp(a->payload, b->payload, a->received) == 0);
}

/* Does the stream end where a record does? */
static bool is_complete(const struct scene *scene)
{
    const struct rpc_receiver *receiver = &scene->receiver;
    return receiver->start == receiver->end && receiver->skip == 0 && !receiver->gathering &&
           receiver->target == NULL;
}

/* The stream in pieces, or as much at a time as is asked for. Returns what the receiver says. */
static int run(struct scene *scene, bool whole, uint8_t how, struct outcome *outcomes)
{
    size_t piece =
        whole ? SIZE_MAX : (size_t[]){1, 5, 50, 137, 600, 5000, 40000, SIZE_MAX}[how & 7];
    scene->only = whole ? ONLY_NEVER : (enum only)((how >> 3) % ONLY_KINDS);
    scene->payloads = whole ? PAYLOADS_NO : (enum payloads)((how >> 5) % PAYLOADS_KINDS);
    rewind_scene(scene, true);
    int result = deliver(scene, 0, scene->stream.length, piece);
    for (unsigned i = 0; i < scene->count; i++)
        note_outcome(scene->calls[i], &outcomes[i]);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome plain[CALLS_MAX], cut[CALLS_MAX];
    if (size < 1 || size < 3u + data[0] % CALLS_MAX)
        return -1;
    unsigned count = 1 + data[0] % CALLS_MAX;
    struct scene *scene = scene_new(count);
    for (unsigned i = 0; i < count; i++)
        scene_call(scene, data[1 + i] & 1, sizes[data[1 + i] >> 1 & 7], 1 + (data[1 + i] >> 4 & 3));
    put_bytes(&scene->stream, data + 2 + count, size - 2 - count);
    scene->compare = false;

    int result = run(scene, true, 0, plain);
    bool complete = result == 0 && is_complete(scene);
    int again = run(scene, false, data[1 + count], cut);
    must(!complete || (again == 0 && is_complete(scene)));
    for (unsigned i = 0; i < count; i++) {
        must(!complete || plain[i].answered == cut[i].answered);
        if (plain[i].answered && cut[i].answered)
            check_same(&plain[i], &cut[i]);
    }
    scene_free(scene);
    return 0;
}
