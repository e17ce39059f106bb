/* Writing again what a server lost when it restarted: how much of it, in how many calls. */
#include "durability_scene.h"

enum { SMALL = 430, SMALLS = 8000, SPREAD = 20000 };

static void put_small(int fd)
{
    for (unsigned i = 0; i < SMALLS; i++)
        engine_put(fd, SMALL, (off_t)i * SMALL, 1);
}

/* How many WRITEs the fsync took. */
static unsigned writes_of_fsync(int fd)
{
    unsigned before = server_calls(NFS3_PROC_WRITE);
    CHECK_EQUAL(engine_fsync(fd), 0);
    return server_calls(NFS3_PROC_WRITE) - before;
}

ENGINE_TEST(neighbours_are_written_together_and_committed_once)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    unsigned commits = server_calls(NFS3_PROC_COMMIT);
    CHECK(writes_of_fsync(fd) < 10);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS3_FILE_SYNC]), 0);
    CHECK_EQUAL(server_calls(NFS3_PROC_COMMIT) - commits, 2);
    CHECK_EQUAL(host_uncommitted(), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SMALL * SMALLS, 0, 1);
}

ENGINE_TEST(a_restart_while_it_is_written_again)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    atomic_store(&scene.control->power_after[NFS3_PROC_WRITE], 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(atomic_load(&scene.control->power_after[NFS3_PROC_WRITE]), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SMALL * SMALLS, 0, 1);
}

/* What was written again is lost once more before its COMMIT. */
ENGINE_TEST(a_restart_before_what_was_written_again_is_committed)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    atomic_store(&scene.control->power_after[NFS3_PROC_COMMIT], 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SMALL * SMALLS, 0, 1);
}

ENGINE_TEST(pieces_apart_are_on_their_way_together)
{
    enum { PIECES = 100 };
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < PIECES; i++)
        engine_put(fd, SMALL, (off_t)i * SPREAD, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(writes_of_fsync(fd), PIECES);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 0; i < PIECES; i++)
        disk_expect("f", SMALL, (off_t)i * SPREAD, 1);
}

/* A full disk: each is tried once, and stays for another time. */
ENGINE_TEST(what_finds_no_room_stays)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS3_PROC_WRITE, 1000000, NFS3ERR_NOSPC);
    unsigned before = server_calls(NFS3_PROC_WRITE);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK(server_calls(NFS3_PROC_WRITE) - before < SMALLS / 40);
    CHECK_EQUAL(host_uncommitted(), SMALL * SMALLS);
    server_fail(NFS3_PROC_WRITE, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SMALL * SMALLS, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_written_together_and_committed_once),
        cmocka_unit_test(a_restart_while_it_is_written_again),
        cmocka_unit_test(a_restart_before_what_was_written_again_is_committed),
        cmocka_unit_test(pieces_apart_are_on_their_way_together),
        cmocka_unit_test(what_finds_no_room_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
