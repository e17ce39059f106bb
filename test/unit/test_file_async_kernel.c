/* Asynchronous requests to files that are the kernel's, or become it meanwhile. */
#include "async_scene.h"
#include "file/table.h"

static void demote_with_requests_in_flight(bool attended)
{
    int fd = lane_open(DISK);
    if (attended) {
        sys_critical_enter();
        async_lane_attend(lane);
        sys_critical_leave();
    }
    for (unsigned i = 0; i < 32; i++)
        job_write(&jobs[i], fd, BLOCK, i * BLOCK, 3);
    submit(0, 32);
    CHECK_EQUAL(engine_demote(fd), 0);
    CHECK(!file_is_managed(fd));
    disk_expect("f", 32 * BLOCK, 0, 3);
    wait_for_jobs(0, 32);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 32 * BLOCK, 0, 3);
}

ENGINE_TEST(demotion_drains_requests)
{
    demote_with_requests_in_flight(false);
}

ENGINE_TEST(demotion_drains_attended_requests)
{
    demote_with_requests_in_flight(true);
}

ENGINE_TEST(a_request_to_a_demoted_file_is_the_kernels)
{
    int fd = lane_open(DISK);
    job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, 0);
    job_prepare(&jobs[1], ASYNC_WRITE, fd, BLOCK, 0);
    job_prepare(&jobs[2], ASYNC_SYNC, fd, 0, 0);
    CHECK_EQUAL(engine_demote(fd), 0);
    submit(0, 3);
    for (unsigned i = 0; i < 3; i++) {
        wait_for_job(&jobs[i]);
        CHECK_EQUAL(jobs[i].result, i < 2 ? FILE_KERNEL : 0); /* what it syncs is both worlds' */
    }
}

static void stale_with_requests_in_flight(bool attended)
{
    char path[SCENE_PATH];
    int fd = lane_open(DISK);
    scene_file_path(path, "f");
    if (attended) {
        sys_critical_enter();
        async_lane_attend(lane);
        sys_critical_leave();
    }
    CHECK_EQUAL(unlink(path), 0);
    for (unsigned i = 0; i < 16; i++) {
        job_prepare(&jobs[i], ASYNC_READ, fd, BLOCK, i * BLOCK);
        job_write(&jobs[16 + i], fd, BLOCK, (100 + i) * BLOCK, 1);
    }
    submit(0, 32);
    wait_for_jobs(0, 32);
    for (unsigned i = 0; i < 32; i++)
        CHECK_EQUAL(jobs[i].result, FILE_KERNEL);
    CHECK(!file_is_managed(fd));
}

ENGINE_TEST(requests_to_a_removed_file_are_the_kernels)
{
    stale_with_requests_in_flight(false);
}

ENGINE_TEST(attended_requests_to_a_removed_file_are_the_kernels)
{
    stale_with_requests_in_flight(true);
}

static void overlap_in_a_removed_file(unsigned together)
{
    char path[SCENE_PATH];
    int fd = lane_open(DISK);
    scene_file_path(path, "f");
    CHECK_EQUAL(unlink(path), 0);
    for (unsigned i = 0; i < 4; i++)
        job_write(&jobs[i], fd, BLOCK, i * BLOCK / 2, 1 + i);
    for (unsigned i = 0; i < 4; i += together)
        submit(i, together);
    wait_for_jobs(0, 4);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(jobs[i].result, FILE_KERNEL);
}

ENGINE_TEST(writes_that_overlap_in_a_removed_file)
{
    overlap_in_a_removed_file(4);
}

ENGINE_TEST(writes_submitted_one_by_one_that_overlap_in_a_removed_file)
{
    overlap_in_a_removed_file(1);
}

/* Writes in flight to another file, until not one more can be noted. */
static void fill_the_ledger(void)
{
    struct ledger_file other;
    struct ledger_file_key key = {.device = 1, .inode = 1, .handle_length = 1};
    struct ledger_write write;
    CHECK(ledger_file_attach(&other, &key, &(struct timespec){0}, &(uint64_t){0}));
    struct ledger_beginning beginning = {.length = 1, .write = &write};
    for (; ledger_write_start(&other, &beginning, false) == 0; beginning.offset += 1 << 16)
        ;
}

ENGINE_TEST(writes_that_cannot_be_noted_are_the_kernels)
{
    int fd = lane_open(DISK);
    fill_the_ledger();
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    job_write(&jobs[1], fd, BLOCK, BLOCK, 1);
    submit(0, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(jobs[i].done, 1);
        CHECK_EQUAL(jobs[i].result, FILE_KERNEL);
    }
    CHECK(!file_is_managed(fd));
    CHECK(strcmp(engine_reason("f"), "no room in shared memory") == 0);
    disk_make("g", 0, 0);
    fd = engine_adopt("g", O_RDWR);
    engine_put(fd, 3 << 20, 0, 1);
    CHECK(!file_is_managed(fd));
    disk_expect("g", 3 << 20, 0, 1);
}

ENGINE_TEST(writes_of_a_file_that_was_moved_to_the_kernels_world_are_the_kernels)
{
    int fd = lane_open(DISK);
    struct file_open *open = file_get(fd);
    ledger_world_leave(&open->inode->entry, true);
    file_put(open);
    for (unsigned i = 0; i < 3; i++)
        job_write(&jobs[i], fd, BLOCK, i * BLOCK, 1);
    submit(0, 3);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQUAL(jobs[i].done, 1);
        CHECK_EQUAL(jobs[i].result, FILE_KERNEL);
    }
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
