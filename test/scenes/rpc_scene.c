/* See rpc_scene.h. */
#include "rpc_scene.h"

static struct rpc_call *find(void *context, uint32_t xid)
{
    struct scene *scene = context;
    for (unsigned i = 0; i < scene->count; i++) {
        if (scene->calls[i]->in_flight && scene->calls[i]->call.xid == xid)
            return &scene->calls[i]->call;
    }
    return NULL;
}

/* Behind what is certain and what came, the destination has what it had: rewind_scene(). */
static void check_untouched(const struct expecting *e)
{
    const struct rpc_call *call = &e->call;
    size_t at = 0, used = call->received > call->certain ? call->received : call->certain;
    for (int v = 0; v < 4 && e->blocks[v]; v++) {
        const uint8_t *bytes = e->vectors[v].iov_base;
        for (size_t i = 0; i < e->vectors[v].iov_len; i++, at++) {
            if (at >= used && bytes[i] != UNTOUCHED)
                fail_msg("byte %zu of the destination changed, and %zu came", at, call->received);
        }
    }
}

void answered(void *context, struct rpc_call *call)
{
    struct scene *scene = context;
    struct expecting *e = (struct expecting *)call; /* its first member */
    assert_true(e->in_flight);
    e->in_flight = false;
    e->answers++;
    scene->answers++;
    if (scene->compare)
        expecting_check(e);
    else
        expecting_check_guards(e);
    check_untouched(e);
}

/* What the owner expects to be answered next, rightly or not. */
static unsigned choose_expected(struct scene *scene, struct rpc_call *expected[RPC_AIMS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < scene->count && count < RPC_AIMS_MAX; i++) {
        if (scene->calls[i]->in_flight)
            expected[count++] = &scene->calls[i]->call;
    }
    if (scene->only == ONLY_NEVER || (scene->only == ONLY_ALONE && count > 1))
        return 0;
    if (scene->only == ONLY_ANY && count > 1) {
        unsigned i = random_of(&scene->seed, count), j = random_of(&scene->seed, count);
        struct rpc_call *other = expected[i];
        expected[i] = expected[j];
        expected[j] = other;
        count = 1 + random_of(&scene->seed, count);
    }
    unsigned payloads = 0; /* the run of calls that expect one */
    while (payloads < count && expected[payloads]->find_payload)
        payloads++;
    return payloads;
}

/* The longest payload: as it is, always some, or (wrongly) none. */
static size_t choose_longest(struct scene *scene)
{
    size_t longest = 0;
    for (unsigned i = 0; i < scene->count; i++) {
        const struct rpc_call *call = &scene->calls[i]->call;
        if (scene->calls[i]->in_flight && call->find_payload && call->destination_length > longest)
            longest = call->destination_length;
    }
    return scene->payloads == PAYLOADS_ALWAYS ? longest + 40000
           : scene->payloads == PAYLOADS_TRUE ? longest
                                              : 0;
}

/* Does the receiver receive into this call's memory, or aim at it? */
static bool uses(const struct rpc_receiver *receiver, const struct rpc_call *call)
{
    for (unsigned i = receiver->aim; i < receiver->aim_count; i++) {
        if (receiver->aims[i].call == call)
            return true;
    }
    return receiver->target == call;
}

/* Every byte that is asked for lies in the stage, or in the destination of a call in flight. */
static void check_vector(struct scene *scene, const struct iovec *vector)
{
    const uint8_t *from = vector->iov_base, *to = from + vector->iov_len;
    const struct rpc_receiver *receiver = &scene->receiver;
    if (from >= receiver->stage && to <= receiver->stage + receiver->capacity)
        return;
    for (unsigned i = 0; i < scene->count; i++) {
        struct expecting *e = scene->calls[i];
        for (int v = 0; e->in_flight && v < 4 && e->blocks[v]; v++) {
            const uint8_t *base = e->vectors[v].iov_base;
            if (from >= base && to <= base + e->vectors[v].iov_len) {
                assert_true(uses(receiver, &e->call));
                return;
            }
        }
    }
    fail_msg("a vector of %zu bytes points nowhere", vector->iov_len);
}

