/* Processes and threads in another network namespace than the connections were made in. */
#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>

#include "async_scene.h"
#include "fd/adopt.h"
#include "fd/life.h"
#include "fd/user.h"
#include "ahead/fetched.h"
#include "io/io.h"
#include "fd/world.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "net/pool.h"
#include "rounds.h"

enum { BYTES = 8192 };

#define ABROAD_TEST(name, tunables)              \
    static void name##_engine(void);             \
    SCENE_TEST(name)                             \
    {                                            \
        if (geteuid() != 0)                      \
            return; /* only root may go there */ \
        scene_configure(tunables);               \
        disk_make("f", BYTES, 1);                \
        scene_run(name##_engine);                \
    }                                            \
    static void name##_engine(void)

#define NOW    "write_behind_max = 0; failover_hold = 0.1;"
#define BEHIND "write_behind_max = 16777216; failover_hold = 0.1;"

/* Whoever can send something does so in time, unless a test says that nobody does. */
static void go_abroad(void)
{
    fd_world_abroad_ms = 60000;
    CHECK_EQUAL(unshare(CLONE_NEWNET), 0);
}

static pid_t start_child(void (*body)(int fd), int fd)
{
    pid_t pid = engine_fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    body(fd);
    sys_critical_enter();
    fd_finish();
    _exit(0);
}

static void run_child(void (*body)(int fd), int fd)
{
    scene_wait(start_child(body, fd));
}

/* The parent uses the file meanwhile: so it commits what it has sent, as a real agent would. */
static void run_child_beside(void (*body)(int fd), int fd)
{
    siginfo_t ended = {.si_pid = 0};
    pid_t pid = start_child(body, fd);
    while (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) {
        engine_size(fd);
        sys_nanosleep_ms(10);
    }
    scene_wait(pid);
}

/* ---- a child ---- */

static void reads_and_writes(int fd)
{
    engine_expect(fd, BYTES, 0, 1);
    engine_put(fd, BYTES, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(!file_is_managed(fd));
}

ABROAD_TEST(a_child_goes_on_by_the_kernel, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_expect(fd, BYTES, 0, 1);
    go_abroad();
    run_child(reads_and_writes, fd);
    engine_expect(fd, BYTES, 0, 2);
    disk_expect("f", BYTES, 0, 2);
}

static void goes_and_writes(int fd)
{
    go_abroad();
    reads_and_writes(fd);
}

ABROAD_TEST(a_child_that_goes_itself_goes_on_by_the_kernel, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    run_child(goes_and_writes, fd);
    disk_expect("f", BYTES, 0, 2);
}

static void opens(int unused)
{
    (void)unused;
    int fd = engine_open("f", O_RDWR);
    CHECK(!file_is_managed(fd));
    engine_expect(fd, BYTES, 0, 2);
    engine_put(fd, BYTES, 0, 3);
}

ABROAD_TEST(a_child_opens_by_the_kernel_what_its_parent_has_not_sent, BEHIND)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    go_abroad();
    run_child_beside(opens, fd);
    engine_expect(fd, BYTES, 0, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BYTES, 0, 3);
}

static void writes_over(int fd)
{
    engine_put(fd, BYTES, 0, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

ABROAD_TEST(what_a_child_writes_comes_after_what_its_parent_has_not_sent, BEHIND)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    go_abroad();
    run_child_beside(writes_over, fd);
    CHECK_EQUAL(engine_fsync(fd), 0);
    engine_expect(fd, BYTES, 0, 3);
    disk_expect("f", BYTES, 0, 3);
}

/* Not where the parent may have a WRITE under way: that is waited for like any other. */
static void fails(int fd)
{
    char byte = 0, path[SCENE_PATH];
    fd_world_abroad_ms = 100;
    CHECK_EQUAL(engine_write(fd, &byte, 1, BYTES), -EIO);
    CHECK_EQUAL(engine_write(fd, &byte, 1, BYTES), -EIO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_close(fd), -EIO);
    scene_file_path(path, "f");
    fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    sys_critical_enter();
    CHECK_EQUAL(fd_opened(fd, O_WRONLY), -EIO);
    sys_critical_leave();
}

static void closes(int fd)
{
    CHECK_EQUAL(engine_close(fd), 0);
}

ABROAD_TEST(a_child_fails_while_its_parent_cannot_send, BEHIND)
{
    int fd = engine_adopt("f", O_RDWR);
    server_hold(NFS_PROC_WRITE);
    engine_put(fd, BYTES, 0, 2);
    go_abroad();
    run_child(closes, fd);
    run_child(fails, fd);
    server_release();
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BYTES, 0, 2);
}

/* ---- the process itself, and one of its threads ---- */

ABROAD_TEST(connections_go_on, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    go_abroad();
    engine_put(fd, BYTES, 0, 2);
    engine_expect(fd, BYTES, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(file_is_managed(fd));
    server_do(FILE_SERVER_RESET);
    engine_put(fd, BYTES, 0, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(!file_is_managed(fd));
    disk_expect("f", BYTES, 0, 3);
}

static void *uses_it_abroad(void *fd)
{
    go_abroad();
    CHECK_EQUAL(engine_open("f", O_RDONLY) >= 0, 1);
    engine_expect(*(int *)fd, BYTES, 0, 1);
    return NULL;
}

ABROAD_TEST(one_thread_leaves_the_others_their_connections, NOW)
{
    pthread_t thread;
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(pthread_create(&thread, NULL, uses_it_abroad, &fd), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    engine_put(fd, BYTES, 0, 2);
    CHECK(file_is_managed(fd));
    server_do(FILE_SERVER_RESET);
    engine_expect(fd, BYTES, 0, 2);
    CHECK(file_is_managed(fd));
}

/* What the other thread found is nothing to this one, which has connections. */
ABROAD_TEST(a_thread_at_home_is_told_its_own_errors, NOW)
{
    char byte = 0;
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = engine_begin(fd);
    atomic_store(&open->inode->mount->server->net->abroad, true);
    engine_end(open);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -ENOSPC);
    CHECK(file_is_managed(fd));
}

static bool has_sender(void)
{
    return atomic_load(&mounts_at(0)->server->sender.started);
}

static void *opens_abroad(void *unused)
{
    go_abroad();
    engine_adopt("f", O_RDWR);
    CHECK(!has_sender());
    return unused;
}

ABROAD_TEST(no_thread_of_ours_begins_abroad, BEHIND)
{
    pthread_t thread;
    engine_adopt("f", O_RDONLY);
    CHECK_EQUAL(pthread_create(&thread, NULL, opens_abroad, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    engine_adopt("f", O_RDWR);
    CHECK(has_sender());
}

static void *opens_to_read_abroad(void *unused)
{
    go_abroad();
    engine_adopt("f", O_RDONLY);
    return unused;
}

ABROAD_TEST(another_thread_starts_the_one_that_reads_ahead, "read_ahead_max = 1048576;")
{
    pthread_t thread;
    engine_adopt("f", O_WRONLY); /* it is not for this */
    CHECK_EQUAL(pthread_create(&thread, NULL, opens_to_read_abroad, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    struct file_open *open = engine_begin(engine_adopt("f", O_RDONLY));
    pthread_mutex_lock(&open->ahead.lock);
    open->ahead.all = ahead_fetched_new(open);
    CHECK(open->ahead.all != NULL);
    pthread_mutex_unlock(&open->ahead.lock);
    engine_end(open);
}

static void *finds_it_abroad(void *unused)
{
    go_abroad();
    int fd = engine_open("f", O_RDONLY);
    CHECK(!file_is_managed(fd));
    CHECK(strcmp(engine_reason("f"), reach_reason(REACH_ABROAD)) == 0);
    return unused;
}

/* Where the process began is its home, not where a server was first used; and what one thread
 * cannot do is not put off for the others. */
ABROAD_TEST(a_mount_is_not_contacted_from_abroad, NOW)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, finds_it_abroad, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    engine_adopt("f", O_RDWR);
}

/* Another thread has connected since the call failed. */
ABROAD_TEST(a_call_that_failed_abroad_is_left_to_the_kernel, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = engine_begin(fd);
    CHECK(file_inode_enter(open->inode));
    CHECK_EQUAL(file_finish_call(open, -ENONET), FILE_KERNEL);
    CHECK(!file_is_managed(fd));
    engine_end(open);
}

/* The server has carried it out, and its answer is lost. */
ABROAD_TEST(an_append_that_was_sent_is_not_made_once_more_by_the_kernel, NOW)
{
    char byte = 0;
    int fd = engine_adopt("f", O_WRONLY | O_APPEND | O_DSYNC);
    go_abroad();
    atomic_store(&scene.control->drop_after[NFS_PROC_WRITE], 1);
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -EIO);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(disk_size("f"), BYTES + 1);
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), 1);
    CHECK_EQUAL(disk_size("f"), BYTES + 2);
}

/* ---- what only others can do ---- */

static void is_told_it_cannot(int fd)
{
    char byte = 0;
    go_abroad();
    fd_world_abroad_ms = 100;
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -EIO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
}

/* It would be written again over what the child writes, if the server lost it. */
ABROAD_TEST(what_is_not_committed_keeps_a_child_from_the_kernel, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    run_child(is_told_it_cannot, fd);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BYTES, 0, 2);
}

static void is_given_it(int unused)
{
    char path[SCENE_PATH];
    uint8_t data[BYTES];
    (void)unused;
    go_abroad();
    fd_world_abroad_ms = 100;
    scene_file_path(path, "f");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    sys_critical_enter();
    fd_received(fd, O_WRONLY, NULL);
    sys_critical_leave();
    CHECK(!file_is_managed(fd));
    data_fill(data, BYTES, BYTES, 3);
    CHECK_EQUAL(pwrite(fd, data, BYTES, BYTES), BYTES);
}

/* It cannot be refused: what its writes would be undone by is lost, and that is said. */
ABROAD_TEST(what_a_descriptor_that_came_writes_is_not_written_over, BEHIND)
{
    int fd = engine_adopt("f", O_RDWR);
    server_hold(NFS_PROC_WRITE);
    engine_put(fd, BYTES, 0, 2);
    server_wait_held(1);
    engine_put(fd, BYTES, BYTES, 2); /* while the sender waits for an answer */
    run_child(is_given_it, fd);
    server_release();
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    disk_expect("f", BYTES, BYTES, 3);
}

static void finds_a_loss(int fd)
{
    struct file_open *open = engine_begin(fd);
    atomic_store(&open->inode->loss_due, true);
    engine_end(open);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(engine_kernel_fsync(fd), 0);
}

ABROAD_TEST(a_loss_is_told_by_the_fsync_that_hands_the_file_over, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    go_abroad();
    run_child(finds_a_loss, fd);
}

static void stays_known(int fd)
{
    char byte = 0;
    fd_world_abroad_ms = 100;
    struct file_open *open = engine_begin(fd);
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -EIO);
    CHECK(!open->inode->forgotten);
    engine_end(open);
}

ABROAD_TEST(a_file_without_a_name_that_stays_is_not_forgotten, NOW)
{
    char path[SCENE_PATH];
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    scene_file_path(path, "f");
    CHECK_EQUAL(unlink(path), 0);
    go_abroad();
    run_child(stays_known, fd);
}

static void leaves_all_to_the_kernel(int fd)
{
    go_abroad();
    fd_world_abroad_ms = 100;
    sys_critical_enter();
    fd_leave_to_kernel("test");
    sys_critical_leave();
    CHECK(!file_is_managed(fd));
}

/* Its writes pass us by: nothing can keep them from the file. */
ABROAD_TEST(who_leaves_all_files_to_the_kernel_leaves_this_one_too, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    run_child(leaves_all_to_the_kernel, fd);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK(!file_is_managed(fd));
}

/* ---- several threads ---- */

static void *tries_to_write(void *fd)
{
    uint8_t byte = 0;
    for (int i = 0; i < (int)rounds_of(200); i++)
        CHECK_EQUAL(engine_write(*(int *)fd, &byte, 1, 0), -EIO);
    return NULL;
}

static void many_try(int fd)
{
    pthread_t threads[4];
    fd_world_abroad_ms = 0;
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, tries_to_write, &fd), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

/* One finds that the file cannot go there while another begins to move it. */
ABROAD_TEST(none_of_many_threads_comes_to_the_kernel_too_early, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    go_abroad();
    run_child(many_try, fd);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BYTES, 0, 2);
}

