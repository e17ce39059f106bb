/* Asynchronous requests: the same promises. */
#include <pthread.h>

#include "async_scene.h"

ENGINE_TEST(a_read_and_a_write)
{
    int fd = lane_open(DISK);
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    job_prepare(&jobs[1], ASYNC_READ, fd, BLOCK, BLOCK);
    submit(0, 2);
    wait_for_jobs(0, 2);
    CHECK_EQUAL(jobs[0].result, BLOCK);
    CHECK_EQUAL(jobs[1].result, BLOCK);
    CHECK(data_is(jobs[1].data, BLOCK, BLOCK, 0));
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 1);
}

/* Opens a file, of which a block is written. */
static int lane_open_written(void)
{
    int fd = lane_open(DISK);
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    return fd;
}

static void submit_later(int fd, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct async_request *request = &jobs[i].request;
        job_write(&jobs[i], fd, BLOCK, i * BLOCK, 2 + i);
        sys_critical_enter();
        async_submit_later(lane, &request, 1);
        sys_critical_leave();
    }
}

ENGINE_TEST(kept_requests_are_carried_out_though_nobody_comes)
{
    int fd = lane_open_written();
    unsigned before = server_calls(NFS_PROC_WRITE);
    submit_later(fd, 16);
    while (server_calls(NFS_PROC_WRITE) < before + 16)
        usleep(100);
    wait_for_jobs(0, 16);
    CHECK_EQUAL(engine_fsync(fd), 0);
    for (unsigned i = 0; i < 16; i++)
        disk_expect("f", BLOCK, i * BLOCK, 2 + i);
}

ENGINE_TEST(a_sync_of_kept_requests)
{
    int fd = lane_open_written();
    submit_later(fd, 16);
    CHECK_EQUAL(engine_fsync(fd), 0);
    wait_for_jobs(0, 16);
}

/* It would be given to two. */
ENGINE_TEST(a_lane_that_is_given_back_twice_is_given_once)
{
    sys_critical_enter();
    lane = async_lane_new();
    async_lane_free(lane);
    async_lane_free(lane);
    struct async_lane *first = async_lane_new(), *second = async_lane_new();
    sys_critical_leave();
    CHECK(first != second);
}

ENGINE_TEST(what_cannot_be_submitted_is_answered_with_an_error)
{
    lane_open(DISK);
    int reader = engine_adopt("f", O_RDONLY), writer = engine_adopt("f", O_WRONLY);
    job_prepare(&jobs[0], ASYNC_WRITE, reader, BLOCK, 0);
    job_prepare(&jobs[1], ASYNC_READ, writer, BLOCK, 0);
    job_prepare(&jobs[2], ASYNC_READ, reader, BLOCK, -1);
    job_prepare(&jobs[3], ASYNC_READ, reader, 0, 0);
    job_prepare(&jobs[4], ASYNC_READ, reader, BLOCK, DISK);
    submit(0, 5);
    wait_for_jobs(0, 5);
    CHECK_EQUAL(jobs[0].result, -EBADF);
    CHECK_EQUAL(jobs[1].result, -EBADF);
    CHECK_EQUAL(jobs[2].result, -EINVAL);
    CHECK_EQUAL(jobs[3].result, 0);
    CHECK_EQUAL(jobs[4].result, 0);
}

/* Requests larger than one call are carried out at once, whole. */
ENGINE_TEST(requests_larger_than_a_call)
{
    atomic_store(&scene.control->rtmax, 65536);
    atomic_store(&scene.control->wtmax, 32768);
    int fd = lane_open(0);
    job_write(&jobs[0], fd, 3000000, 100, 1);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, 3000000);
    job_prepare(&jobs[1], ASYNC_READ, fd, 3000000, 100);
    submit(1, 1);
    wait_for_job(&jobs[1]);
    CHECK_EQUAL(jobs[1].result, 3000000);
    CHECK(data_is(jobs[1].data, 3000000, 100, 1));
}

/* ---- troubled requests ---- */

