/* A server that gives all files new handles: they are found again by name, if they are the same. */
#include <pthread.h>

#include "async_scene.h"
#include "durability_scene.h"
#include "durable/sync.h"
#include "sys/critical.h"

static void give_new_handles(void)
{
    atomic_fetch_add(&scene.control->handles, 1);
}

static void disk_path(char path[SCENE_PATH], const char *name)
{
    scene_file_path(path, name);
}

static void disk_rename(const char *from, const char *to)
{
    char old[SCENE_PATH], new[SCENE_PATH];
    disk_path(old, from);
    disk_path(new, to);
    CHECK_EQUAL(rename(old, new), 0);
}

/* Changes its change time. */
static void disk_touch(const char *name)
{
    char path[SCENE_PATH];
    disk_path(path, name);
    usleep(20000); /* the clock of change times is coarse */
    CHECK_EQUAL(chmod(path, 0640), 0);
}

/* ---- one process ---- */

ENGINE_TEST(each_call_finds_the_file_again)
{
    disk_make("f", SIZE, 0);
    int fd = engine_adopt("f", O_RDWR);
    give_new_handles();
    engine_expect(fd, SIZE, 0, 0);
    give_new_handles();
    engine_put(fd, SIZE, 0, 1);
    give_new_handles();
    CHECK_EQUAL(engine_truncate(fd, SIZE - 1), 0);
    give_new_handles();
    CHECK_EQUAL(engine_fsync(fd), 0);
    give_new_handles();
    CHECK_EQUAL(engine_size(engine_adopt("f", O_RDWR)), SIZE - 1);
    engine_expect(fd, SIZE - 1, 0, 1);
    CHECK(file_is_managed(fd));
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE - 1, 0, 1);
}

ENGINE_TEST(another_file_is_opened_by_its_new_handle)
{
    char path[SCENE_PATH];
    disk_path(path, "deep");
    CHECK_EQUAL(mkdir(path, 0755), 0);
    disk_make("deep/f", 100, 0);
    disk_make("deep/g", 100, 3);
    engine_adopt("deep/f", O_RDWR);
    give_new_handles();
    engine_expect(engine_adopt("deep/g", O_RDWR), 100, 0, 3);
}

ENGINE_TEST(data_that_was_not_committed_is_committed_under_the_new_handle)
{
    int fd = written_anew();
    give_new_handles();
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_FILE_SYNC]), 0);
    expect_durable();
}

ENGINE_TEST(sync_commits_under_the_new_handle)
{
    written_anew();
    give_new_handles();
    server_do(FILE_SERVER_LOSE_POWER);
    sys_critical_enter();
    CHECK_EQUAL(durable_sync_all(), 0);
    sys_critical_leave();
    expect_durable();
}

ENGINE_TEST(data_that_the_server_lost_too_is_written_again)
{
    int fd = written_anew();
    give_new_handles();
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(file_is_managed(fd));
    expect_durable();
}

ENGINE_TEST(handles_that_change_while_lost_data_is_written_again)
{
    int fd = written_anew();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_STALE);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
}

static void *give_new_handles_again(void *unused)
{
    server_wait_held(1);
    give_new_handles();
    server_release();
    return unused;
}

