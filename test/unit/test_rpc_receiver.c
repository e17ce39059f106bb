/*
 * The receiver of replies, without sockets: streams of replies are delivered into the vectors it
 * asks for, split in every way, and every answer is compared with the truth.
 */

#include "rounds.h"
#include "rpc_scene.h"
#include "unit.h"

/* All kinds of owners; all splits in two, one byte at a time, as much as fits, and at random. */
static void run_every_way(struct scene *scene)
{
    size_t length = scene->stream.length;
    for (int kind = 0; kind < ONLY_KINDS * PAYLOADS_KINDS; kind++) {
        scene->only = (enum only)(kind % ONLY_KINDS);
        scene->payloads = (enum payloads)(kind / ONLY_KINDS);
        scene->certain = (enum certain)(kind % CERTAIN_KINDS);
        size_t step = (length > 3000 ? length / 997 + 1 : 1) * (rounds_of(10) < 10 ? 31 : 1);
        for (size_t split = 0; split <= length; split += step) {
            rewind_scene(scene, split % 2);
            assert_int_equal(deliver(scene, 0, split, SIZE_MAX), 0);
            assert_int_equal(deliver(scene, split, length, SIZE_MAX), 0);
            check_all_answered(scene);
        }
        for (size_t piece = 1; piece < 12; piece++) {
            rewind_scene(scene, piece % 2);
            assert_int_equal(deliver(scene, 0, length, piece), 0);
            check_all_answered(scene);
        }
        for (unsigned round = 0; round < rounds_of(20); round++) {
            rewind_scene(scene, round % 2);
            size_t most = 1 + random_of(&scene->seed, length);
            for (size_t at = 0; at < length;) {
                size_t piece = 1 + random_of(&scene->seed, most);
                if (piece > length - at)
                    piece = length - at;
                assert_int_equal(deliver(scene, at, at + piece, SIZE_MAX), 0);
                at += piece;
            }
            check_all_answered(scene);
        }
    }
}

static void finish(struct scene *scene)
{
    run_every_way(scene);
    scene_free(scene);
}

/* ---- one kind of reply after the other ---- */

UNIT_TEST(one_read_with_attributes)
{
    struct scene *scene = scene_new(1);
    scene_read(scene, true, 512, 512, 1);
    finish(scene);
}

UNIT_TEST(one_read_without_attributes)
{
    struct scene *scene = scene_new(2);
    scene_read(scene, false, 512, 512, 2);
    finish(scene);
}

UNIT_TEST(short_payloads_and_padding)
{
    for (size_t got = 0; got <= 9; got++) {
        for (size_t room = got; room <= 64; room += 32) {
            struct scene *scene = scene_new(3 + got);
            scene_read(scene, got % 2, room, got, 1 + (int)(got % 4));
            finish(scene);
        }
    }
}

UNIT_TEST(one_plain_reply)
{
    static const size_t lengths[] = {0, 4, 100, RPC_RESULTS_MAX, RPC_RESULTS_MAX + 4};
    for (size_t i = 0; i < 5; i++) {
        struct scene *scene = scene_new(4);
        scene_plain(scene, lengths[i]);
        finish(scene);
    }
}

UNIT_TEST(many_replies_in_any_order)
{
    struct scene *scene = scene_new(5);
    scene_read(scene, true, 300, 300, 3);
    scene_plain(scene, 116);
    scene_read(scene, false, 200, 7, 2);
    scene_read(scene, true, 64, 0, 1);
    scene_plain(scene, 0);
    scene_read(scene, true, 40, 40, 4);
    scene_read(scene, false, 40, 39, 1);
    /* calls are found by xid: the order in which they were made is the reverse of the replies' */
    for (unsigned i = 0; i < scene->count / 2; i++) {
        struct expecting *e = scene->calls[i];
        scene->calls[i] = scene->calls[scene->count - 1 - i];
        scene->calls[scene->count - 1 - i] = e;
    }
    finish(scene);
}

