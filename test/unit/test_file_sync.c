/* fsync by requests, sync() and syncfs(): what they promise beyond a plain fsync(). */
#include "async_scene.h"
#include "durability_scene.h"
#include "durable/sync.h"

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
    CHECK((lane = async_lane_new()) != NULL);
    lose_all();
    job_prepare(&jobs[0], ASYNC_SYNC, fd, 0, 0);
    submit(0, 1);
    CHECK_EQUAL(atomic_load(&jobs[0].done), 1);
    CHECK_EQUAL(jobs[0].result, -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0); /* once */
}

/* Submitted together, the write first. */
ENGINE_TEST(a_request_to_sync_vouches_for_the_writes_before_it)
{
    int fd = lane_open(DISK);
    job_write(&jobs[0], fd, BLOCK, 0, 2);
    job_prepare(&jobs[1], ASYNC_SYNC, fd, 0, 0);
    submit(0, 2);
    wait_for_jobs(0, 2);
    CHECK_EQUAL(jobs[0].result, BLOCK);
    CHECK_EQUAL(jobs[1].result, 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", BLOCK, 0, 2);
}

static int sync_all(void)
{
    sys_critical_enter();
    int result = durable_sync_all();
    sys_critical_leave();
    return result;
}

static void only_syncs(void)
{
    CHECK_EQUAL(sync_all(), 0);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 1);
}

SCENE_TEST(sync_of_a_process_that_opened_nothing)
{
    pid_t writer = start_writer();
    scene_run(only_syncs);
    expect_durable();
    scene_kill(writer);
}

static void fails_to_sync(void)
{
    server_do(FILE_SERVER_REFUSE);
    CHECK_EQUAL(sync_all(), -EIO);
}

SCENE_TEST(sync_of_a_mount_that_cannot_be_contacted)
{
    scene.nfstab = "server: scripted\npath: 127.0.0.1\nnfsport: %u mntport: %u mnt_timeout: 1\n"
                   "export: %s/export mount: %s/export\n";
    scene_environment();
    pid_t writer = start_writer();
    scene_run(fails_to_sync);
    scene_kill(writer);
}

static void has_nothing_to_sync(void)
{
    char path[SCENE_PATH];
    CHECK_EQUAL(sync_all(), 0);
    snprintf(path, sizeof(path), "%s/run", scene.top);
    CHECK(access(path, F_OK) != 0);
}

SCENE_TEST(sync_makes_no_registry)
{
    scene_run(has_nothing_to_sync);
}

enum { ROUNDS = 10, PIECE = 16384 };
static unsigned number;

static void writes_and_syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_wait(0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        engine_put(fd, PIECE, ((off_t)number * ROUNDS + i) * PIECE, 1);
        CHECK_EQUAL(engine_fsync(fd), 0);
    }
}

/* The longest that this process was without a processor, while `watching`. */
static _Atomic bool watching;
static uint64_t longest_gap_ns;

static void *watch_gaps(void *unused)
{
    uint64_t before = sys_now_ns(), now;
    for (longest_gap_ns = 0; atomic_load(&watching); before = now) {
        usleep(20000);
        now = sys_now_ns();
        if (now - before > longest_gap_ns)
            longest_gap_ns = now - before;
    }
    return unused;
}

/* How many WRITEs it took. */
static unsigned with_writers(unsigned count)
{
    pthread_t watcher;
    pid_t pids[64];
    unsigned before = atomic_load(&scene.control->writes[NFS_UNSTABLE]);
    disk_make("f", 0, 0);
    atomic_store(&scene.shared->steps[0], 0);
    for (number = 0; number < count; number++)
        pids[number] = scene_start(writes_and_syncs);
    atomic_store(&watching, true);
    CHECK_EQUAL(pthread_create(&watcher, NULL, watch_gaps, NULL), 0);
    step_done(0);
    for (unsigned i = 0; i < count; i++)
        scene_wait(pids[i]);
    atomic_store(&watching, false);
    pthread_join(watcher, NULL);
    unsigned writes = atomic_load(&scene.control->writes[NFS_UNSTABLE]) - before;
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_FILE_SYNC]), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", (size_t)count * ROUNDS * PIECE, 0, 1);
    return writes;
}

/* A disk that carries out one COMMIT after the other: what takes long must not count as failed.
 * What a process has not finished for a second does, if it gets no processor; such a round says
 * nothing. */
SCENE_TEST(many_processes_that_sync_one_file_write_nothing_twice)
{
    atomic_store(&scene.control->commit_delay_ms, 50);
    const unsigned writers = getenv("DIRECTNFS_TEST_SHORT") ? 8 : 24;
    unsigned tries = 0, starved = 0;
    while (with_writers(writers) != writers * ROUNDS) {
        CHECK(++tries - starved < 3);
        if (longest_gap_ns > UINT64_C(100000000) && ++starved == 12)
            skip(); /* a machine that has no time at all */
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
