/* Asynchronous requests where no thread can be started: nobody hangs, though nobody attends. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "async_scene.h"
#include "file/table.h"
#include "rounds.h"
#include "durable/sync.h"

/* From now on the kernel says what it says where there are too many tasks. */
static void start_no_threads(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQUAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void attend(void)
{
    sys_critical_enter();
    async_lane_attend(lane);
    sys_critical_leave();
}

static void *releases_later(void *unused)
{
    usleep(100000);
    server_release();
    return unused;
}

/* A write of the first block, which nobody waits for. The server carries it out a little later. */
static int write_without_waiting(void)
{
    pthread_t thread;
    int fd = lane_open(DISK);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(pthread_create(&thread, NULL, releases_later, NULL), 0);
    CHECK_EQUAL(pthread_detach(thread), 0);
    start_no_threads();
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    submit(0, 1);
    return fd;
}

static void expect_done(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        CHECK(job_is_done(&jobs[i]));
        CHECK_EQUAL(jobs[i].result, BLOCK);
    }
}

ENGINE_TEST(what_is_submitted_to_a_lane_that_is_to_be_attended_is_over_at_once)
{
    int fd = lane_open(DISK);
    start_no_threads();
    attend();
    for (unsigned version = 1; version < 4; version++) {
        job_write(&jobs[0], fd, BLOCK, 0, version);
        job_prepare(&jobs[1], ASYNC_READ, fd, BLOCK, BLOCK);
        submit(0, 2);
        expect_done(2);
        wait_for_jobs(0, 2);
    }
    CHECK_EQUAL(scene_logged("no thread for asynchronous I/O could be started"), 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 3);
}

ENGINE_TEST(what_is_in_flight_when_attendants_are_asked_for_is_over_then)
{
    write_without_waiting();
    attend();
    expect_done(1);
}

/* It needs several READs, though it was submitted as one. */
ENGINE_TEST(what_needs_more_than_one_reply_is_over_too)
{
    int fd = lane_open(DISK);
    start_no_threads();
    attend();
    atomic_store(&scene.control->short_read, 1000);
    job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, BLOCK);
    submit(0, 1);
    expect_done(1);
    CHECK(data_is(jobs[0].data, BLOCK, BLOCK, 0));
}

static void submit_while_a_signal_waits(struct job *job)
{
    struct async_request *request = &job->request;
    sys_critical_enter();
    sys_critical.deferred = 1;
    async_submit(lane, &request, 1);
    CHECK_EQUAL(sys_critical.deferred, 1);
    sys_critical.deferred = 0;
    sys_critical_leave();
}

/* A handler of a signal has to wait for the end of the call, and the call for the end of these. */
ENGINE_TEST(a_signal_that_waits_does_not_keep_it_from_being_over)
{
    int fd = lane_open(DISK);
    start_no_threads();
    attend();
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    submit_while_a_signal_waits(&jobs[0]);
    expect_done(1);
}

/* Nobody else would receive the answer to the first. */
ENGINE_TEST(a_signal_that_waits_does_not_keep_a_write_from_going_over_another)
{
    int fd = lane_open(DISK);
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    job_write(&jobs[1], fd, BLOCK, 0, 2);
    submit(0, 1);
    submit_while_a_signal_waits(&jobs[1]);
    wait_for_jobs(0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 2);
}

/* It brings the request to its end itself, and is in a call of the file as it does. */
ENGINE_TEST(a_write_behind_an_own_request_in_a_removed_file)
{
    uint8_t data[BLOCK] = {0};
    char path[SCENE_PATH];
    int fd = lane_open(DISK);
    scene_file_path(path, "f");
    CHECK_EQUAL(unlink(path), 0);
    start_no_threads();
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    submit(0, 1);
    CHECK_EQUAL(engine_write(fd, data, BLOCK, BLOCK / 2), BLOCK);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, FILE_KERNEL);
    CHECK(!file_is_managed(fd));
}

static volatile sig_atomic_t came;

static void on_tick(int number)
{
    (void)number;
    came = came + 1;
    sys_critical.deferred = 1;
}

static void tick_every(long microseconds)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval interval = {{0, microseconds}, {0, microseconds}};
    CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQUAL(setitimer(ITIMER_REAL, &interval, NULL), 0);
}

/* Else it would be blocked in this thread for ever. Which moment it chooses is left to chance. */
ENGINE_TEST(a_signal_that_comes_while_a_thread_waits_on_is_not_forgotten)
{
    enum { EVERY_US = 50 };
    int forgotten = 0, ticks = (int)rounds_of(5000);
    tick_every(EVERY_US);
    while (came < ticks) {
        int before = came;
        async_attend_all();
        forgotten += came != before && !sys_critical.deferred;
        sys_critical.deferred = 0;
    }
    tick_every(0);
    CHECK_EQUAL(forgotten, 0);
}

ENGINE_TEST(a_change_of_size_waits_for_a_write_that_nobody_waits_for)
{
    int fd = write_without_waiting();
    CHECK_EQUAL(engine_truncate(fd, 0), 0);
    expect_done(1);
    CHECK_EQUAL(disk_size("f"), 0);
}

ENGINE_TEST(a_write_over_one_that_nobody_waits_for)
{
    int fd = write_without_waiting();
    engine_put(fd, BLOCK, 0, 2);
    expect_done(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 2);
}

ENGINE_TEST(a_hand_over_waits_for_a_write_that_nobody_waits_for)
{
    int fd = write_without_waiting();
    CHECK_EQUAL(engine_demote(fd), 0);
    expect_done(1);
    disk_expect("f", BLOCK, 0, 1);
}

ENGINE_TEST(exec_and_exit_wait_for_what_nobody_waits_for)
{
    int fd = write_without_waiting();
    atomic_store(&scene.control->short_read, 1000);
    job_prepare(&jobs[1], ASYNC_READ, fd, BLOCK, BLOCK);
    submit(1, 1);
    sys_critical_enter();
    CHECK_EQUAL(durable_commit_all(), 0);
    sys_critical_leave();
    expect_done(2);
    disk_expect("f", BLOCK, 0, 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