ENGINE_TEST(short_replies_are_continued)
{
    atomic_store(&scene.control->short_read, 1000);
    atomic_store(&scene.control->short_write, 700);
    int fd = lane_open(DISK);
    for (unsigned i = 0; i < 16; i++)
        job_write(&jobs[i], fd, BLOCK, i * BLOCK, 2);
    submit(0, 16);
    wait_for_jobs(0, 16);
    for (unsigned i = 0; i < 16; i++)
        job_prepare(&jobs[i], ASYNC_READ, fd, BLOCK, i * BLOCK);
    submit(0, 16);
    wait_for_jobs(0, 16);
    for (unsigned i = 0; i < 16; i++) {
        CHECK_EQUAL(jobs[i].result, BLOCK);
        CHECK(data_is(jobs[i].data, BLOCK, i * BLOCK, 2));
    }
}

ENGINE_TEST(jukebox_is_waited_out)
{
    int fd = lane_open(DISK);
    server_fail(NFS_PROC_WRITE, 3, NFS3ERR_JUKEBOX);
    server_fail(NFS_PROC_READ, 3, NFS3ERR_JUKEBOX);
    for (unsigned i = 0; i < 4; i++) {
        job_write(&jobs[i], fd, BLOCK, i * BLOCK, 2);
        job_prepare(&jobs[4 + i], ASYNC_READ, fd, BLOCK, (10 + i) * BLOCK);
    }
    submit(0, 8);
    wait_for_jobs(0, 8);
    for (unsigned i = 0; i < 8; i++)
        CHECK_EQUAL(jobs[i].result, BLOCK);
    for (unsigned i = 0; i < 4; i++)
        CHECK(data_is(jobs[4 + i].data, BLOCK, (10 + i) * BLOCK, 0));
    engine_expect(fd, 4 * BLOCK, 0, 2);
}

ENGINE_TEST(errors_reach_their_request)
{
    int fd = lane_open(DISK);
    server_fail(NFS_PROC_WRITE, 1000, NFS3ERR_NOSPC);
    server_fail(NFS_PROC_READ, 1000, NFS3ERR_IO);
    job_write(&jobs[0], fd, BLOCK, 0, 2);
    job_prepare(&jobs[1], ASYNC_READ, fd, BLOCK, BLOCK);
    submit(0, 2);
    wait_for_jobs(0, 2);
    CHECK_EQUAL(jobs[0].result, -ENOSPC);
    CHECK_EQUAL(jobs[1].result, -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 0);
}

ENGINE_TEST(reads_with_two_ends_of_the_file)
{
    int fd = lane_open(DISK);
    job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, BLOCK);
    job_prepare(&jobs[1], ASYNC_READ, fd, 2 * BLOCK, DISK - BLOCK);
    atomic_store(&scene.control->lie, FILE_SERVER_HALF);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, -EIO);
    atomic_store(&scene.control->lie, FILE_SERVER_BEYOND);
    submit(1, 1);
    wait_for_job(&jobs[1]);
    CHECK_EQUAL(jobs[1].result, BLOCK);
}

/* Many in flight, of which the file ends within some and before others. */
ENGINE_TEST(memory_behind_what_was_read_stays_as_it_was)
{
    enum { COUNT = 32, SIZE = DISK - 1000 - 3, POISON = 0xee };
    int fd = lane_open(SIZE);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            off_t offset = SIZE + BLOCK / 2 - (off_t)((i * 7 + round) % COUNT) * 333;
            job_prepare(&jobs[i], ASYNC_READ, fd, BLOCK, offset);
            memset(jobs[i].data, POISON, BLOCK);
        }
        submit(0, COUNT);
        wait_for_jobs(0, COUNT);
        for (unsigned i = 0; i < COUNT; i++) {
            off_t offset = jobs[i].request.offset, left = offset < SIZE ? SIZE - offset : 0;
            CHECK_EQUAL(jobs[i].result, left < BLOCK ? left : BLOCK);
            CHECK(data_is(jobs[i].data, (size_t)jobs[i].result, (uint64_t)offset, 0));
            for (ssize_t at = jobs[i].result; at < BLOCK; at++)
                CHECK_EQUAL(jobs[i].data[at], POISON);
        }
    }
}

