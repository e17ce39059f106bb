/* fsync by requests, sync() and syncfs(): what they promise beyond a plain fsync(). */
#include "async_scene.h"
#include "durability_scene.h"

/* The server forgets what it did not commit, and nothing proves that its file is still the same. */
static void lose_all(void)
{
    server_do(FILE_SERVER_LOSE_POWER);
    atomic_fetch_add(&scene.control->handles, 1);
    atomic_store(&scene.control->fileid_error, 1000);
    server_do(FILE_SERVER_RESET);
}

ENGINE_TEST(a_request_to_sync_tells_of_lost_data)
{
    disk_make("f", 0, 0);
    int fd = written();
    file_lane_init(&lane);
    lose_all();
    job_prepare(&jobs[0], FILE_SYNC, fd, 0, 0);
    submit(0, 1);
    CHECK_EQUAL(atomic_load(&jobs[0].done), 1);
    CHECK_EQUAL(jobs[0].result, -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0); /* once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_to_sync_tells_of_lost_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
