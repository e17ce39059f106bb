/*
 * A change of size whose process is killed before it has the answer: the file is as it was, or cut,
 * and never some of both.
 */
#include <pthread.h>

#include "durability_scene.h"
#include "fd/truncate.h"
#include "ledger/dirty.h"

enum { OLD = 65536, NEW = 20000 };

#define BEHIND  "write_behind_max = 16777216; failover_hold = 0.1;"
#define AT_ONCE "failover_hold = 0.1;"

/* Some of the file is at the server for good, and some is not. */
static int written_in_two(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, OLD, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    engine_put(fd, OLD, OLD, 1);
    return fd;
}

static void cuts(void)
{
    int fd = written_in_two();
    step_done(0);
    engine_truncate(fd, NEW);
}

static void comes_after(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* Its process is killed with the SETATTR on its way, and another one comes. */
static void killed(const char *tunables, bool executed, bool restarts)
{
    scene_configure(tunables);
    disk_make("f", 0, 0);
    server_hold(NFS_PROC_SETATTR);
    pid_t cutter = scene_start(cuts);
    step_wait(0);
    server_wait_held(1);
    scene_kill(cutter);
    if (executed)
        server_release();
    else
        server_do(FILE_SERVER_DROP_HELD);
    atomic_store(&scene.control->hold, 0);
    if (restarts)
        server_do(FILE_SERVER_LOSE_POWER);
    scene_run(comes_after);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(disk_size("f"), executed ? NEW : 2 * OLD);
    disk_expect("f", executed ? NEW : 2 * OLD, 0, 1);
}

SCENE_TEST(what_was_not_sent_does_not_come_back_behind_a_cut)
{
    killed(BEHIND, true, false);
}

SCENE_TEST(what_was_not_sent_is_there_if_nothing_was_cut)
{
    killed(BEHIND, false, false);
}

SCENE_TEST(what_was_not_committed_does_not_come_back_behind_a_cut)
{
    killed(AT_ONCE, true, true);
}

SCENE_TEST(what_was_not_committed_is_there_if_nothing_was_cut)
{
    killed(AT_ONCE, false, true);
}

/* ---- by the kernel ---- */

static void writes_behind_and_is_killed(void)
{
    written_in_two();
    raise(SIGKILL);
}

/* As open(O_TRUNC), or truncate(2), of a process that does not live to tell of it. */
static void kernel_cuts(void)
{
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    sys_critical_enter();
    fd_truncating(AT_FDCWD, path);
    sys_critical_leave();
    CHECK_EQUAL(truncate(path, NEW), 0);
    raise(SIGKILL);
}

SCENE_TEST(what_was_not_sent_does_not_come_back_behind_a_cut_by_the_kernel)
{
    scene_configure(BEHIND);
    disk_make("f", 0, 0);
    CHECK_EQUAL(waitpid(scene_start(writes_behind_and_is_killed), NULL, 0) > 0, 1);
    CHECK_EQUAL(waitpid(scene_start(kernel_cuts), NULL, 0) > 0, 1);
    scene_run(comes_after);
    CHECK_EQUAL(disk_size("f"), NEW);
    disk_expect("f", NEW, 0, 1);
}

/* ---- what it costs ---- */

static unsigned commits(void)
{
    return server_calls(NFS_PROC_COMMIT);
}

ENGINE_TEST(a_change_of_size_that_takes_nothing_away_asks_for_no_commit)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, OLD, 0, 1);
    CHECK_EQUAL(engine_truncate(fd, OLD), 0);
    CHECK_EQUAL(engine_truncate(fd, 2 * OLD), 0);
    CHECK_EQUAL(commits(), 0);
    CHECK_EQUAL(engine_truncate(fd, NEW), 0);
    CHECK_EQUAL(commits(), 1);
    CHECK_EQUAL(engine_truncate(fd, 0), 0);
    CHECK_EQUAL(commits(), 1);
}

/* A program may cut a file to make room. */
ENGINE_TEST(what_the_server_refuses_can_be_cut)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, OLD, 0, 1);
    server_fail(NFS_PROC_COMMIT, 1000, NFS3ERR_IO);
    server_fail(NFS_PROC_WRITE, 1000, NFS3ERR_NOSPC);
    CHECK_EQUAL(engine_truncate(fd, 0), 0);
    server_fail(NFS_PROC_COMMIT, 0, 0);
    server_fail(NFS_PROC_WRITE, 0, 0);
    CHECK_EQUAL(engine_size(fd), 0);
    CHECK_EQUAL(disk_size("f"), 0);
}

/* The kernel has cut the file, and the engine is told. */
static void *tells_of_a_cut(void *fd)
{
    sys_critical_enter();
    fd_truncated_by_kernel(*(int *)fd, 0);
    sys_critical_leave();
    return NULL;
}

static int opens_past_the_engine(void)
{
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* As lost data was written again in between. */
ENGINE_TEST(what_came_back_behind_a_cut_by_the_kernel_is_cut_again)
{
    disk_make("f", 1000, 1);
    int fd = engine_adopt("f", O_RDWR), by_kernel = opens_past_the_engine();
    tells_of_a_cut(&by_kernel);
    CHECK_EQUAL(disk_size("f"), 0);
    CHECK_EQUAL(engine_size(fd), 0);
}

static void *writes_1000(void *fd)
{
    engine_put(*(int *)fd, 1000, 0, 1);
    return NULL;
}

ENGINE_TEST(what_was_in_flight_during_a_cut_by_the_kernel_is_cut_off)
{
    pthread_t writer, teller;
    disk_make("f", 1000, 0);
    int fd = engine_adopt("f", O_RDWR), by_kernel = opens_past_the_engine();
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(pthread_create(&writer, NULL, writes_1000, &fd), 0);
    server_wait_held(1);
    CHECK_EQUAL(ftruncate(by_kernel, 0), 0);
    CHECK_EQUAL(pthread_create(&teller, NULL, tells_of_a_cut, &by_kernel), 0);
    server_release();
    pthread_join(writer, NULL);
    pthread_join(teller, NULL);
    CHECK_EQUAL(disk_size("f"), 0);
    CHECK_EQUAL(engine_size(fd), 0);
}

static void *cuts_by_name(void *path)
{
    sys_critical_enter();
    CHECK_EQUAL(fd_truncate_path(path, 0), 0);
    sys_critical_leave();
    return NULL;
}

/* By the kernel, which cuts the one that has the name then. */
ENGINE_TEST(a_file_that_loses_its_name_to_another_one_meanwhile_is_not_cut)
{
    char f[SCENE_PATH], g[SCENE_PATH], h[SCENE_PATH];
    pthread_t thread;
    scene_file_path(f, "f");
    scene_file_path(g, "g");
    scene_file_path(h, "h");
    disk_make("f", 0, 0);
    disk_make("g", 100, 2);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 1000, 0, 1);
    server_hold(NFS_PROC_COMMIT);
    CHECK_EQUAL(pthread_create(&thread, NULL, cuts_by_name, f), 0);
    server_wait_held(1);
    CHECK_EQUAL(rename(f, h), 0);
    CHECK_EQUAL(rename(g, f), 0);
    server_release();
    pthread_join(thread, NULL);
    CHECK_EQUAL(disk_size("f"), 0);
    CHECK_EQUAL(engine_size(fd), 1000);
    engine_expect(fd, 1000, 0, 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