static bool traced_byte(pid_t pid, const void *address)
{
    long word = ptrace(PTRACE_PEEKDATA, pid, address, 0);
    return *(const uint8_t *)&word;
}

/* Tries it, the second time instruction by instruction. */
static void tries_in_steps(int fd)
{
    char byte = 0;
    go_abroad();
    fd_world_abroad_ms = 0;
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -EIO);
    CHECK_EQUAL(ptrace(PTRACE_TRACEME, 0, 0, 0), 0);
    raise(SIGSTOP);
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -EIO);
}

/* Who begins a demotion when one was undone has it to himself: the end of that one is in one. */
ABROAD_TEST(a_demotion_is_undone_in_one, NOW)
{
    int fd = engine_adopt("f", O_RDWR), status;
    bool demoting = false, before;
#ifndef __x86_64__
    return;
#endif
    if (getenv("DIRECTNFS_TEST_SHORT"))
        return; /* every instruction is slow */
    engine_put(fd, BYTES, 0, 2);
    struct file_open *open = engine_begin(fd);
    const struct file_inode *inode = open->inode;
    pid_t pid = engine_fork();
    if (pid == 0) {
        tries_in_steps(fd);
        _exit(0);
    }
    unsigned undone = 0;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        before = demoting;
        demoting = traced_byte(pid, &inode->demoting);
        undone += before && !demoting;
        if (!traced_byte(pid, &file_lock.__data.__lock))
            CHECK(!demoting || traced_byte(pid, &inode->demoted));
        CHECK_EQUAL(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
    }
    CHECK_EQUAL(status, 0);
    CHECK(undone > 0);
    engine_end(open);
}

