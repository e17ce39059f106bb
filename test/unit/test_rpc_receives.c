/* The receiver of replies: how many receives they take, and what is left of one that ends in the
 * middle. See test_rpc_receiver.c for what they bring. */

#include <signal.h>
#include <sys/mman.h>

#include "rpc_scene.h"
#include "sys/critical.h"
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

/* ---- in the middle of a reply ---- */

UNIT_TEST(reset_forgets_the_middle_of_a_reply)
{
    struct scene *scene = scene_new(42);
    scene_read(scene, true, 3000, 3000, 3);
    scene_plain(scene, 100);
    struct expecting *e = scene_call(scene, true, 150, 3);
    reply_read(&e->reply, e->call.xid, true, 147);
    put_fragments(&scene->stream, &e->reply.message, 50, &scene->seed);
    for (int only = 0; only < ONLY_KINDS; only++) {
        scene->only = (enum only)only;
        scene->payloads = PAYLOADS_TRUE;
        for (size_t cut = 1; cut < scene->stream.length; cut++) {
            rewind_scene(scene, cut % 16 == 0);
            assert_int_equal(deliver(scene, 0, cut, SIZE_MAX), 0);
            rewind_scene(scene, false);
            assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), 0);
            check_all_answered(scene);
        }
    }
    scene_free(scene);
}

static void on_fault(int number)
{
    (void)number;
    if (!sys_critical.guard)
        abort();
    _longjmp(*sys_critical.guard, 1);
}

/* The program has a handler: it does not run, as with a system call. */
UNIT_TEST(memory_that_is_not_there)
{
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* the tools see the memory, too */
    struct scene *scene = scene_new(60);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER}, old;
    void *memory = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    scene_read(scene, true, 512, 512, 1);
    scene->only = ONLY_NEVER;
    scene->payloads = PAYLOADS_NO;
    rewind_scene(scene, true);
    scene->calls[0]->vectors[0].iov_base = memory;
    sigaction(SIGSEGV, &action, &old);
    atomic_store(&sys_critical_faults, true);
    assert_int_equal(deliver(scene, 0, scene->stream.length, SIZE_MAX), -EFAULT);
    atomic_store(&sys_critical_faults, false);
    sigaction(SIGSEGV, &old, NULL);
    assert_ptr_equal(scene->receiver.target, &scene->calls[0]->call);
    scene_free(scene);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