UNIT_TEST(unknown_xids_are_skipped)
{
    struct scene *scene = scene_new(6);
    scene_unknown(scene, 33);
    scene_read(scene, true, 128, 128, 2);
    scene_unknown(scene, 0);
    scene_unknown(scene, 700);
    scene_plain(scene, 8);
    finish(scene);
}

UNIT_TEST(long_unknown_replies_are_skipped)
{
    struct scene *scene = scene_new(7);
    scene_unknown(scene, 30000);
    scene_read(scene, true, 500, 500, 1);
    finish(scene);
}

UNIT_TEST(error_replies_to_read)
{
    for (int attributes = 0; attributes < 2; attributes++) {
        struct scene *scene = scene_new(8);
        struct expecting *e = scene_call(scene, true, 256, 2);
        reply_begin(&e->reply, e->call.xid, 0, 0);
        reply_result_word(&e->reply, 70); /* NFS3ERR_STALE */
        reply_result_word(&e->reply, (uint32_t)attributes);
        uint8_t attribute_bytes[ATTRIBUTES] = {1, 2, 3};
        if (attributes)
            reply_result(&e->reply, attribute_bytes, ATTRIBUTES);
        put_record(&scene->stream, &e->reply.message);
        scene_read(scene, true, 64, 64, 1);
        finish(scene);
    }
}

UNIT_TEST(refused_calls)
{
    for (uint32_t status = 1; status <= 5; status++) {
        static const int errors[] = {0,           -EPROTONOSUPPORT, -EPROTONOSUPPORT,
                                     -EOPNOTSUPP, -EBADMSG,         -EREMOTEIO};
        struct scene *scene = scene_new(9);
        struct expecting *e = scene_call(scene, status % 2, 64, 1);
        reply_begin(&e->reply, e->call.xid, 0, status);
        if (status == 2) {
            put_word(&e->reply.message, 2);
            put_word(&e->reply.message, 4);
        }
        reply_bad(&e->reply, errors[status]);
        put_record(&scene->stream, &e->reply.message);
        scene_read(scene, false, 20, 20, 1);
        finish(scene);
    }
}

UNIT_TEST(denied_call)
{
    for (int read = 0; read < 2; read++) {
        struct scene *scene = scene_new(10);
        struct expecting *e = scene_call(scene, read, 64, 1);
        e->reply.xid = e->call.xid;
        put_word(&e->reply.message, e->call.xid);
        put_word(&e->reply.message, 1);
        put_word(&e->reply.message, 1); /* denied */
        put_word(&e->reply.message, 1); /* AUTH_ERROR */
        put_word(&e->reply.message, 5); /* AUTH_TOOWEAK */
        reply_bad(&e->reply, -EACCES);
        put_record(&scene->stream, &e->reply.message);
        scene_plain(scene, 12);
        finish(scene);
    }
}

UNIT_TEST(verifiers_with_bodies)
{
    for (uint32_t body = 1; body <= 400; body += 57) {
        struct scene *scene = scene_new(11);
        for (int i = 0; i < 2; i++) { /* the second is guessed right */
            struct expecting *e = scene_call(scene, true, 96, 2);
            reply_begin(&e->reply, e->call.xid, body, 0);
            for (int word = 0; word < 4; word++)
                reply_result_word(&e->reply, word == 2);
            reply_result_word(&e->reply, 90);
            put_pattern(&e->reply.payload, 90, 9);
            put_bytes(&e->reply.message, e->reply.payload.data, 90);
            put_bytes(&e->reply.message, "\0\0", 2);
            put_record(&scene->stream, &e->reply.message);
        }
        finish(scene);
    }
}

UNIT_TEST(heads_of_changing_length)
{
    struct scene *scene = scene_new(12);
    for (int i = 0; i < 6; i++)
        scene_read(scene, i & 1, 100, 100 - (size_t)(i & 2), 1 + i % 4);
    finish(scene);
}