ENGINE_TEST(a_fsync_request)
{
    int fd = lane_open(DISK);
    job_write(&jobs[0], fd, BLOCK, 0, 2);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    job_prepare(&jobs[1], ASYNC_SYNC, fd, 0, 0);
    submit(1, 1);
    wait_for_job(&jobs[1]);
    CHECK_EQUAL(jobs[1].result, 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", BLOCK, 0, 2);
}

/* ---- overlapping writes ---- */

ENGINE_TEST(writes_of_one_submission_that_overlap_are_ordered)
{
    int fd = lane_open(DISK);
    for (unsigned i = 0; i < 32; i++)
        job_write(&jobs[i], fd, BLOCK, i * 100, i + 1);
    submit(0, 32);
    wait_for_jobs(0, 32);
    for (unsigned i = 0; i < 31; i++)
        engine_expect(fd, 100, i * 100, i + 1);
    engine_expect(fd, BLOCK, 3100, 32);
}

ENGINE_TEST(writes_of_one_submission_to_several_files)
{
    int fd = lane_open(DISK), other;
    disk_make("g", DISK, 0);
    other = engine_adopt("g", O_RDWR);
    for (unsigned i = 0; i < 48; i++) {
        int to = i % 5 < 3 ? fd : other;
        if (i % 7 == 6)
            job_prepare(&jobs[i], ASYNC_READ, to, BLOCK, (off_t)(100 + i) * BLOCK);
        else if (i == 40)
            job_prepare(&jobs[i], ASYNC_SYNC, fd, 0, 0);
        else
            job_write(&jobs[i], to, BLOCK, (off_t)i * BLOCK, i + 1);
    }
    submit(0, 48);
    wait_for_jobs(0, 48);
    for (unsigned i = 0; i < 48; i++) {
        int to = i % 5 < 3 ? fd : other;
        CHECK_EQUAL(jobs[i].result, i == 40 ? 0 : BLOCK);
        if (i % 7 == 6)
            CHECK(data_is(jobs[i].data, BLOCK, (uint64_t)(100 + i) * BLOCK, 0));
        else if (i != 40)
            engine_expect(to, BLOCK, (off_t)i * BLOCK, i + 1);
    }
}

ENGINE_TEST(a_synchronous_write_that_overlaps_one_in_flight)
{
    int fd = lane_open(DISK);
    for (unsigned round = 0; round < 20; round++) {
        job_write(&jobs[0], fd, BLOCK, 0, 2 * round);
        submit(0, 1);
        engine_put(fd, 100, 50, 2 * round + 1);
        wait_for_job(&jobs[0]);
        engine_expect(fd, 50, 0, 2 * round);
        engine_expect(fd, 100, 50, 2 * round + 1);
        engine_expect(fd, BLOCK - 150, 150, 2 * round);
    }
}

ENGINE_TEST(a_truncation_waits_for_writes_in_flight)
{
    int fd = lane_open(0);
    job_write(&jobs[0], fd, BLOCK, BLOCK, 2);
    submit(0, 1);
    CHECK_EQUAL(engine_truncate(fd, 100), 0);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, BLOCK);
    CHECK_EQUAL(engine_size(fd), 100);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(disk_size("f"), 100);
}

/* ---- waiting ---- */

ENGINE_TEST(a_deadline_ends_the_wait)
{
    int fd = lane_open(DISK);
    server_hold(NFS_PROC_READ);
    job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, 0);
    submit(0, 1);
    uint64_t begin = sys_now_ns();
    sys_critical_enter();
    CHECK(!async_lane_wait(lane, job_is_done, &jobs[0], begin + 50000000));
    CHECK(!async_lane_wait(lane, job_is_done, &jobs[0], 1));
    sys_critical_leave();
    CHECK(sys_now_ns() - begin >= 50000000);
    CHECK_EQUAL(atomic_load(&jobs[0].done), 0);
    server_release();
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, BLOCK);
}

/* As a program does that never sleeps in the wait. */
ENGINE_TEST(polling_alone_connects_again)
{
    int fd = lane_open(DISK);
    for (unsigned round = 0; round < 5; round++) {
        server_do(FILE_SERVER_STOP);
        job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, 0);
        submit(0, 1);
        for (int i = 0; i < SCENE_LIMIT_S * 1000 && !atomic_load(&jobs[0].done); i++) {
            sys_critical_enter();
            async_lane_wait(lane, job_is_done, &jobs[0], 1);
            sys_critical_leave();
            usleep(1000);
            if (i == 100)
                server_do(FILE_SERVER_START);
        }
        CHECK_EQUAL(atomic_load(&jobs[0].done), 1);
        CHECK_EQUAL(jobs[0].result, BLOCK);
    }
}