/* ---- asynchronous requests ---- */

ABROAD_TEST(a_request_in_flight_is_left_to_the_kernel_too, NOW)
{
    int fd = lane_open(DISK);
    server_hold(NFS_PROC_READ);
    job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, 0);
    submit(0, 1);
    server_wait_held(1);
    go_abroad();
    server_do(FILE_SERVER_RESET);
    server_release();
    CHECK_EQUAL(engine_write(fd, jobs[0].data, 1, BLOCK), 1);
    CHECK(!file_is_managed(fd));
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, FILE_KERNEL);
}

/* It would be written over by what is not committed. */
ABROAD_TEST(a_request_with_a_stale_handle_is_not_left_to_the_kernel_too_early, NOW)
{
    int fd = lane_open(DISK);
    engine_put(fd, BLOCK, 0, 2);
    go_abroad();
    fd_world_abroad_ms = 100;
    atomic_fetch_add(&scene.control->handles, 1);
    job_write(&jobs[0], fd, BLOCK, BLOCK, 3);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, -EIO);
    CHECK(file_is_managed(fd));
}

/* What is in its way cannot be sent: the file was removed at the server. */
ABROAD_TEST(a_request_that_cannot_be_announced_is_left_to_the_kernel, BEHIND)
{
    char path[SCENE_PATH];
    int fd = lane_open(DISK);
    engine_put(fd, BLOCK, 0, 2);
    scene_file_path(path, "f");
    CHECK_EQUAL(unlink(path), 0);
    atomic_fetch_add(&scene.control->handles, 1);
    job_write(&jobs[0], fd, BLOCK, 0, 3);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, FILE_KERNEL);
    CHECK(!file_is_managed(fd));
}

int main(void)
{
    return unit_run(NULL, NULL);
}