UNIT_TEST(payloads_of_many_sizes)
{
    static const size_t sizes[] = {4096,  RPC_RECEIVER_STAGE - 132, RPC_RECEIVER_STAGE - 131,
                                   8192,  RPC_RECEIVER_STAGE + 1,   65536,
                                   262144};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct scene *scene = scene_new(13 + i);
        scene_read(scene, i % 2, sizes[i], sizes[i], 1 + (int)(i % 4));
        scene_plain(scene, 64);
        scene_read(scene, true, sizes[i], sizes[i] / 2 + 1, 4);
        rewind_scene(scene, true);
        for (int kind = 0; kind < ONLY_KINDS * PAYLOADS_KINDS; kind++) {
            scene->only = (enum only)(kind % ONLY_KINDS);
            scene->payloads = (enum payloads)(kind / ONLY_KINDS);
            for (size_t piece = 500; piece <= scene->stream.length; piece = piece * 3 + 17) {
                rewind_scene(scene, kind % 2);
                assert_int_equal(deliver(scene, 0, scene->stream.length, piece), 0);
                check_all_answered(scene);
            }
        }
        scene_free(scene);
    }
}

UNIT_TEST(largest_payload)
{
    struct scene *scene = scene_new(14);
    scene_read(scene, true, RPC_PAYLOAD_MAX, RPC_PAYLOAD_MAX, 4);
    for (int only = 0; only < ONLY_KINDS; only++) {
        scene->only = (enum only)only;
        scene->payloads = PAYLOADS_TRUE;
        rewind_scene(scene, true);
        assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), 0);
        check_all_answered(scene);
    }
    scene_free(scene);
}

UNIT_TEST(long_replies_in_another_order_leave_no_long_stage)
{
    struct scene *scene = scene_new(15);
    scene_read(scene, true, RPC_PAYLOAD_MAX, RPC_PAYLOAD_MAX, 1);
    scene_read(scene, true, RPC_PAYLOAD_MAX, RPC_PAYLOAD_MAX, 1);
    struct expecting *first = scene->calls[0]; /* whose reply comes first, and is expected last */
    scene->calls[0] = scene->calls[1];
    scene->calls[1] = first;
    scene->only = ONLY_ORDER;
    scene->payloads = PAYLOADS_TRUE;
    scene->certain = CERTAIN_TRUE;
    rewind_scene(scene, true);
    assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), 0);
    check_all_answered(scene);
    assert_in_range(scene->receiver.capacity, 0, 2 * RPC_RECEIVER_BULK);
    scene_free(scene);
}

/* All are aimed at together, and all but one are as short as was known. */
UNIT_TEST(nothing_lands_behind_a_short_payload)
{
    enum { COUNT = 8, ASKED = 4095 };
    for (size_t got = 0; got < 6; got++) {
        struct scene *scene = scene_new(44);
        scene->payloads = PAYLOADS_TRUE;
        for (size_t i = 0; i < COUNT; i++)
            scene_read(scene, true, ASKED, i == 4 ? ASKED : got + i * 100, 1 + (int)i % 2);
        for (int kind = 0; kind < ONLY_KINDS * 2; kind++) {
            scene->only = (enum only)(kind % ONLY_KINDS);
            for (size_t piece = 1; piece < 4 * scene->stream.length; piece = piece * 3 + 5) {
                rewind_scene(scene, kind < ONLY_KINDS);
                assert_int_equal(deliver(scene, 0, scene->stream.length, piece), 0);
                check_all_answered(scene);
            }
        }
        scene_free(scene);
    }
}

/* ---- replies that are wrong, in streams that are not ---- */

UNIT_TEST(payload_longer_than_its_destination)
{
    for (int i = 0; i < 3; i++) {
        struct scene *scene = scene_new(15);
        scene_read(scene, i % 2, i == 2 ? 0 : 100, 101 + (size_t)i * 40, 1);
        scene_read(scene, true, 60, 60, 2);
        finish(scene);
    }
}

