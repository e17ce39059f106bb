/* What cannot be made durable is told, and told again until it is. */
#include "durability_scene.h"

static void fails_to_write_again(uint32_t status)
{
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_WRITE, 1000, status);
    for (int i = 0; i < 3; i++) {
        int error = engine_fsync(fd);
        CHECK(error == -EIO || error == -ENOSPC);
    }
    char byte;
    CHECK(engine_read(fd, &byte, 1, 0) < 0); /* an old byte would be a lie */
    server_fail(NFS_PROC_WRITE, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
}

ENGINE_TEST(fsync_fails_until_lost_data_is_written_again)
{
    fails_to_write_again(NFS3ERR_IO);
}

ENGINE_TEST(fsync_fails_while_there_is_no_space_to_write_again)
{
    fails_to_write_again(NFS3ERR_NOSPC);
}

ENGINE_TEST(one_piece_of_many_that_cannot_be_written_again_fails_the_fsync)
{
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_IO);
    CHECK(engine_fsync(fd) < 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
}

/* Servers tell an error of their disk once, whoever asks. */
ENGINE_TEST(data_of_a_failed_commit_is_written_again)
{
    int fd = written_anew();
    server_fail(NFS_PROC_COMMIT, 1, NFS3ERR_IO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_UNSTABLE]), 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(atomic_load(&scene.control->writes[NFS_UNSTABLE]) > 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 1);
}

