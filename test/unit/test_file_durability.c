/* No acknowledged byte is lost, whatever happens to the server or to a process of ours. */
#include "file_scene.h"

enum { SIZE = 100000, MEBIBYTE = 1 << 20 };

/* Adopts "f" and writes version 1 to it, uncommitted. */
static int written(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 1);
    return fd;
}

ENGINE_TEST(fsync_puts_data_on_disk)
{
    disk_make("f", 0, 0);
    int fd = written();
    CHECK(atomic_load(&scene.control->writes[NFS3_UNSTABLE]) > 0);
    CHECK_EQUAL(server_calls(NFS3_PROC_COMMIT), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(fsync_writes_again_what_a_power_loss_took)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(disk_size("f"), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
    CHECK_EQUAL(disk_size("f"), SIZE);
}

ENGINE_TEST(a_new_verifier_alone_makes_data_be_written_again)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_NEW_VERIFIER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(atomic_load(&scene.control->writes[NFS3_FILE_SYNC]) > 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 1);
}

/* Parts of one write() go to two instances of the server. */
ENGINE_TEST(power_loss_in_the_middle_of_a_write)
{
    disk_make("f", 0, 0);
    atomic_store(&scene.control->wtmax, 8192);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned after = 1; after < 12; after++) {
        atomic_store(&scene.control->power_after[NFS3_PROC_WRITE], after);
        engine_put(fd, SIZE, 0, after);
        CHECK_EQUAL(atomic_load(&scene.control->power_after[NFS3_PROC_WRITE]), 0);
        engine_expect(fd, SIZE, 0, after);
        CHECK_EQUAL(engine_fsync(fd), 0);
        server_do(FILE_SERVER_LOSE_POWER);
        disk_expect("f", SIZE, 0, after);
    }
}

