/* Write-behind: what the server refuses, or loses, is told, and nothing else is lost. */
#include "behind_scene.h"
#include "rounds.h"

BEHIND_TEST(a_full_disk_is_told_once_by_fsync_and_then_by_write)
{
    static const uint8_t block[PAGE_BYTES];
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 4, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    atomic_store(&scene.control->full_at, 6 * PAGE_BYTES);
    put_blocks(fd, 6, 4, 1);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(engine_write(fd, block, PAGE_BYTES, 8 * PAGE_BYTES), -ENOSPC);
    atomic_store(&scene.control->full_at, 0);
    put_blocks(fd, 6, 4, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    unsigned before = writes();
    put_blocks(fd, 0, 4, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(writes(), before + 1); /* behind again */
    disk_expect("f", 4 * PAGE_BYTES, 6 * PAGE_BYTES, 2);
}

BEHIND_TEST(a_full_disk_is_told_by_close)
{
    int fd = engine_adopt("f", O_RDWR);
    atomic_store(&scene.control->full_at, PAGE_BYTES);
    put_blocks(fd, 0, 4, 1);
    CHECK_EQUAL(engine_close(fd), -ENOSPC);
    atomic_store(&scene.control->full_at, 0);
}

BEHIND_TEST(what_the_thread_could_not_send_is_told_by_fsync)
{
    int fd = engine_adopt("f", O_RDWR);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_DQUOT);
    engine_put(fd, PAGE_BYTES, 0, 1);
    for (int i = 0; atomic_load(&scene.control->fail_count[NFS_PROC_WRITE]) > 0; i++) {
        CHECK(i < 10000);
        usleep(1000);
    }
    CHECK_EQUAL(engine_fsync(fd), -EDQUOT);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(scene_logged("refuses 8192 bytes") == 1);
}

BEHIND_TEST(an_append_after_a_loss_leaves_no_hole)
{
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 1000, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_DQUOT);
    append_there(fd, 1000, 1000, 1);
    CHECK_EQUAL(engine_fsync(fd), -EDQUOT);
    CHECK_EQUAL(engine_size(fd), 1000);
    append_there(fd, 100, 1000, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(disk_size("f"), 1100);
}

BEHIND_TEST(of_what_is_refused_together_all_is_written_for_which_there_is_room)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 4, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    atomic_store(&scene.control->full_at, 4 * PAGE_BYTES);
    put_blocks(fd, 0, 8, 2);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    disk_expect("f", 4 * PAGE_BYTES, 0, 2);
    atomic_store(&scene.control->full_at, 0);
}

BEHIND_TEST(a_credential_that_may_not_write_loses_nothing)
{
    int fd = engine_adopt("f", O_RDWR);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_ACCES);
    put_blocks(fd, 0, 1, 1);
    (void)engine_fsync(fd);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", PAGE_BYTES, 0, 1);
}

/* It is to be behind the data there, which stays dirty. */
BEHIND_TEST(a_write_that_waits_for_what_cannot_be_sent_fails)
{
    uint8_t data[100];
    int fd = engine_adopt("f", O_RDWR), now = engine_adopt("f", O_WRONLY | O_DSYNC);
    data_fill(data, sizeof(data), 0, 2);
    server_fail(NFS_PROC_WRITE, 1000, NFS3ERR_IO);
    engine_put(fd, PAGE_BYTES, 0, 1);
    CHECK_EQUAL(engine_write(now, data, sizeof(data), 0), -EIO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    server_fail(NFS_PROC_WRITE, 0, NFS3ERR_IO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", PAGE_BYTES, 0, 1);
}

BEHIND_TEST(a_server_that_is_less_stable_than_it_was_asked_to_be_loses_nothing)
{
    int fd = engine_adopt("f", O_RDWR);
    atomic_store(&scene.control->lie, FILE_SERVER_WEAK);
    put_blocks(fd, 4, 1, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    atomic_store(&scene.control->lie, 0);
    disk_expect("f", PAGE_BYTES, 4 * PAGE_BYTES, 1);
}

BEHIND_TEST(a_loss_of_power_with_dirty_data_loses_nothing)
{
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < rounds_of(10); i++) {
        put_blocks(fd, 0, 300, i);
        server_do(FILE_SERVER_LOSE_POWER);
        put_blocks(fd, 100, 100, i + 1);
        expect_blocks(fd, 0, 100, i);
        expect_blocks(fd, 100, 100, i + 1);
        CHECK_EQUAL(engine_fsync(fd), 0);
        server_do(FILE_SERVER_LOSE_POWER);
        disk_expect("f", 100 * PAGE_BYTES, 0, i);
        disk_expect("f", 100 * PAGE_BYTES, 100 * PAGE_BYTES, i + 1);
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
