/* No acknowledged byte is lost, whatever happens to the server. */
#include "durability_scene.h"
#include "fd/stat.h"
#include "fd/truncate.h"
#include "file/table.h"
#include "io/write.h"
#include "mount/verifier.h"
#include "sys/sys.h"

ENGINE_TEST(fsync_puts_data_on_disk)
{
    int fd = written_anew();
    CHECK(atomic_load(&scene.control->writes[NFS_UNSTABLE]) > 0);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
}

ENGINE_TEST(fsync_writes_again_what_a_power_loss_took)
{
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(disk_size("f"), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
    CHECK_EQUAL(disk_size("f"), SIZE);
}

ENGINE_TEST(a_new_verifier_alone_makes_data_be_written_again)
{
    int fd = written_anew();
    server_do(FILE_SERVER_NEW_VERIFIER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(atomic_load(&scene.control->writes[NFS_UNSTABLE]) > 1);
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
        atomic_store(&scene.control->power_after[NFS_PROC_WRITE], after);
        engine_put(fd, SIZE, 0, after);
        CHECK_EQUAL(atomic_load(&scene.control->power_after[NFS_PROC_WRITE]), 0);
        engine_expect(fd, SIZE, 0, after);
        CHECK_EQUAL(engine_fsync(fd), 0);
        server_do(FILE_SERVER_LOSE_POWER);
        disk_expect("f", SIZE, 0, after);
    }
}

/* As when each path leads to an instance of its own. */
ENGINE_TEST(a_write_in_parts_to_many_instances_ends)
{
    atomic_store(&scene.control->restless, true);
    atomic_store(&scene.control->wtmax, 8192);
    int fd = written_anew();
    CHECK(atomic_load(&scene.control->writes[NFS_FILE_SYNC]) > 0);
    expect_durable();
    CHECK_EQUAL(engine_close(fd), 0);
}

static unsigned lines_of_restarts(void)
{
    return scene_logged(" restarted before it committed ");
}

ENGINE_TEST(a_verifier_that_changes_all_the_time_does_not_fill_the_log)
{
    int fd = written_anew();
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(lines_of_restarts(), 0);
    atomic_store(&scene.control->restless, true);
    for (unsigned version = 2; version < 10; version++) {
        engine_put(fd, 1000, 0, version);
        engine_put(fd, 1000, 50000, version);
        CHECK_EQUAL(engine_fsync(fd), 0);
        CHECK_EQUAL(lines_of_restarts(), 1);
    }
}

static _Atomic bool committed_enough;

/* Each COMMIT leaves newer writes uncommitted. */
static void *writes_on(void *fd)
{
    for (unsigned i = 0; !atomic_load(&committed_enough); i = (i + 1) % 64)
        engine_put(*(int *)fd, 1000, (off_t)i * 1000, 3);
    return NULL;
}

static void commits_until_said(const char *line, const char *other)
{
    pthread_t thread;
    int fd = written_anew();
    CHECK_EQUAL(pthread_create(&thread, NULL, writes_on, &fd), 0);
    for (int i = 0; scene_logged(line) == 0; i++) {
        CHECK(i < 100000);
        CHECK_EQUAL(engine_fsync(fd), 0);
    }
    atomic_store(&scene.control->power_after[NFS_PROC_COMMIT], 0);
    atomic_store(&committed_enough, true);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(scene_logged(other), 0);
}

static const char restarts_again[] = "it restarts again and again",
                  each_time[] = "another verifier each time";

ENGINE_TEST(a_server_that_restarts_often_is_said_to)
{
    atomic_store(&scene.control->power_often, true);
    atomic_store(&scene.control->power_after[NFS_PROC_COMMIT], 1);
    commits_until_said(restarts_again, each_time);
}

ENGINE_TEST(a_server_with_many_verifiers_is_said_to_have_them)
{
    atomic_store(&scene.control->restless, true);
    commits_until_said(each_time, restarts_again);
    /* No COMMIT vouches for what is written again: it goes to the disk at once. */
    CHECK(atomic_load(&scene.control->writes[NFS_FILE_SYNC]) > 0);
}

/* The COMMIT was executed, but its answer is lost with the power. */
ENGINE_TEST(power_loss_during_the_commit)
{
    int fd = written_anew();
    atomic_store(&scene.control->power_after[NFS_PROC_COMMIT], 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
}

ENGINE_TEST(power_loss_while_data_is_written_again)
{
    atomic_store(&scene.control->wtmax, 65536);
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    atomic_store(&scene.control->power_after[NFS_PROC_WRITE], 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(atomic_load(&scene.control->power_after[NFS_PROC_WRITE]), 0);
    expect_durable();
}

static void *writes_version_2(void *fd)
{
    engine_put(*(int *)fd, SIZE, 0, 2);
    return NULL;
}

static void *syncs(void *fd)
{
    CHECK_EQUAL(engine_fsync(*(int *)fd), 0);
    return NULL;
}

/* A write in flight is executed after the COMMIT, and supersedes what would be written again. */
ENGINE_TEST(fsync_vouches_for_what_took_the_place_of_lost_data)
{
    pthread_t writer, syncer;
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(pthread_create(&writer, NULL, writes_version_2, &fd), 0);
    server_wait_held(1);
    CHECK_EQUAL(pthread_create(&syncer, NULL, syncs, &fd), 0);
    while (server_calls(NFS_PROC_COMMIT) == 0)
        usleep(1000);
    server_release();
    pthread_join(writer, NULL);
    pthread_join(syncer, NULL);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 2);
}

ENGINE_TEST(close_commits)
{
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_close(fd), 0);
    expect_durable();
}

ENGINE_TEST(close_of_the_last_duplicate_commits)
{
    int fd = written_anew(), copy = engine_dup(fd);
    CHECK(file_is_managed(copy));
    CHECK_EQUAL(engine_close(fd), 0);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    engine_expect(copy, SIZE, 0, 1);
    CHECK_EQUAL(engine_close(copy), 0);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 1);
}