UNIT_TEST(payload_longer_than_its_record)
{
    struct scene *scene = scene_new(16);
    struct expecting *e = scene_call(scene, true, 256, 1);
    reply_read(&e->reply, e->call.xid, true, 200);
    e->reply.message.length -= 100;
    reply_bad(&e->reply, -EBADMSG);
    put_record(&scene->stream, &e->reply.message);
    scene_read(scene, true, 60, 60, 2);
    finish(scene);
}

UNIT_TEST(results_that_end_too_early)
{
    for (size_t cut = 24; cut < 24 + 8 + ATTRIBUTES + 12; cut += 4) {
        struct scene *scene = scene_new(17);
        struct expecting *e = scene_call(scene, true, 64, 1);
        reply_read(&e->reply, e->call.xid, true, 64);
        e->reply.message.length = cut;
        reply_bad(&e->reply, -EBADMSG);
        put_record(&scene->stream, &e->reply.message);
        scene_read(scene, true, 8, 8, 1);
        finish(scene);
    }
}

UNIT_TEST(results_of_another_shape)
{
    struct scene *scene = scene_new(18);
    struct expecting *e = scene_call(scene, true, 64, 1);
    reply_begin(&e->reply, e->call.xid, 0, 0);
    for (uint32_t i = 0; i < 60; i++)
        put_word(&e->reply.message, 0x01010101 * (i + 2));
    reply_bad(&e->reply, -EBADMSG);
    put_record(&scene->stream, &e->reply.message);
    scene_plain(scene, 20);
    scene_read(scene, false, 8, 8, 1);
    finish(scene);
}

UNIT_TEST(bytes_behind_the_payload_are_dropped)
{
    static const size_t tails[] = {4, 100, RPC_RECEIVER_STAGE, 50000, RPC_PAYLOAD_MAX};
    for (size_t i = 0; i < 5; i++) {
        struct scene *scene = scene_new(19);
        struct expecting *e = scene_call(scene, true, 64, 1);
        reply_read(&e->reply, e->call.xid, true, 64);
        put_pattern(&e->reply.message, tails[i], 1);
        put_record(&scene->stream, &e->reply.message);
        scene_read(scene, true, 8, 8, 1);
        if (tails[i] < 1000) {
            run_every_way(scene);
        } else {
            for (int kind = 0; kind < ONLY_KINDS * PAYLOADS_KINDS; kind++) {
                scene->only = (enum only)(kind % ONLY_KINDS);
                scene->payloads = (enum payloads)(kind / ONLY_KINDS);
                for (size_t piece = 130; piece < 200000; piece *= 3) {
                    rewind_scene(scene, true);
                    assert_int_equal(deliver(scene, 0, scene->stream.length, piece), 0);
                    check_all_answered(scene);
                }
            }
        }
        scene_free(scene);
    }
}

/* ---- fragments ---- */

UNIT_TEST(fragments)
{
    static const size_t longest[] = {1, 3, 20, 100, 1000};
    for (size_t i = 0; i < 5; i++) {
        struct scene *scene = scene_new(20 + i);
        scene_read(scene, true, 64, 64, 2);
        struct expecting *e = scene_call(scene, true, 150, 3);
        reply_read(&e->reply, e->call.xid, i % 2, 147);
        put_fragments(&scene->stream, &e->reply.message, longest[i], &scene->seed);
        e = scene_call(scene, false, 0, 0);
        reply_plain(&e->reply, e->call.xid, 60);
        put_fragments(&scene->stream, &e->reply.message, longest[i], &scene->seed);
        struct reply unknown;
        reply_plain(&unknown, 0x7777, 40);
        put_fragments(&scene->stream, &unknown.message, longest[i], &scene->seed);
        reply_free(&unknown);
        scene_read(scene, false, 30, 30, 1);
        finish(scene);
    }
}