ENGINE_TEST(handles_that_change_while_the_file_is_looked_up)
{
    pthread_t thread;
    int fd = written_anew();
    give_new_handles();
    server_hold(NFS_PROC_LOOKUP);
    CHECK_EQUAL(pthread_create(&thread, NULL, give_new_handles_again, NULL), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    pthread_join(thread, NULL);
    CHECK(file_is_managed(fd));
    expect_durable();
}

ENGINE_TEST(a_file_that_was_renamed_is_found)
{
    int fd = written_anew();
    disk_rename("f", "h");
    give_new_handles();
    engine_put(fd, SIZE, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(file_is_managed(fd));
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("h", SIZE, 0, 2);
}

ENGINE_TEST(the_last_close_finds_the_file_again)
{
    int fd = written_anew();
    disk_touch("f");
    give_new_handles();
    CHECK_EQUAL(engine_close(fd), 0);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    expect_durable();
}

ENGINE_TEST(a_handle_that_is_stale_for_a_moment_only)
{
    disk_make("f", SIZE, 0);
    int fd = engine_adopt("f", O_RDWR);
    server_fail(NFS_PROC_READ, 2, NFS3ERR_STALE);
    engine_expect(fd, SIZE, 0, 0);
    CHECK(file_is_managed(fd));
}

ENGINE_TEST(mounting_again_is_tried_again)
{
    int fd = written_anew();
    give_new_handles();
    atomic_store(&scene.control->mount_resets, 8);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(file_is_managed(fd));
    expect_durable();
}

/* ---- what is not the same file ---- */

ENGINE_TEST(a_removed_file_is_the_kernels_and_its_data_nobodys)
{
    int fd = written_anew();
    char path[SCENE_PATH];
    disk_path(path, "f");
    CHECK_EQUAL(unlink(path), 0);
    give_new_handles();
    engine_put(fd, SIZE, 0, 2);
    engine_expect(fd, SIZE, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(ledger_uncommitted(), 0);
}

ENGINE_TEST(another_file_of_the_same_name_is_never_written)
{
    disk_make("other", SIZE, 7);
    int fd = written_anew();
    disk_rename("other", "f");
    give_new_handles();
    engine_put(fd, SIZE, 0, 2);
    engine_expect(fd, SIZE, 0, 2); /* the kernel still has the old one */
    engine_fsync(fd);
    CHECK(!file_is_managed(fd));
    disk_expect("f", SIZE, 0, 7);
}

ENGINE_TEST(a_file_that_was_moved_out_of_the_export_is_the_kernels)
{
    int fd = written_anew();
    disk_rename("f", "../f");
    give_new_handles();
    engine_expect(fd, SIZE, 0, 1);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(engine_kernel_fsync(fd), -EIO);
}

static void is_not_provably_the_same(_Atomic int *error)
{
    int fd = written_anew();
    give_new_handles();
    atomic_store(error, 1000);
    int result = engine_fsync(fd);
    CHECK(result != 0 || engine_kernel_fsync(fd) != 0);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(ledger_uncommitted(), 0); /* it cannot come back over what the kernel writes */
}

ENGINE_TEST(fsync_fails_where_the_file_number_is_another)
{
    is_not_provably_the_same(&scene.control->fileid_error);
}

ENGINE_TEST(fsync_fails_where_the_change_time_is_another)
{
    is_not_provably_the_same(&scene.control->ctime_error);
}

ENGINE_TEST(what_the_kernel_serves_stays_with_it)
{
    int fd = written_anew();
    CHECK_EQUAL(engine_demote(fd), 0);
    give_new_handles();
    CHECK(!file_is_managed(engine_open("f", O_RDWR)));
}

/* ---- several processes ---- */

static void writes_and_syncs_later(void)
{
    int fd = written();
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(file_is_managed(fd));
}

static void opens_and_syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* A new process vouches for what another wrote under the old handle, and has open. */
static void vouches_for_another(void (*body)(void))
{
    disk_make("f", 0, 0);
    pid_t writer = scene_start(writes_and_syncs_later);
    step_wait(0);
    give_new_handles();
    scene_run(body);
    expect_durable();
    step_done(1);
    scene_wait(writer);
}

SCENE_TEST(fsync_of_a_new_process_vouches_for_writes_under_the_old_handle)
{
    vouches_for_another(opens_and_syncs);
}

static void loses_power_and_syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

SCENE_TEST(a_new_process_writes_again_what_was_lost_under_the_old_handle)
{
    vouches_for_another(loses_power_and_syncs);
}

static void opens_another_file(void)
{
    engine_adopt("g", O_RDWR);
}

SCENE_TEST(what_a_dead_process_left_waits_for_who_opens_the_file)
{
    disk_make("g", 0, 0);
    scene_kill(start_writer());
    give_new_handles();
    scene_run(opens_another_file);
    scene_run(loses_power_and_syncs);
    expect_durable();
}

static void opens_and_fails_to_sync_once(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void writes_and_fails_to_sync_once(void)
{
    int fd = written();
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void gives_its_data_up(void)
{
    is_not_provably_the_same(&scene.control->fileid_error);
    atomic_store(&scene.control->fileid_error, 0);
}

static void waits_and_fails_to_sync_once(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(!file_is_managed(fd)); /* it went where the other had to go */
}

SCENE_TEST(data_that_one_process_gives_up_fails_the_fsync_of_all)
{
    disk_make("f", 0, 0);
    pid_t syncer = scene_start(waits_and_fails_to_sync_once);
    step_wait(0);
    scene_run(gives_its_data_up);
    step_done(1);
    scene_wait(syncer);
}

/* The new process cannot know whether it still is the file that was written. */
SCENE_TEST(data_under_the_old_handle_of_a_file_that_changed_fails_every_fsync)
{
    disk_make("f", 0, 0);
    pid_t writer = scene_start(writes_and_fails_to_sync_once);
    step_wait(0);
    give_new_handles();
    disk_touch("f");
    scene_run(opens_and_fails_to_sync_once);
    step_done(1);
    scene_wait(writer);
}

/* ---- at once ---- */

ENGINE_TEST(requests_in_flight_find_the_file_again)
{
    disk_make("f", DISK, 0);
    int fd = engine_adopt("f", O_RDWR);
    CHECK((lane = async_lane_new()) != NULL);
    for (unsigned i = 0; i < DEPTH; i++) {
        if (i % 2)
            job_write(&jobs[i], fd, BLOCK, (off_t)i * BLOCK, 1);
        else
            job_prepare(&jobs[i], ASYNC_READ, fd, BLOCK, (off_t)i * BLOCK);
    }
    server_hold(NFS_PROC_READ);
    server_hold(NFS_PROC_WRITE);
    submit(0, DEPTH);
    server_wait_held(DEPTH);
    give_new_handles();
    server_release();
    wait_for_jobs(0, DEPTH);
    for (unsigned i = 0; i < DEPTH; i++) {
        CHECK_EQUAL(jobs[i].result, BLOCK);
        CHECK(data_is(jobs[i].data, BLOCK, (uint64_t)i * BLOCK, i % 2));
    }
    CHECK(file_is_managed(fd));
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 1; i < DEPTH; i += 2)
        disk_expect("f", BLOCK, (off_t)i * BLOCK, 1);
}

/* Reads with a request whose descriptor is closed while it is in flight. Returns its result. */
static ssize_t read_of_a_closed_descriptor(bool changed)
{
    disk_make("f", DISK, 0);
    int fd = engine_adopt("f", O_RDWR);
    CHECK((lane = async_lane_new()) != NULL);
    job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, BLOCK);
    server_hold(NFS_PROC_READ);
    submit(0, 1);
    server_wait_held(1);
    CHECK_EQUAL(engine_close(fd), 0);
    give_new_handles();
    if (changed)
        disk_touch("f");
    server_release();
    wait_for_job(&jobs[0]);
    return jobs[0].result;
}

/* The kernel cannot be asked for it any more. */
ENGINE_TEST(a_file_without_a_descriptor_is_found_by_its_last_change_time)
{
    CHECK_EQUAL(read_of_a_closed_descriptor(false), BLOCK);
    CHECK(data_is(jobs[0].data, BLOCK, BLOCK, 0));
}

ENGINE_TEST(a_file_without_a_descriptor_that_was_changed_is_not_provably_the_same)
{
    CHECK_EQUAL(read_of_a_closed_descriptor(true), FILE_KERNEL);
}

enum { THREADS = 6, ROUNDS = 60, AREA = 20000 };

static int shared_fd;

static void *writes_and_reads(void *argument)
{
    off_t offset = (off_t)(uintptr_t)argument * AREA;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        engine_put(shared_fd, AREA, offset, round);
        if (round % 8 == 0)
            CHECK_EQUAL(engine_fsync(shared_fd), 0);
        engine_expect(shared_fd, AREA, offset, round);
        if (round % 16 == 3 && offset == 0)
            give_new_handles();
        if (round % 16 == 11 && offset == 0)
            server_do(FILE_SERVER_LOSE_POWER);
    }
    return NULL;
}

ENGINE_TEST(threads_go_on_while_handles_change_and_power_fails)
{
    pthread_t threads[THREADS];
    disk_make("f", 0, 0);
    shared_fd = engine_adopt("f", O_RDWR);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, writes_and_reads, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(engine_fsync(shared_fd), 0);
    CHECK(file_is_managed(shared_fd));
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", THREADS * AREA, 0, ROUNDS);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
