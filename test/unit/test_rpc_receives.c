/* How many receives replies take: see test_rpc_receiver.c for what they bring. */

#include "rpc_scene.h"
#include "unit.h"

UNIT_TEST(a_lone_read_takes_one_receive)
{
    for (int attributes = 0; attributes < 2; attributes++) {
        struct scene *scene = scene_new(40);
        scene->only = ONLY_ALONE;
        scene->payloads = PAYLOADS_TRUE;
        scene_read(scene, attributes, 8192, 8192, 2);
        rewind_scene(scene, true);
        assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), 0);
        check_all_answered(scene);
        for (int i = 0; i < 3; i++) { /* the length of the head is known now */
            rewind_scene(scene, false);
            assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), 0);
            assert_int_equal(scene->receives, 1);
            check_all_answered(scene);
        }
        scene_free(scene);
    }
}

UNIT_TEST(reads_in_flight_take_one_receive_each)
{
    struct scene *scene = scene_new(41);
    scene->only = ONLY_ALONE;
    scene->payloads = PAYLOADS_TRUE;
    for (int i = 0; i < 10; i++)
        scene_read(scene, true, 8192, 8192, 1);
    rewind_scene(scene, true);
    assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), 0);
    check_all_answered(scene);
    assert_true(scene->receives <= 11);
    scene_free(scene);
}

UNIT_TEST(a_lone_read_at_the_end_of_a_file_takes_one_receive)
{
    for (size_t got = 0; got < 9; got++) {
        struct scene *scene = scene_new(45);
        scene->only = ONLY_ALONE;
        scene->payloads = PAYLOADS_TRUE;
        scene_read(scene, true, 8192, got, 1);
        for (int i = 0; i < 3; i++) {
            rewind_scene(scene, i == 0);
            assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), 0);
            assert_int_equal(scene->receives, 1);
            check_all_answered(scene);
        }
        scene_free(scene);
    }
}

/* It comes with its payload, or if it is late with the head of the next reply. */
UNIT_TEST(padding_takes_no_receive_of_its_own)
{
    struct scene *scene = scene_new(43);
    scene->only = ONLY_ALONE;
    scene->payloads = PAYLOADS_TRUE;
    scene_read(scene, true, 8191, 8191, 1);
    rewind_scene(scene, true);
    size_t padding = 0; /* of the last reply, that is still to be received */
    for (int i = 0; i < 10; i++) {
        struct bytes stream = {0};
        size_t late = i < 5;
        put_bytes(&stream, "\xaa", padding);
        put_bytes(&stream, scene->stream.data, scene->stream.length);
        assert_int_equal(receive(scene, stream.data, stream.length - late), stream.length - late);
        padding = late;
        free(stream.data);
        assert_int_equal(scene->answers, i + 1);
        scene->calls[0]->in_flight = true;
    }
    scene_free(scene);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