/* The answer that told it went to a connection that was broken. */
ENGINE_TEST(data_of_a_commit_whose_answer_was_lost_is_written_again)
{
    int fd = written_anew();
    server_fail(NFS_PROC_COMMIT, 1, NFS3ERR_IO);
    atomic_store(&scene.control->drop_after[NFS_PROC_COMMIT], 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(server_calls(NFS_PROC_COMMIT) > 1);
    CHECK(atomic_load(&scene.control->writes[NFS_UNSTABLE]) > 1);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    disk_expect("f", SIZE, 0, 1);
}

static ssize_t write_synchronously(int fd)
{
    struct iovec vector = {"stable", 6};
    return engine_writev(fd, &vector, 1, SIZE, RWF_SYNC);
}

/* So is that of a write that goes to the disk at once: it concerns all data of the file. */
ENGINE_TEST(data_beside_a_failed_synchronous_write_is_written_again)
{
    int fd = written_anew();
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_IO);
    CHECK_EQUAL(write_synchronously(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(atomic_load(&scene.control->writes[NFS_UNSTABLE]) > 1);
    CHECK_EQUAL(ledger_uncommitted(), 0);
}

ENGINE_TEST(data_beside_a_synchronous_write_whose_answer_was_lost_is_written_again)
{
    int fd = written_anew();
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_IO);
    atomic_store(&scene.control->drop_after[NFS_PROC_WRITE], 1);
    CHECK_EQUAL(write_synchronously(fd), 6);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(atomic_load(&scene.control->writes[NFS_UNSTABLE]) > 1);
}

/* Else an old byte could be read, without an error. */
ENGINE_TEST(data_of_a_failed_commit_is_written_again_before_a_read)
{
    int fd = written_anew();
    server_fail(NFS_PROC_COMMIT, 1, NFS3ERR_IO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    engine_expect(fd, SIZE, 0, 1);
    CHECK(atomic_load(&scene.control->writes[NFS_UNSTABLE]) > 1);
}

ENGINE_TEST(fsync_fails_when_the_handle_became_stale_with_data_not_committed)
{
    int fd = written_anew();
    server_fail(NFS_PROC_COMMIT, 1000, NFS3ERR_STALE);
    int result = engine_fsync(fd);
    CHECK_EQUAL(result != 0 ? result : engine_kernel_fsync(fd), -EIO);
    CHECK_EQUAL(engine_kernel_fsync(fd), 0);
}

ENGINE_TEST(no_space_at_write)
{
    disk_make("f", 100, 0);
    int fd = engine_adopt("f", O_RDWR);
    char data[1000] = {0};
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
    CHECK_EQUAL(engine_write(fd, data, sizeof(data), 0), -ENOSPC);
    CHECK_EQUAL(engine_size(fd), 100);
    CHECK_EQUAL(engine_fsync(fd), 0);
    engine_expect(fd, 100, 0, 0);
}

ENGINE_TEST(no_space_at_commit)
{
    int fd = written_anew();
    server_fail(NFS_PROC_COMMIT, 2, NFS3ERR_NOSPC);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 1);
}

/* How often the log has a line about answers that make no sense. */
static unsigned senseless_lines(void)
{
    return scene_logged("makes no sense: ");
}

/* Each kind once a minute. */
ENGINE_TEST(an_answer_that_makes_no_sense_is_an_error_and_said)
{
    char byte;
    int fd = written_anew();
    for (int i = 0; i < 3; i++) {
        atomic_store(&scene.control->lie, FILE_SERVER_NOTHING);
        CHECK_EQUAL(engine_read(fd, &byte, 1, 0), -EIO);
        CHECK_EQUAL(write_synchronously(fd), -EIO);
        atomic_store(&scene.control->lie, FILE_SERVER_MORE);
        CHECK_EQUAL(write_synchronously(fd), -EIO);
        atomic_store(&scene.control->lie, FILE_SERVER_WEAK);
        CHECK_EQUAL(write_synchronously(fd), -EIO);
        CHECK_EQUAL(senseless_lines(), 4);
        atomic_store(&scene.control->lie, FILE_SERVER_TRUTH);
        CHECK_EQUAL(engine_fsync(fd), 0);
    }
}

/* Data that go on behind the size that the server tells, or end before it. */
ENGINE_TEST(a_read_that_ends_before_the_end_is_an_error_and_said)
{
    char data[SIZE];
    int fd = written_anew();
    for (int i = 0; i < 3; i++) {
        atomic_store(&scene.control->lie, FILE_SERVER_HALF);
        CHECK_EQUAL(engine_read(fd, data, SIZE, 0), -EIO);
        CHECK_EQUAL(senseless_lines(), 1);
        atomic_store(&scene.control->lie, FILE_SERVER_TRUTH);
        engine_expect(fd, SIZE, 0, 1);
    }
}

ENGINE_TEST(bytes_behind_the_end_are_not_read)
{
    char data[2 * SIZE];
    int fd = written_anew();
    atomic_store(&scene.control->lie, FILE_SERVER_BEYOND);
    CHECK_EQUAL(engine_read(fd, data, sizeof(data), 0), SIZE);
    CHECK(data_is(data, SIZE, 0, 1));
    CHECK_EQUAL(engine_read(fd, data, sizeof(data), SIZE + 1), 0);
    CHECK_EQUAL(senseless_lines(), 1);
}

/* A server that takes attributes from a cache: the kernel knows better here. */
ENGINE_TEST(a_read_with_an_old_size_is_believed)
{
    char data[2 * SIZE];
    atomic_store(&scene.control->rtmax, 8192);
    int fd = written_anew();
    for (int error = -SIZE / 2; error <= SIZE; error += 3 * SIZE / 2) {
        atomic_store(&scene.control->size_error, error);
        memset(data, 0, sizeof(data));
        CHECK_EQUAL(engine_read(fd, data, sizeof(data), 0), SIZE);
        CHECK(data_is(data, SIZE, 0, 1));
    }
    CHECK_EQUAL(senseless_lines(), 0);
}

ENGINE_TEST(a_file_that_grows_all_the_time_can_be_read)
{
    char data[2 * SIZE];
    int fd = written_anew();
    atomic_store(&scene.control->lie, FILE_SERVER_GROWS);
    CHECK(engine_read(fd, data, sizeof(data), 0) >= SIZE);
    CHECK(data_is(data, SIZE, 0, 1));
    CHECK_EQUAL(senseless_lines(), 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