ssize_t receive(struct scene *scene, const uint8_t *data, size_t limit)
{
    struct iovec vectors[RPC_RECEIVER_VECTORS];
    struct rpc_call *expected[RPC_AIMS_MAX];
    unsigned expecting = choose_expected(scene, expected);
    int count =
        rpc_receiver_vectors(&scene->receiver, expected, expecting, choose_longest(scene), vectors);
    assert_in_range(count, 1, RPC_RECEIVER_VECTORS);
    size_t done = 0;
    for (int i = 0; i < count; i++) {
        check_vector(scene, &vectors[i]);
        size_t take = vectors[i].iov_len < limit - done ? vectors[i].iov_len : limit - done;
        if (take > 0)
            memcpy(vectors[i].iov_base, data + done, take);
        done += take;
    }
    assert_true(done > 0);
    scene->receives++;
    struct rpc_receiver_owner owner = {find, answered, scene, NULL, NULL};
    int result = rpc_receiver_received(&scene->receiver, done, &owner);
    return result ? result : (ssize_t)done;
}

int deliver(struct scene *scene, size_t from, size_t to, size_t piece)
{
    while (from < to) {
        ssize_t done =
            receive(scene, scene->stream.data + from, to - from < piece ? to - from : piece);
        if (done < 0)
            return (int)done;
        from += (size_t)done;
    }
    return 0;
}

static size_t choose_certain(struct scene *scene, const struct expecting *e)
{
    size_t all = e->call.destination_length, true_length = e->reply.payload.length;
    if (scene->certain == CERTAIN_ANY && all > 0) {
        size_t lengths[] = {0, true_length, all, random_of(&scene->seed, all)};
        return lengths[random_of(&scene->seed, 4)];
    }
    return scene->certain == CERTAIN_TRUE ? true_length : all;
}

void rewind_scene(struct scene *scene, bool fresh)
{
    if (fresh) {
        rpc_receiver_free(&scene->receiver);
        rpc_receiver_init(&scene->receiver);
    } else {
        rpc_receiver_reset(&scene->receiver);
    }
    scene->answers = 0;
    scene->receives = 0;
    for (unsigned i = 0; i < scene->count; i++) {
        struct expecting *e = scene->calls[i];
        e->in_flight = true;
        e->answers = 0;
        e->call.certain = choose_certain(scene, e);
        memset(e->call.results, 0xcd, sizeof(e->call.results));
        for (int v = 0; v < 4 && e->blocks[v]; v++)
            memset(e->vectors[v].iov_base, UNTOUCHED, e->vectors[v].iov_len);
    }
}

void check_all_answered(struct scene *scene)
{
    assert_int_equal(scene->answers, scene->count);
    for (unsigned i = 0; i < scene->count; i++) {
        assert_int_equal(scene->calls[i]->answers, 1);
        expecting_check(scene->calls[i]); /* nothing has changed it since */
        check_untouched(scene->calls[i]);
        assert_false(uses(&scene->receiver, &scene->calls[i]->call));
    }
    assert_int_equal(scene->receiver.start, scene->receiver.end);
    assert_int_equal(scene->receiver.skip, 0);
}

struct scene *scene_new(uint64_t seed)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    assert_non_null(scene);
    scene->compare = true;
    scene->seed = seed;
    rpc_receiver_init(&scene->receiver);
    return scene;
}

void scene_free(struct scene *scene)
{
    for (unsigned i = 0; i < scene->count; i++)
        expecting_free(scene->calls[i]);
    free(scene->stream.data);
    rpc_receiver_free(&scene->receiver);
    free(scene);
}

struct expecting *scene_call(struct scene *scene, bool read, size_t destination, int vectors)
{
    assert_true(scene->count < CALLS_MAX);
    uint32_t xid = 1000 + scene->count * 13;
    return scene->calls[scene->count++] = expecting_new(xid, read, destination, vectors);
}

void scene_read(struct scene *scene, bool attributes, size_t length, size_t got, int vectors)
{
    struct expecting *e = scene_call(scene, true, length, vectors);
    reply_read(&e->reply, e->call.xid, attributes, got);
    if (got > length)
        reply_bad(&e->reply, -EBADMSG);
    put_record(&scene->stream, &e->reply.message);
}

void scene_plain(struct scene *scene, size_t length)
{
    struct expecting *e = scene_call(scene, false, 0, 0);
    reply_plain(&e->reply, e->call.xid, length);
    if (length > RPC_RESULTS_MAX)
        reply_bad(&e->reply, -EBADMSG);
    put_record(&scene->stream, &e->reply.message);
}

void scene_unknown(struct scene *scene, size_t length)
{
    struct reply reply;
    reply_read(&reply, 0x77777777, true, length);
    put_record(&scene->stream, &reply.message);
    reply_free(&reply);
}