/* The COMMIT was executed, but its answer is lost with the power. */
ENGINE_TEST(power_loss_during_the_commit)
{
    disk_make("f", 0, 0);
    int fd = written();
    atomic_store(&scene.control->power_after[NFS3_PROC_COMMIT], 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(power_loss_while_data_is_written_again)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    atomic_store(&scene.control->power_after[NFS3_PROC_WRITE], 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(atomic_load(&scene.control->power_after[NFS3_PROC_WRITE]), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(close_commits)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_close(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(close_of_the_last_duplicate_commits)
{
    disk_make("f", 0, 0);
    int fd = written(), copy = engine_dup(fd);
    CHECK(file_is_managed(copy));
    CHECK_EQUAL(engine_close(fd), 0);
    CHECK_EQUAL(server_calls(NFS3_PROC_COMMIT), 0);
    engine_expect(copy, SIZE, 0, 1);
    CHECK_EQUAL(engine_close(copy), 0);
    CHECK_EQUAL(server_calls(NFS3_PROC_COMMIT), 1);
}

ENGINE_TEST(close_reports_what_is_lost)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS3_PROC_WRITE, 1000, NFS3ERR_NOSPC);
    int error = engine_close(fd);
    CHECK(error == -EIO || error == -ENOSPC);
}

static void writes_and_leaves(void)
{
    written();
}

SCENE_TEST(exit_commits)
{
    disk_make("f", 0, 0);
    scene_run(writes_and_leaves);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

/* Closed while another thread's call still used the description: nothing committed it then. */
static void closes_during_a_read(void)
{
    int fd = written();
    struct file_open *open = file_get(fd);
    CHECK_EQUAL(engine_close(fd), 0);
    file_put(open);
}

SCENE_TEST(exit_commits_what_is_not_open_any_more)
{
    disk_make("f", 0, 0);
    scene_run(closes_during_a_read);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

/* ---- several processes ---- */

static void writes_and_waits(void)
{
    written();
    step_done(0);
    step_wait(15);
}

static void syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

SCENE_TEST(fsync_vouches_for_writes_of_another_process)
{
    disk_make("f", 0, 0);
    pid_t writer = scene_start(writes_and_waits);
    step_wait(0);
    scene_run(syncs);
    scene_kill(writer);
}

static void opens_then_syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(1);
    step_wait(2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

/* As PostgreSQL's checkpointer does for what a backend wrote that crashed. */
static void with_a_writer_that_died(bool power_loss)
{
    disk_make("f", 0, 0);
    pid_t syncer = scene_start(opens_then_syncs);
    step_wait(1);
    pid_t writer = scene_start(writes_and_waits);
    step_wait(0);
    if (power_loss)
        server_do(FILE_SERVER_LOSE_POWER);
    scene_kill(writer);
    step_done(2);
    scene_wait(syncer);
}

SCENE_TEST(fsync_vouches_for_writes_of_a_dead_process)
{
    with_a_writer_that_died(false);
}

SCENE_TEST(fsync_writes_again_for_a_dead_process)
{
    with_a_writer_that_died(true);
}

static void forked_child_syncs(void)
{
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    pid_t pid = engine_fork();
    if (pid == 0) {
        CHECK_EQUAL(engine_fsync(fd), 0);
        server_do(FILE_SERVER_LOSE_POWER);
        disk_expect("f", SIZE, 0, 1);
        _exit(0);
    }
    scene_wait(pid);
}

SCENE_TEST(fsync_in_a_forked_child)
{
    disk_make("f", 0, 0);
    scene_run(forked_child_syncs);
}

static void only_opens_another_file(void)
{
    engine_adopt("g", O_RDONLY);
}

SCENE_TEST(the_next_process_commits_what_a_dead_one_left)
{
    disk_make("f", 0, 0);
    disk_make("g", 10, 0);
    pid_t writer = scene_start(writes_and_waits);
    step_wait(0);
    scene_kill(writer);
    server_do(FILE_SERVER_LOSE_POWER);
    scene_run(only_opens_another_file);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

static void truncates_by_opening(void)
{
    int fd = engine_open("f", O_RDWR | O_TRUNC);
    CHECK_EQUAL(engine_size(fd), 0);
    char byte;
    CHECK_EQUAL(engine_read(fd, &byte, 1, 0), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

SCENE_TEST(what_a_dead_process_left_does_not_return_into_a_truncated_file)
{
    disk_make("f", 0, 0);
    pid_t writer = scene_start(writes_and_waits);
    step_wait(0);
    scene_kill(writer);
    server_do(FILE_SERVER_LOSE_POWER);
    scene_run(truncates_by_opening);
    CHECK_EQUAL(disk_size("f"), 0);
}

static void reads_and_commits_nothing_else(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(1);
    step_wait(2);
    engine_expect(fd, SIZE, 0, 1);
    CHECK_EQUAL(engine_size(fd), SIZE);
}

SCENE_TEST(a_read_after_power_loss_returns_what_another_process_wrote)
{
    disk_make("f", SIZE, 0);
    pid_t reader = scene_start(reads_and_commits_nothing_else);
    step_wait(1);
    pid_t writer = scene_start(writes_and_waits);
    step_wait(0);
    server_do(FILE_SERVER_LOSE_POWER);
    step_done(2);
    scene_wait(reader);
    step_done(15);
    scene_wait(writer);
}

ENGINE_TEST(a_read_after_power_loss_returns_what_was_written)
{
    disk_make("f", SIZE, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    engine_expect(fd, SIZE, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* New connections may be made to the new instance by other calls before the read is sent. */
ENGINE_TEST(a_read_on_a_connection_that_others_made_returns_what_was_written)
{
    disk_make("f", SIZE, 0);
    disk_make("g", SIZE, 0);
    int other = engine_adopt("g", O_RDWR), fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    engine_put(other, 1000, 0, 3);
    engine_put(other, 1000, 1000, 3);
    engine_expect(fd, SIZE, 0, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    engine_expect(other, 2000, 0, 3);
    engine_expect(fd, SIZE, 0, 1);
}

ENGINE_TEST(a_read_that_ends_behind_a_lost_end_of_file_is_whole)
{
    disk_make("f", 0, 0);
    int fd = written();
    char *data = malloc(2 * SIZE);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_read(fd, data, 2 * SIZE, 10), SIZE - 10);
    CHECK(data_is(data, SIZE - 10, 10, 1));
}

/* ---- errors ---- */

static void fails_to_write_again(uint32_t status)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS3_PROC_WRITE, 1000, status);
    for (int i = 0; i < 3; i++) {
        int error = engine_fsync(fd);
        CHECK(error == -EIO || error == -ENOSPC);
    }
    char byte;
    CHECK(engine_read(fd, &byte, 1, 0) < 0); /* an old byte would be a lie */
    server_fail(NFS3_PROC_WRITE, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
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
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS3_PROC_WRITE, 1, NFS3ERR_IO);
    CHECK(engine_fsync(fd) < 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

/* Servers tell an error of their disk once, whoever asks. */
ENGINE_TEST(data_of_a_failed_commit_is_written_again)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_fail(NFS3_PROC_COMMIT, 1, NFS3ERR_IO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS3_FILE_SYNC]), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(atomic_load(&scene.control->writes[NFS3_FILE_SYNC]) > 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 1);
}

/* What the face does for a descriptor that is not managed. */
static int kernel_fsync(int fd)
{
    sys_critical_enter();
    int result = file_fsynced_by_kernel(fd);
    sys_critical_leave();
    return result;
}

static void writes_and_loses_power_beside_the_kernel(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 1);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS3_UNSTABLE]), 0);
    server_do(FILE_SERVER_LOSE_POWER);
}

static void hands_it_to_the_kernel(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(file_demote(fd, "test"), 0);
}

/* Were they in the ledger, they could be written again over what the kernel wrote since. */
SCENE_TEST(writes_beside_those_of_the_kernel_are_stable)
{
    disk_make("f", 0, 0);
    scene_run(hands_it_to_the_kernel);
    scene_run(writes_and_loses_power_beside_the_kernel);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(fsync_fails_when_the_handle_became_stale_with_data_not_committed)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_fail(NFS3_PROC_COMMIT, 1, NFS3ERR_STALE);
    int result = engine_fsync(fd);
    CHECK_EQUAL(result != 0 ? result : kernel_fsync(fd), -EIO);
    CHECK_EQUAL(kernel_fsync(fd), 0);
}

ENGINE_TEST(no_space_at_write)
{
    disk_make("f", 100, 0);
    int fd = engine_adopt("f", O_RDWR);
    char data[1000] = {0};
    server_fail(NFS3_PROC_WRITE, 1, NFS3ERR_NOSPC);
    CHECK_EQUAL(engine_write(fd, data, sizeof(data), 0), -ENOSPC);
    CHECK_EQUAL(engine_size(fd), 100);
    CHECK_EQUAL(engine_fsync(fd), 0);
    engine_expect(fd, 100, 0, 0);
}

ENGINE_TEST(no_space_at_commit)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_fail(NFS3_PROC_COMMIT, 2, NFS3ERR_NOSPC);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 1);
}

/* ---- what a later change makes of earlier data ---- */

ENGINE_TEST(overlapping_writes_keep_the_newest)
{
    disk_make("f", SIZE, 0);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 30000, 0, 1);
    engine_put(fd, 10000, 5000, 2);
    server_do(FILE_SERVER_LOSE_POWER);
    engine_put(fd, 10000, 12000, 3);
    engine_put(fd, 100, 14000, 4);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 5000, 0, 1);
    disk_expect("f", 7000, 5000, 2);
    disk_expect("f", 2000, 12000, 3);
    disk_expect("f", 100, 14000, 4);
    disk_expect("f", 7900, 14100, 3);
    disk_expect("f", 8000, 22000, 1);
    disk_expect("f", SIZE - 30000, 30000, 0);
}

ENGINE_TEST(a_synchronous_write_over_lost_data_is_the_newest)
{
    disk_make("f", SIZE, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    uint8_t data[1000];
    data_fill(data, sizeof(data), 500, 2);
    struct iovec vector = {data, sizeof(data)};
    CHECK_EQUAL(engine_writev(fd, &vector, 1, 500, RWF_DSYNC), sizeof(data));
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", 500, 0, 1);
    disk_expect("f", 1000, 500, 2);
    disk_expect("f", SIZE - 1500, 1500, 1);
}

ENGINE_TEST(truncated_data_does_not_come_back)
{
    disk_make("f", 0, 0);
    int fd = written();
    CHECK_EQUAL(engine_truncate(fd, 1000), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_truncate(fd, SIZE), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", 1000, 0, 1);
    char *data = malloc(SIZE), *zeros = calloc(1, SIZE);
    CHECK_EQUAL(engine_read(fd, data, SIZE, 1000), SIZE - 1000);
    CHECK(memcmp(data, zeros, SIZE - 1000) == 0);
}

ENGINE_TEST(a_file_emptied_by_open_stays_empty)
{
    disk_make("f", 0, 0);
    int fd = written();
    int again = engine_adopt("f", O_RDWR | O_TRUNC);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_size(fd), 0);
    CHECK_EQUAL(engine_fsync(again), 0);
    CHECK_EQUAL(disk_size("f"), 0);
}

ENGINE_TEST(the_size_counts_lost_data_that_will_be_written_again)
{
    disk_make("f", 0, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    file_tunables.actimeo = 0; /* ask the server, which knows less */
    CHECK_EQUAL(engine_size(fd), SIZE);
    struct stat status;
    CHECK_EQUAL(fstat(fd, &status), 0);
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    CHECK_EQUAL(file_stat(open, fd, &status), 0);
    file_put(open);
    sys_critical_leave();
    CHECK_EQUAL(status.st_size, SIZE);
}

/* ---- how much is kept ---- */

static void writes_more_than_the_ledger_holds(void)
{
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("g", O_RDWR);
    uint8_t *data = malloc(MEBIBYTE);
    for (unsigned i = 0; i < 40; i++) {
        engine_put(i % 2 ? fd : other, MEBIBYTE, i * (off_t)MEBIBYTE, i);
        if (i % 9 == 8)
            server_do(FILE_SERVER_LOSE_POWER);
    }
    CHECK(server_calls(NFS3_PROC_COMMIT) > 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(engine_fsync(other), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 0; i < 40; i++)
        disk_expect(i % 2 ? "f" : "g", MEBIBYTE, i * (off_t)MEBIBYTE, i);
    free(data);
}

SCENE_TEST(a_full_ledger_commits_early)
{
    disk_make("f", 0, 0);
    disk_make("g", 0, 0);
    strcpy(scene.conf, "uncommitted_max = 16777216;");
    scene_environment();
    scene_run(writes_more_than_the_ledger_holds);
}

/* There is no room, and the COMMIT that would make some fails. */
static void writes_while_commits_fail(void)
{
    int fd = engine_adopt("f", O_RDWR);
    server_fail(NFS3_PROC_COMMIT, 1000000, NFS3ERR_IO);
    for (unsigned i = 0; i < 20; i++)
        engine_put(fd, MEBIBYTE, i * (off_t)MEBIBYTE, i);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK(atomic_load(&scene.control->writes[NFS3_FILE_SYNC]) > 0);
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS3_PROC_COMMIT, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    for (unsigned i = 0; i < 20; i++)
        disk_expect("f", MEBIBYTE, i * (off_t)MEBIBYTE, i);
}

SCENE_TEST(without_room_in_the_ledger_writes_are_stable)
{
    disk_make("f", 0, 0);
    strcpy(scene.conf, "uncommitted_max = 16777216;");
    scene_environment();
    scene_run(writes_while_commits_fail);
}

static void writes_much_of_one_file(void)
{
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < 10; i++)
        engine_put(fd, MEBIBYTE / 2, i * (off_t)MEBIBYTE / 2, i);
    CHECK(server_calls(NFS3_PROC_COMMIT) >= 3);
}

SCENE_TEST(one_file_with_much_data_is_committed_early)
{
    disk_make("f", 0, 0);
    strcpy(scene.conf, "uncommitted_file_max = 1048576;");
    scene_environment();
    scene_run(writes_much_of_one_file);
}

/* ---- stability ---- */

static void writes_with(int open_flags, int flags, enum nfs3_stable expected)
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
    if (expected != NFS3_UNSTABLE) {
        server_do(FILE_SERVER_LOSE_POWER);
        disk_expect("f", sizeof(data), 0, 9);
    }
    CHECK_EQUAL(engine_close(fd), 0);
}

ENGINE_TEST(flags_say_how_stable_a_write_is)
{
    disk_make("f", 0, 0);
    writes_with(0, 0, NFS3_UNSTABLE);
    writes_with(O_DSYNC, 0, NFS3_DATA_SYNC);
    writes_with(O_SYNC, 0, NFS3_FILE_SYNC);
    writes_with(0, RWF_DSYNC, NFS3_DATA_SYNC);
    writes_with(0, RWF_SYNC, NFS3_FILE_SYNC);
    writes_with(O_DSYNC, RWF_SYNC, NFS3_FILE_SYNC);
    writes_with(O_SYNC, RWF_DSYNC, NFS3_FILE_SYNC);
}

static void writes_stable(void)
{
    writes_with(0, 0, NFS3_FILE_SYNC);
}

SCENE_TEST(the_tunable_makes_all_writes_stable)
{
    disk_make("f", 0, 0);
    strcpy(scene.conf, "stability = \"stable\";");
    scene_environment();
    scene_run(writes_stable);
}

ENGINE_TEST(data_that_is_stable_sooner_than_asked_needs_no_commit)
{
    disk_make("f", 0, 0);
    atomic_store(&scene.control->committed, NFS3_FILE_SYNC);
    int fd = written();
    CHECK_EQUAL(host_uncommitted(), 0);
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
    sys_critical_enter();
    file_sync_all();
    sys_critical_leave();
    CHECK_EQUAL(host_uncommitted(), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
    disk_expect("g", SIZE, 0, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fsync_puts_data_on_disk),
        cmocka_unit_test(fsync_writes_again_what_a_power_loss_took),
        cmocka_unit_test(a_new_verifier_alone_makes_data_be_written_again),
        cmocka_unit_test(power_loss_in_the_middle_of_a_write),
        cmocka_unit_test(power_loss_during_the_commit),
        cmocka_unit_test(power_loss_while_data_is_written_again),
        cmocka_unit_test(close_commits),
        cmocka_unit_test(close_of_the_last_duplicate_commits),
        cmocka_unit_test(close_reports_what_is_lost),
        cmocka_unit_test(exit_commits),
        cmocka_unit_test(exit_commits_what_is_not_open_any_more),
        cmocka_unit_test(fsync_vouches_for_writes_of_another_process),
        cmocka_unit_test(fsync_vouches_for_writes_of_a_dead_process),
        cmocka_unit_test(fsync_writes_again_for_a_dead_process),
        cmocka_unit_test(fsync_in_a_forked_child),
        cmocka_unit_test(the_next_process_commits_what_a_dead_one_left),
        cmocka_unit_test(what_a_dead_process_left_does_not_return_into_a_truncated_file),
        cmocka_unit_test(a_read_after_power_loss_returns_what_another_process_wrote),
        cmocka_unit_test(a_read_after_power_loss_returns_what_was_written),
        cmocka_unit_test(a_read_on_a_connection_that_others_made_returns_what_was_written),
        cmocka_unit_test(a_read_that_ends_behind_a_lost_end_of_file_is_whole),
        cmocka_unit_test(fsync_fails_until_lost_data_is_written_again),
        cmocka_unit_test(fsync_fails_while_there_is_no_space_to_write_again),
        cmocka_unit_test(one_piece_of_many_that_cannot_be_written_again_fails_the_fsync),
        cmocka_unit_test(data_of_a_failed_commit_is_written_again),
        cmocka_unit_test(writes_beside_those_of_the_kernel_are_stable),
        cmocka_unit_test(fsync_fails_when_the_handle_became_stale_with_data_not_committed),
        cmocka_unit_test(no_space_at_write),
        cmocka_unit_test(no_space_at_commit),
        cmocka_unit_test(overlapping_writes_keep_the_newest),
        cmocka_unit_test(a_synchronous_write_over_lost_data_is_the_newest),
        cmocka_unit_test(truncated_data_does_not_come_back),
        cmocka_unit_test(a_file_emptied_by_open_stays_empty),
        cmocka_unit_test(the_size_counts_lost_data_that_will_be_written_again),
        cmocka_unit_test(a_full_ledger_commits_early),
        cmocka_unit_test(without_room_in_the_ledger_writes_are_stable),
        cmocka_unit_test(one_file_with_much_data_is_committed_early),
        cmocka_unit_test(flags_say_how_stable_a_write_is),
        cmocka_unit_test(the_tunable_makes_all_writes_stable),
        cmocka_unit_test(data_that_is_stable_sooner_than_asked_needs_no_commit),
        cmocka_unit_test(sync_commits_every_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