ENGINE_TEST(close_reports_what_is_lost)
{
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_WRITE, 1000, NFS3ERR_NOSPC);
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
    expect_durable();
}

/* Another thread's write ends after the close: nothing committed it then. */
static void closes_during_a_write(void)
{
    static uint8_t data[SIZE];
    struct iovec vector = {data, SIZE};
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = file_get(fd);
    data_fill(data, SIZE, 0, 1);
    CHECK_EQUAL(engine_close(fd), 0);
    sys_critical_enter();
    CHECK_EQUAL(io_pwritev(open, fd, &vector, 1, 0, 0), SIZE);
    file_put(open);
    sys_critical_leave();
    CHECK_EQUAL(ledger_uncommitted(), SIZE);
}

SCENE_TEST(exit_commits_what_is_not_open_any_more)
{
    disk_make("f", 0, 0);
    scene_run(closes_during_a_write);
    expect_durable();
}

ENGINE_TEST(a_read_after_power_loss_returns_what_was_written)
{
    disk_make("f", SIZE, 0);
    int fd = written();
    server_do(FILE_SERVER_LOSE_POWER);
    engine_expect(fd, SIZE, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* The first part by the instance that had the data, the second by the next one. */
ENGINE_TEST(a_read_in_parts_across_a_power_loss_returns_what_was_written)
{
    disk_make("f", SIZE, 0);
    int fd = written();
    atomic_store(&scene.control->short_read, SIZE / 2);
    atomic_store(&scene.control->power_after[NFS_PROC_READ], 2);
    engine_expect(fd, SIZE, 0, 1);
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
    int fd = written_anew();
    char *data = malloc(2 * SIZE);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_read(fd, data, 2 * SIZE, 10), SIZE - 10);
    CHECK(data_is(data, SIZE - 10, 10, 1));
}

/* ---- what a later change makes of earlier data ---- */

/* Answers come in another order than the calls were sent. */
ENGINE_TEST(an_answer_to_an_older_call_tells_nothing_of_the_server)
{
    uint64_t verifier;
    int fd = written_anew();
    struct file_open *open = engine_begin(fd);
    struct mount_server *server = open->inode->mount->server;
    uint64_t now = sys_now_ns();
    mount_server_saw(server, 2, now, 0);
    mount_server_saw(server, 1, now - 1, 0);
    CHECK(mount_server_verifier(server, now, &verifier));
    CHECK_EQUAL(verifier, 2);
    engine_end(open);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

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
    int fd = written_anew();
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
    int fd = written_anew();
    int again = engine_adopt("f", O_RDWR | O_TRUNC);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_size(fd), 0);
    CHECK_EQUAL(engine_fsync(again), 0);
    CHECK_EQUAL(disk_size("f"), 0);
}

ENGINE_TEST(the_size_counts_lost_data_that_will_be_written_again)
{
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    mount_tunables.actimeo = 0; /* ask the server, which knows less */
    CHECK_EQUAL(engine_size(fd), SIZE);
    struct stat status;
    CHECK_EQUAL(fstat(fd, &status), 0);
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    CHECK_EQUAL(fd_stat(open, fd, &status), 0);
    file_put(open);
    sys_critical_leave();
    CHECK_EQUAL(status.st_size, SIZE);
}

/* It is the program itself that makes the file younger: nobody else wrote it. */
ENGINE_TEST(what_a_server_lost_is_written_again_though_the_program_set_the_time)
{
    struct stat status;
    disk_make("f", SIZE, 1);
    disk_make("other", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("other", O_RDWR);
    engine_put(fd, SIZE, 0, 2);
    usleep(50000); /* ticks of the server's clock */
    CHECK_EQUAL(fstat(fd, &status), 0);
    sys_critical_enter();
    fd_attributes_changing(status.st_dev, status.st_ino);
    sys_critical_leave();
    CHECK_EQUAL(futimens(fd, NULL), 0);
    usleep(50000);
    engine_put(other, SIZE, 0, 2);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 2);
}

/* Nobody knows whether it still will: the size is asked for each time. */
static void size_while_a_change_is_held(void)
{
    int fd = engine_adopt("f", O_RDWR);
    server_hold(NFS_PROC_SETATTR);
    pid_t child = engine_fork();
    if (child == 0) {
        engine_truncate(fd, SIZE);
        _exit(1);
    }
    server_wait_held(1);
    scene_kill(child);
    server_do(FILE_SERVER_DROP_HELD);
    server_release();
    ledger_process_sweep(0);
    engine_put(fd, 1000, 0, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_size(fd), 1000);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", 1000, 0, 1);
}

SCENE_TEST(the_size_counts_lost_data_while_a_change_of_a_dead_process_is_held)
{
    scene_configure("failover_hold = 600;");
    disk_make("f", 0, 0);
    scene_run(size_while_a_change_is_held);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