ENGINE_TEST(a_wait_with_nothing_in_flight_returns)
{
    lane_open(DISK);
    sys_critical_enter();
    CHECK(!async_lane_wait(lane, never, NULL, 0));
    sys_critical_leave();
    async_lane_free(lane);
}

static void *submits_a_sync(void *unused)
{
    submit(0, 1);
    return unused;
}

static bool never_counted(void *context)
{
    ++*(unsigned *)context;
    return false;
}

/* What another thread carries out within its submission is on no channel of the lane. */
ENGINE_TEST(waiting_for_what_another_thread_carries_out_is_not_spinning)
{
    pthread_t thread;
    unsigned looks = 0;
    int fd = lane_open(DISK);
    engine_put(fd, BLOCK, 0, 1);
    server_hold(NFS_PROC_COMMIT);
    job_prepare(&jobs[0], ASYNC_SYNC, fd, 0, 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, submits_a_sync, NULL), 0);
    server_wait_held(1);
    sys_critical_enter();
    CHECK(!async_lane_wait(lane, never_counted, &looks, sys_now_ns() + 500000000));
    sys_critical_leave();
    CHECK(looks < 3000);
    server_release();
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, 0);
    pthread_join(thread, NULL);
}

ENGINE_TEST(attendants_settle_what_nobody_waits_for)
{
    int fd = lane_open(DISK);
    sys_critical_enter();
    async_lane_attend(lane);
    sys_critical_leave();
    server_fail(NFS_PROC_READ, 1, NFS3ERR_JUKEBOX);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 16; i++)
            job_prepare(&jobs[i], ASYNC_READ, fd, BLOCK, i * BLOCK);
        submit(0, 16);
        for (unsigned i = 0; i < 16; i++) {
            while (!atomic_load(&jobs[i].done))
                usleep(100);
            CHECK_EQUAL(jobs[i].result, BLOCK);
            CHECK(data_is(jobs[i].data, BLOCK, i * BLOCK, 0));
        }
    }
}

/* ---- power losses ---- */

/* What was acknowledged is lost while a write over the same bytes is in flight; then `finish`. */
static void lose_under_a_write_in_flight(bool attended, void (*finish)(int fd))
{
    int fd = lane_open(DISK);
    if (attended) {
        sys_critical_enter();
        async_lane_attend(lane);
        sys_critical_leave();
    }
    engine_put(fd, 2 * BLOCK, 0, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    job_write(&jobs[0], fd, BLOCK, 0, 2);
    submit(0, 1);
    finish(fd);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, BLOCK);
    engine_expect(fd, BLOCK, 0, 2);
    engine_expect(fd, BLOCK, BLOCK, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", BLOCK, 0, 2);
    disk_expect("f", BLOCK, BLOCK, 1);
}

static void finish_by_fsync(int fd)
{
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void finish_by_reading(int fd)
{
    engine_expect(fd, BLOCK, BLOCK, 1);
}

static void finish_by_request(int fd)
{
    job_prepare(&jobs[1], ASYNC_READ, fd, BLOCK, BLOCK);
    job_prepare(&jobs[2], ASYNC_SYNC, fd, 0, 0);
    submit(1, 2);
    wait_for_jobs(1, 2);
    CHECK_EQUAL(jobs[1].result, BLOCK);
    CHECK(data_is(jobs[1].data, BLOCK, BLOCK, 1));
    CHECK_EQUAL(jobs[2].result, 0);
}

static void finish_by_read_request(int fd)
{
    job_prepare(&jobs[1], ASYNC_READ, fd, BLOCK, BLOCK);
    submit(1, 1);
    wait_for_job(&jobs[1]);
    CHECK_EQUAL(jobs[1].result, BLOCK);
    CHECK(data_is(jobs[1].data, BLOCK, BLOCK, 1));
}

ENGINE_TEST(fsync_with_a_write_over_lost_data_in_flight)
{
    lose_under_a_write_in_flight(false, finish_by_fsync);
}

ENGINE_TEST(a_read_with_a_write_over_lost_data_in_flight)
{
    lose_under_a_write_in_flight(false, finish_by_reading);
}

ENGINE_TEST(requests_with_a_write_over_lost_data_in_flight)
{
    lose_under_a_write_in_flight(false, finish_by_request);
}

ENGINE_TEST(a_read_request_with_a_write_over_lost_data_in_flight)
{
    lose_under_a_write_in_flight(false, finish_by_read_request);
}

ENGINE_TEST(an_attended_read_request_with_a_write_over_lost_data_in_flight)
{
    lose_under_a_write_in_flight(true, finish_by_read_request);
}

/* One submission: a write over lost data, and what then needs a COMMIT before anything is sent. */
ENGINE_TEST(an_early_commit_with_a_write_over_lost_data_not_yet_sent)
{
    int fd = lane_open(DISK);
    engine_put(fd, 2 * BLOCK, 0, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    mount_tunables.uncommitted_file_max = 1000;
    for (unsigned i = 0; i < 8; i++)
        job_write(&jobs[i], fd, BLOCK, i % 2 * BLOCK, i + 2);
    submit(0, 8);
    wait_for_jobs(0, 8);
    engine_expect(fd, BLOCK, 0, 8);
    engine_expect(fd, BLOCK, BLOCK, 9);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 8);
    disk_expect("f", BLOCK, BLOCK, 9);
}

/* ---- a further path ---- */

static unsigned reconnects(void)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < DIRECTNFS_CHANNELS; i++)
        sum += (unsigned)stats_get(&stats_own->channels[i].reconnects);
    return sum;
}

