/*
 * The receiver of replies. Byte 0: calls in flight, for each a byte: its destination; then a byte
 * that decides how the stream is cut and who is expected; the rest is the stream. However it is
 * cut, each call is answered at most once, as the stream says that is read here in one piece, and
 * no byte lands outside of the destinations of calls in flight.
 */

#include "rpc_scene.h"
#include "fuzz.h"

enum { PAYLOAD_MOST = 70000 };

static const size_t sizes[] = {0, 1, 7, 64, 200, 1000, 9000, PAYLOAD_MOST};

/* How a call ends: as the stream says, or as the receiver says. */
struct outcome {
    bool answered;
    int error;
    size_t results_length, received;
    const uint8_t *results, *payload; /* in the stream */
};

/* ---- what the stream says ---- */

/* A record at *at, its fragments put together in `record`. 1, 0: not all of it is there, or
 * -EBADMSG. */
static int next_record(const struct bytes *stream, size_t *at, struct bytes *record)
{
    bool last = false, first = true;
    for (record->length = 0; !last; first = false) {
        size_t left = stream->length - *at;
        if (left < 4)
            return 0;
        uint32_t mark = rpc_word(stream->data + *at), length = mark & ~RPC_LAST_FRAGMENT;
        last = mark & RPC_LAST_FRAGMENT;
        if (length > RPC_RECORD_MAX - record->length || (first && last && length < 20))
            return -EBADMSG;
        if (length > left - 4)
            return 0;
        put_bytes(record, stream->data + *at + 4, length);
        *at += 4 + length;
    }
    return record->length < 20 ? -EBADMSG : 1;
}

/* The outcome of a call to which this whole record is the reply. */
static struct outcome read_record(const struct rpc_call *call, const uint8_t *message,
                                  size_t length)
{
    struct outcome bad = {.answered = true, .error = -EBADMSG}, good = {.answered = true};
    size_t at = 0, head;
    uint32_t payload = 0;
    int parsed = rpc_reply_parse(message, length, &at);
    if (parsed <= 0) {
        bad.error = parsed < 0 ? parsed : -EBADMSG;
        return bad;
    }
    head = length - at;
    if (call->find_payload) {
        size_t found = 0;
        if (call->find_payload(message + at, head, &found, &payload) != 1 || found > head ||
            payload > head - found || payload > call->destination_length)
            return bad;
        head = payload > 0 ? found : head;
    }
    if (head > RPC_RESULTS_MAX)
        return bad;
    good.results = message + at;
    good.results_length = head;
    good.payload = message + at + head;
    good.received = payload;
    return good;
}

/* Of all calls; `keep` owns the records. True if the stream ends where a record does. */
static bool read_stream(const struct scene *scene, struct outcome *outcomes, struct bytes *keep)
{
    size_t at = 0;
    int result = 1;
    memset(outcomes, 0, CALLS_MAX * sizeof(*outcomes));
    while (at < scene->stream.length) {
        struct bytes record = {0};
        result = next_record(&scene->stream, &at, &record);
        unsigned i = 0;
        while (result == 1 && i < scene->count &&
               (outcomes[i].answered || scene->calls[i]->call.xid != rpc_word(record.data)))
            i++;
        if (result == 1 && i < scene->count) {
            keep[i] = record;
            outcomes[i] = read_record(&scene->calls[i]->call, record.data, record.length);
        } else {
            free(record.data);
        }
        if (result != 1)
            return false;
    }
    return true;
}

/* ---- what the receiver says ---- */

static void check_answer(const struct expecting *e, const struct outcome *truth)
{
    const struct rpc_call *call = &e->call;
    must(e->answers == 1 && call->error == truth->error);
    must(call->results_length == truth->results_length && call->received == truth->received);
    if (call->results_length > 0)
        must(memcmp(call->results, truth->results, call->results_length) == 0);
    for (size_t at = 0, i = 0; at < call->received; i++) {
        size_t length = e->vectors[i].iov_len;
        if (length > call->received - at)
            length = call->received - at;
        must(memcmp(truth->payload + at, e->vectors[i].iov_base, length) == 0);
        at += length;
    }
}

/* Does the stream end where a record does? */
static bool is_complete(const struct scene *scene)
{
    const struct rpc_receiver *receiver = &scene->receiver;
    return receiver->start == receiver->end && receiver->skip == 0 && receiver->target == NULL;
}

/* Delivers the stream in pieces. Returns what the receiver says. */
static int run(struct scene *scene, uint8_t how)
{
    static const size_t pieces[] = {1, 5, 50, 137, 600, 5000, 40000, SIZE_MAX};
    scene->only = (enum only)((how >> 3) % ONLY_KINDS);
    scene->payloads = (enum payloads)((how >> 5) % PAYLOADS_KINDS);
    scene->certain = how & 0x80 ? CERTAIN_ANY : CERTAIN_ALL;
    rewind_scene(scene, true);
    return deliver(scene, 0, scene->stream.length, pieces[how & 7]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome truth[CALLS_MAX];
    struct bytes records[CALLS_MAX] = {0};
    if (size < 1 || size < 3u + data[0] % CALLS_MAX)
        return -1;
    unsigned count = 1 + data[0] % CALLS_MAX;
    struct scene *scene = scene_new(count);
    for (unsigned i = 0; i < count; i++)
        scene_call(scene, data[1 + i] & 1, sizes[data[1 + i] >> 1 & 7], 1 + (data[1 + i] >> 4 & 3));
    put_bytes(&scene->stream, data + 2 + count, size - 2 - count);
    scene->compare = false;

    bool complete = read_stream(scene, truth, records);
    int result = run(scene, data[1 + count]);
    must(!complete || (result == 0 && is_complete(scene)));
    unsigned early = 0;
    for (unsigned i = 0; i < count; i++) {
        if (truth[i].answered)
            check_answer(scene->calls[i], &truth[i]);
        else
            early +=
                scene->calls[i]->answers; /* when only padding is missing, or it is wrong already */
        free(records[i].data);
    }
    must(early <= !complete);
    scene_free(scene);
    return 0;
}
