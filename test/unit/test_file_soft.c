/* A soft mount: calls that the server does not answer fail, and nothing else does. */
#include "async_scene.h"
#include "file/table.h"

/* The tunables are read when the process starts. */
#define SOFT_TEST(name)                                            \
    static void name##_engine(void);                               \
    SCENE_TEST(name)                                               \
    {                                                              \
        scene_configure("soft_timeout = 1; failover_hold = 0.2;"); \
        scene_run(name##_engine);                                  \
    }                                                              \
    static void name##_engine(void)

/* What the server answers, but perhaps not in a second: not on a machine that stands still. */
#define CHECK_ANSWERED(call, expected)                          \
    do {                                                        \
        ssize_t result_ = (call);                               \
        for (int i_ = 0; result_ == -ETIMEDOUT && i_ < 5; i_++) \
            result_ = (call);                                   \
        CHECK_EQUAL(result_, expected);                         \
    } while (0)

SOFT_TEST(a_read_fails_and_the_next_does_not)
{
    char byte;
    int fd = lane_open(DISK);
    server_do(FILE_SERVER_STOP);
    CHECK_EQUAL(engine_read(fd, &byte, 1, 0), -ETIMEDOUT);
    server_do(FILE_SERVER_START);
    CHECK_ANSWERED(engine_read(fd, &byte, 1, 0), 1);
}

/* Nor does it wait for ever for a server that asks to come back later. */
SOFT_TEST(who_is_put_off_for_too_long_fails)
{
    char data[BLOCK];
    int fd = lane_open(DISK);
    server_fail(NFS_PROC_READ, 1000000, NFS3ERR_JUKEBOX);
    CHECK_EQUAL(engine_read(fd, data, 1, 0), -ETIMEDOUT);
    server_fail(NFS_PROC_READ, 0, NFS3ERR_JUKEBOX);
    server_fail(NFS_PROC_COMMIT, 1000000, NFS3ERR_JUKEBOX);
    engine_put(fd, BLOCK, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), -ETIMEDOUT);
    server_fail(NFS_PROC_COMMIT, 0, NFS3ERR_JUKEBOX);
    CHECK_ANSWERED(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 1);
}

SOFT_TEST(a_write_fails_and_is_not_promised)
{
    int fd = lane_open(DISK);
    engine_put(fd, BLOCK, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_hold(NFS_PROC_WRITE);
    char data[BLOCK];
    data_fill((uint8_t *)data, BLOCK, 0, 2);
    CHECK_EQUAL(engine_write(fd, data, BLOCK, 0), -ETIMEDOUT);
    server_release();
    engine_put(fd, BLOCK, 0, 3); /* over bytes that the late one may have changed */
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 3);
}

static void *release_later(void *unused)
{
    usleep(1500000);
    server_release();
    return unused;
}

static void late_truncation(void)
{
    pthread_t late;
    int fd = lane_open(DISK);
    server_hold(NFS_PROC_SETATTR);
    CHECK_EQUAL(pthread_create(&late, NULL, release_later, NULL), 0);
    CHECK_EQUAL(engine_truncate(fd, 0), -ETIMEDOUT);
    engine_put(fd, BLOCK, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(pthread_join(late, NULL), 0);
    disk_expect("f", BLOCK, 0, 2);
}

/* The server cuts the file after the call was given up, however late on a slow machine: not what
 * was written since. */
SCENE_TEST(a_late_truncation_cuts_nothing_newer)
{
    scene_configure("soft_timeout = 1; failover_hold = 5;");
    scene_run(late_truncation);
}

SOFT_TEST(a_fsync_fails_until_the_server_is_back)
{
    int fd = lane_open(DISK);
    engine_put(fd, BLOCK, 0, 1);
    server_do(FILE_SERVER_STOP);
    CHECK_EQUAL(engine_fsync(fd), -ETIMEDOUT);
    server_do(FILE_SERVER_START);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_ANSWERED(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 1);
}

/* The server may still carry out a WRITE on the first byte that was given up: nobody writes there
 * for now. */
static void check_held(int fd)
{
    struct ledger_write write;
    struct ledger_beginning beginning = {.length = 1, .write = &write};
    struct file_open *open = file_get(fd);
    CHECK_EQUAL(ledger_writes_try(&open->inode->entry, &beginning, 1), 0);
    file_put(open);
}

static void write_given_up(void)
{
    char data[BLOCK] = "";
    int fd = lane_open(DISK);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(engine_write(fd, data, BLOCK, 0), -ETIMEDOUT);
    check_held(fd);
    server_release();
}

static void rewrite_given_up(void)
{
    int fd = lane_open(DISK);
    engine_put(fd, BLOCK, 0, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    check_held(fd);
    server_release();
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 1);
}

static void hold_long(void (*test)(void))
{
    scene_configure("soft_timeout = 1; failover_hold = 300;");
    scene_run(test);
}

SCENE_TEST(a_write_that_was_given_up_holds_its_range)
{
    hold_long(write_given_up);
}

SCENE_TEST(what_is_written_again_and_given_up_holds_its_range)
{
    hold_long(rewrite_given_up);
}

static void requests_fail(void (*begin)(void))
{
    int fd = lane_open(DISK);
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    begin();
    job_write(&jobs[0], fd, BLOCK, BLOCK, 2);
    job_prepare(&jobs[1], ASYNC_READ, fd, BLOCK, 0);
    submit(0, 2);
    wait_for_jobs(0, 2);
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(jobs[i].result, -ETIMEDOUT);
}

static void be_gone(void)
{
    server_do(FILE_SERVER_STOP);
}

static void fall_silent(void)
{
    server_hold(NFS_PROC_READ);
    server_hold(NFS_PROC_WRITE);
}

SOFT_TEST(requests_fail_when_the_server_is_gone)
{
    requests_fail(be_gone);
}

SOFT_TEST(requests_fail_when_the_server_is_silent)
{
    requests_fail(fall_silent);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