static void wait_for_proof(void)
{
    int fd = lane_open(DISK);
    server_hold(NFS_PROC_READ);
    server_hold(NFS_PROC_GETATTR);
    for (unsigned i = 0; i < 2; i++) /* one path is not enough: the other one is asked who it is */
        job_prepare(&jobs[i], ASYNC_READ, fd, BLOCK, (off_t)i * BLOCK);
    submit(0, 2);
    server_wait_held(3);
    sys_critical_enter();
    CHECK(!async_lane_wait(lane, never, NULL, sys_now_ns() + 2000000000));
    sys_critical_leave();
    CHECK_EQUAL(reconnects(), 0);
    server_release();
    wait_for_jobs(0, 2);
}

SCENE_TEST(a_probe_that_is_not_answered_breaks_no_connection)
{
    scene.nfstab = "server: s\nlocal: 127.0.0.1 path: 127.0.0.1\n"
                   "local: 127.0.0.2 path: 127.0.0.1\nnfsport: %u mntport: %u\n"
                   "export: %s/export mount: %s/export\n";
    scene_configure("connections = 1;");
    scene_run(wait_for_proof);
}

/* ---- an fsync beside a write that goes to the disk ---- */

/* Of the same thread, which does not reap it meanwhile. */
static void write_through(struct job *job, int fd)
{
    engine_put(fd, 16 * BLOCK, 0, 1);
    server_hold(NFS_PROC_WRITE);
    job_write(job, engine_adopt("f", O_RDWR | O_DSYNC), BLOCK, 100 * BLOCK, 2);
    submit(0, 1);
    server_wait_held(1);
    atomic_store(&scene.control->hold, 0);
}

static void *release_soon(void *unused)
{
    (void)unused;
    usleep(50000);
    server_release();
    return NULL;
}

static uint64_t rewritten(void)
{
    return stats_get(&stats_own->counters.rewritten_bytes);
}

ENGINE_TEST(an_fsync_waits_for_a_write_of_its_thread_and_receives_its_answer)
{
    int fd = lane_open(DISK);
    pthread_t thread;
    uint64_t begun_ns = sys_now_ns();
    write_through(&jobs[0], fd);
    CHECK_EQUAL(pthread_create(&thread, NULL, release_soon, NULL), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(rewritten() == 0 || sys_now_ns() - begun_ns > UINT64_C(900000000));
    pthread_join(thread, NULL);
    wait_for_job(&jobs[0]);
}

ENGINE_TEST(an_fsync_gives_up_on_a_write_once)
{
    int fd = lane_open(DISK);
    write_through(&jobs[0], fd);
    CHECK_EQUAL(engine_fsync(fd), 0);
    uint64_t again = rewritten();
    CHECK(again >= 16 * BLOCK);
    for (unsigned i = 0; i < 3; i++) {
        engine_put(fd, BLOCK, 0, 3 + i);
        CHECK_EQUAL(engine_fsync(fd), 0);
    }
    CHECK_EQUAL(rewritten(), again);
    server_release();
    wait_for_job(&jobs[0]);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