UNIT_TEST(large_record_in_fragments)
{
    struct scene *scene = scene_new(26);
    struct expecting *e = scene_call(scene, true, RPC_PAYLOAD_MAX, 3);
    reply_read(&e->reply, e->call.xid, true, RPC_PAYLOAD_MAX);
    put_fragments(&scene->stream, &e->reply.message, 70000, &scene->seed);
    scene_read(scene, true, 100, 100, 1);
    for (int kind = 0; kind < ONLY_KINDS * PAYLOADS_KINDS; kind++) {
        scene->only = (enum only)(kind % ONLY_KINDS);
        scene->payloads = (enum payloads)(kind / ONLY_KINDS);
        rewind_scene(scene, kind % 2);
        assert_int_equal(deliver(scene, 0, scene->stream.length, 9999), 0);
        check_all_answered(scene);
    }
    scene_free(scene);
}

/* Random streams of everything above. */
UNIT_TEST(random_streams)
{
    for (uint64_t seed = 1; seed <= rounds_of(300); seed++) {
        struct scene *scene = scene_new(seed * 7919);
        unsigned count = 1 + (unsigned)random_of(&scene->seed, 8);
        for (unsigned i = 0; i < count; i++) {
            size_t kind = random_of(&scene->seed, 8);
            size_t length = random_of(&scene->seed, kind % 2 ? 60 : 9000);
            int vectors = 1 + (int)random_of(&scene->seed, 4);
            if (kind < 4) {
                scene_read(scene, kind & 1, length + random_of(&scene->seed, 30), length, vectors);
            } else if (kind < 6) {
                scene_plain(scene, random_of(&scene->seed, RPC_RESULTS_MAX + 1));
            } else if (kind == 6) {
                scene_unknown(scene, length);
            } else {
                struct expecting *e = scene_call(scene, true, length, vectors);
                reply_read(&e->reply, e->call.xid, length & 1, length);
                put_fragments(&scene->stream, &e->reply.message, 1 + random_of(&scene->seed, 500),
                              &scene->seed);
            }
        }
        for (int round = 0; round < 60; round++) {
            scene->only = (enum only)random_of(&scene->seed, ONLY_KINDS);
            scene->payloads = (enum payloads)random_of(&scene->seed, PAYLOADS_KINDS);
            scene->certain = (enum certain)random_of(&scene->seed, CERTAIN_KINDS);
            rewind_scene(scene, round % 3 == 0);
            size_t most = 1 + random_of(&scene->seed, round % 2 ? scene->stream.length : 300);
            for (size_t at = 0; at < scene->stream.length;) {
                size_t piece = 1 + random_of(&scene->seed, most);
                if (piece > scene->stream.length - at)
                    piece = scene->stream.length - at;
                assert_int_equal(deliver(scene, at, at + piece, SIZE_MAX), 0);
                at += piece;
            }
            check_all_answered(scene);
        }
        scene_free(scene);
    }
}

/* ---- streams that make no sense ---- */

/* Whatever comes before, and however it is split, the stream is refused; no call is answered. */
static void expect_refused(const struct bytes *garbage)
{
    for (int kind = 0; kind < ONLY_KINDS * PAYLOADS_KINDS * 2; kind++) {
        struct scene *scene = scene_new(30);
        if (kind % 2)
            scene_read(scene, true, 40, 40, 1);
        unsigned answers = scene->count;
        scene_call(scene, true, 4000, 1);
        put_bytes(&scene->stream, garbage->data, garbage->length);
        scene->only = (enum only)(kind / 2 % ONLY_KINDS);
        scene->payloads = (enum payloads)(kind / 2 / ONLY_KINDS);
        for (size_t piece = 1; piece <= scene->stream.length; piece += 1 + piece / 7) {
            rewind_scene(scene, piece % 2);
            assert_int_equal(deliver(scene, 0, scene->stream.length, piece), -EBADMSG);
            assert_int_equal(scene->answers, answers);
        }
        scene_free(scene);
    }
}

static void refuse_words(const uint32_t *words, size_t count, size_t zeros)
{
    struct bytes garbage = {0};
    for (size_t i = 0; i < count; i++)
        put_word(&garbage, words[i]);
    for (size_t i = 0; i < zeros; i++)
        put_bytes(&garbage, "", 1);
    expect_refused(&garbage);
    free(garbage.data);
}

