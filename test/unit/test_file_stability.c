/* How much data is kept uncommitted, and which is stable at once. */
#include "durability_scene.h"
#include "durable/sync.h"

/* ---- how much is kept ---- */

/* Runs a process that has these tunables, and a new file. */
static void run_with(const char *tunables, void (*body)(void))
{
    disk_make("f", 0, 0);
    scene_configure(tunables);
    scene_run(body);
}

static void writes_more_than_the_ledger_holds(void)
{
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("g", O_RDWR);
    uint8_t *data = malloc(MEBIBYTE);
    for (unsigned i = 0; i < 40; i++) {
        engine_put(i % 2 ? fd : other, MEBIBYTE, i * (off_t)MEBIBYTE, i);
        if (i % 9 == 8)
            server_do(FILE_SERVER_LOSE_POWER);
    }
    CHECK(server_calls(NFS_PROC_COMMIT) > 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(engine_fsync(other), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 0; i < 40; i++)
        disk_expect(i % 2 ? "f" : "g", MEBIBYTE, i * (off_t)MEBIBYTE, i);
    free(data);
}

SCENE_TEST(a_full_ledger_commits_early)
{
    disk_make("g", 0, 0);
    run_with("uncommitted_max = 16777216;", writes_more_than_the_ledger_holds);
}

/* There is no room, and the COMMIT that would make some fails. */
static void writes_while_commits_fail(void)
{
    int fd = engine_adopt("f", O_RDWR);
    server_fail(NFS_PROC_COMMIT, 1000000, NFS3ERR_IO);
    for (unsigned i = 0; i < 20; i++)
        engine_put(fd, MEBIBYTE, i * (off_t)MEBIBYTE, i);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK(atomic_load(&scene.control->writes[NFS_FILE_SYNC]) > 0);
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_COMMIT, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    for (unsigned i = 0; i < 20; i++)
        disk_expect("f", MEBIBYTE, i * (off_t)MEBIBYTE, i);
}

SCENE_TEST(without_room_in_the_ledger_writes_are_stable)
{
    run_with("uncommitted_max = 16777216;", writes_while_commits_fail);
}

static void writes_much_of_one_file(void)
{
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < 10; i++)
        engine_put(fd, MEBIBYTE / 2, i * (off_t)MEBIBYTE / 2, i);
    CHECK(server_calls(NFS_PROC_COMMIT) >= 3);
}

SCENE_TEST(one_file_with_much_data_is_committed_early)
{
    run_with("uncommitted_file_max = 1048576;", writes_much_of_one_file);
}

/* Four mebibytes, while the tunable allows 32. */
ENGINE_TEST(data_beyond_what_stays_in_a_cache_is_committed_early)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < 8; i++)
        engine_put(fd, MEBIBYTE / 2, i * (off_t)MEBIBYTE / 2, i);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    engine_put(fd, MEBIBYTE / 2, 8 * (off_t)MEBIBYTE / 2, 8);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 1);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    CHECK_EQUAL(engine_close(fd), 0);
}

/* ---- stability ---- */

static void writes_with(int open_flags, int flags, enum nfs_stable expected)
{
    int fd = engine_adopt("f", O_RDWR | open_flags);
    uint8_t data[5000];
    struct iovec vector = {data, sizeof(data)};
    for (int i = 0; i < 3; i++)
        atomic_store(&scene.control->writes[i], 0);
    data_fill(data, sizeof(data), 0, 9);
    CHECK_EQUAL(engine_writev(fd, &vector, 1, 0, flags), sizeof(data));
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(atomic_load(&scene.control->writes[i]), i == (int)expected);
    if (expected != NFS_UNSTABLE) {
        server_do(FILE_SERVER_LOSE_POWER);
        disk_expect("f", sizeof(data), 0, 9);
    }
    CHECK_EQUAL(engine_close(fd), 0);
}

ENGINE_TEST(flags_say_how_stable_a_write_is)
{
    disk_make("f", 0, 0);
    writes_with(0, 0, NFS_UNSTABLE);
    writes_with(O_DSYNC, 0, NFS_DATA_SYNC);
    writes_with(O_SYNC, 0, NFS_FILE_SYNC);
    writes_with(0, RWF_DSYNC, NFS_DATA_SYNC);
    writes_with(0, RWF_SYNC, NFS_FILE_SYNC);
    writes_with(O_DSYNC, RWF_SYNC, NFS_FILE_SYNC);
    writes_with(O_SYNC, RWF_DSYNC, NFS_FILE_SYNC);
}

static void writes_stable(void)
{
    writes_with(0, 0, NFS_FILE_SYNC);
}

SCENE_TEST(the_tunable_makes_all_writes_stable)
{
    run_with("stability = \"stable\";", writes_stable);
}

ENGINE_TEST(data_that_is_stable_sooner_than_asked_needs_no_commit)
{
    disk_make("f", 0, 0);
    atomic_store(&scene.control->committed, NFS_FILE_SYNC);
    int fd = written();
    CHECK_EQUAL(ledger_uncommitted(), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(sync_commits_every_file)
{
    disk_make("f", 0, 0);
    disk_make("g", 0, 0);
    int fd = engine_adopt("g", O_RDWR);
    engine_put(fd, SIZE, 0, 2);
    written();
    server_fail(NFS_PROC_COMMIT, 1, NFS3ERR_NOSPC);
    sys_critical_enter();
    CHECK_EQUAL(durable_sync_all(), -ENOSPC);
    CHECK_EQUAL(durable_sync_all(), 0);
    sys_critical_leave();
    CHECK_EQUAL(ledger_uncommitted(), 0);
    expect_durable();
    disk_expect("g", SIZE, 0, 2);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