UNIT_TEST(refuses_oversized_records)
{
    refuse_words((const uint32_t[]){0x80000000u | (RPC_RECORD_MAX + 1), 5}, 2, 0);
    refuse_words((const uint32_t[]){0xffffffff, 5}, 2, 0);
    refuse_words((const uint32_t[]){0x7fffffff, 5}, 2, 0);
    refuse_words((const uint32_t[]){0x48545450, 0x2f312e31}, 2, 0); /* "HTTP/1.1" */
}

UNIT_TEST(refuses_records_too_short_for_a_reply)
{
    for (uint32_t length = 0; length < 20; length++)
        refuse_words((const uint32_t[]){0x80000000u | length}, 1, length < 4 ? 4 : length);
    refuse_words((const uint32_t[]){8, 1, 2, 0x80000000u | 8, 1, 2}, 6, 0); /* in fragments */
    refuse_words((const uint32_t[]){0, 0, 0, 0x80000000u}, 4, 0);
}

UNIT_TEST(refuses_endless_fragments)
{
    struct scene *scene = scene_new(31);
    scene_call(scene, true, 100, 1);
    static const uint8_t zeros[65536];
    for (int i = 0; i < 17; i++) {
        put_word(&scene->stream, 65536);
        put_bytes(&scene->stream, zeros, sizeof(zeros));
    }
    for (int only = 0; only < ONLY_KINDS; only++) {
        scene->only = (enum only)only;
        rewind_scene(scene, true);
        assert_int_equal(deliver(scene, 0, scene->stream.length, 10000), -EBADMSG);
        assert_int_equal(scene->answers, 0);
    }
    scene_free(scene);
}

/* Good streams with some bytes changed: anything may be said of them, but nothing is written
 * outside of its place, and no call is answered twice. */
UNIT_TEST(damaged_streams_do_no_harm)
{
    for (uint64_t seed = 1; seed <= rounds_of(3000); seed++) {
        struct scene *scene = scene_new(seed * 104729);
        scene->compare = false;
        scene_read(scene, true, 90, 80, 2);
        scene_plain(scene, 50);
        struct expecting *e = scene_call(scene, true, 50, 1);
        reply_read(&e->reply, e->call.xid, false, 50);
        put_fragments(&scene->stream, &e->reply.message, 60, &scene->seed);
        scene_read(scene, false, 9000, 8999, 3);
        scene_unknown(scene, 10);
        scene_read(scene, true, 60, 60, 1);
        unsigned changes = 1 + (unsigned)random_of(&scene->seed, 4);
        for (unsigned i = 0; i < changes; i++) {
            size_t at =
                random_of(&scene->seed, random_of(&scene->seed, 2) ? scene->stream.length : 600);
            scene->stream.data[at] = (uint8_t)random_word(&scene->seed);
        }
        scene->only = (enum only)random_of(&scene->seed, ONLY_KINDS);
        scene->payloads = (enum payloads)random_of(&scene->seed, PAYLOADS_KINDS);
        scene->certain = CERTAIN_ANY;
        rewind_scene(scene, true);
        size_t piece = 1 + random_of(&scene->seed, 10000);
        int result = deliver(scene, 0, scene->stream.length, piece);
        assert_true(result == 0 || result == -EBADMSG);
        for (unsigned i = 0; i < scene->count; i++) {
            assert_true(scene->calls[i]->answers <= 1);
            expecting_check_guards(scene->calls[i]);
        }
        /* a new connection: all is well again */
        scene->stream.length = 0;
        scene->compare = true;
        for (unsigned i = 0; i < scene->count; i++)
            put_record(&scene->stream, &scene->calls[i]->reply.message);
        rewind_scene(scene, false);
        assert_int_equal(deliver(scene, 0, scene->stream.length, piece), 0);
        check_all_answered(scene);
        scene_free(scene);
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
