/* No acknowledged byte is lost, whatever happens to the server or to a process of ours: the files
 * of several processes. */
#include "async_scene.h"
#include "durability_scene.h"
#include "durable/fsync.h"
#include "durable/sync.h"
#include "fd/descriptors.h"
#include "fd/truncate.h"
#include "file/attributes.h"
#include "file/inode.h"
#include "holds.h"
#include "ledger/store/hold.h"
#include "ledger/store/records.h"
#include "ledger/store/stripes.h"
#include "file/table.h"

static void syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
}

SCENE_TEST(fsync_vouches_for_writes_of_another_process)
{
    pid_t writer = start_writer();
    scene_run(syncs);
    scene_kill(writer);
}

/* As a program whose standard output the file is: it never opens it. */
static void syncs_what_it_never_opened(void)
{
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    sys_critical_enter();
    CHECK_EQUAL(durable_fsynced_by_kernel(fd), 0);
    sys_critical_leave();
    expect_durable();
}

SCENE_TEST(fsync_by_the_kernel_vouches_for_writes_of_another_process)
{
    pid_t writer = start_writer();
    scene_run(syncs_what_it_never_opened);
    scene_kill(writer);
}

static void opens_then_syncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(1);
    step_wait(2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_durable();
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
        expect_durable();
        _exit(0);
    }
    scene_wait(pid);
}

SCENE_TEST(fsync_in_a_forked_child)
{
    disk_make("f", 0, 0);
    scene_run(forked_child_syncs);
}

/* Another thread uses the file as a child is made, in which that thread does not exist. */
static void forked_while_a_file_is_used(void)
{
    struct stat status;
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(fstat(fd, &status), 0);
    struct file_inode *used = file_inode_only(status.st_dev, status.st_ino);
    CHECK(used);
    pid_t pid = engine_fork();
    if (pid == 0) {
        CHECK(file_inode_descriptor(used) == fd);
        sys_critical_enter();
        CHECK_EQUAL(fd_closing(fd), 0);
        CHECK(!file_inode_only(status.st_dev, status.st_ino));
        sys_critical_leave();
        _exit(0);
    }
    scene_wait(pid);
    file_inode_release(used);
    CHECK_EQUAL(engine_write(fd, "x", 1, 0), 1);
}

SCENE_TEST(a_forked_child_does_not_keep_what_a_thread_of_its_parent_used)
{
    disk_make("f", 0, 0);
    scene_run(forked_while_a_file_is_used);
}

static void only_opens_another_file(void)
{
    engine_adopt("g", O_RDONLY);
}

SCENE_TEST(the_next_process_commits_what_a_dead_one_left)
{
    disk_make("g", 10, 0);
    scene_kill(start_writer());
    server_do(FILE_SERVER_LOSE_POWER);
    scene_run(only_opens_another_file);
    expect_durable();
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
    scene_kill(start_writer());
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
    step_done(SCENE_STEPS - 1);
    scene_wait(writer);
}

/* A write of the whole of "f" may yet be executed, for so long. */
static void leave_unsettled(int fd, uint64_t hold_ns)
{
    struct file_open *open = file_get(fd);
    struct ledger_write write;
    ledger_hold_set(hold_ns);
    const struct ledger_beginning beginning = {.length = SIZE, .write = &write};
    CHECK_EQUAL(ledger_write_start(&open->inode->entry, &beginning, false), 0);
    write.unsettled = true;
    ledger_write_end(&open->inode->entry, &write, LEDGER_WRITE_FAILED, 0);
    file_put(open);
}

ENGINE_TEST(the_kernel_gets_no_file_with_a_write_of_unknown_fate)
{
    enum { HOLD_NS = 200000000 };
    disk_make("f", SIZE, 0);
    int fd = engine_adopt("f", O_RDWR);
    uint64_t start = sys_now_ns();
    leave_unsettled(fd, HOLD_NS);
    CHECK_EQUAL(engine_demote(fd), 0);
    CHECK(sys_now_ns() - start >= HOLD_NS);
}

static void *executes_late(void *path)
{
    while (disk_size("f") != 0)
        usleep(1000);
    usleep(50000); /* until the other waits for us; the hold lasts as long as we do */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK_EQUAL(pwrite(fd, "late", 4, 1000), 4);
    close(fd);
    end_holds();
    return NULL;
}

/* The server carries out the old copy after the kernel's truncation. */
ENGINE_TEST(a_write_of_unknown_fate_does_not_fill_an_emptied_file)
{
    char path[SCENE_PATH];
    pthread_t server;
    scene_file_path(path, "f");
    disk_make("f", SIZE, 0);
    int fd = engine_adopt("f", O_RDWR);
    leave_unsettled(fd, UINT64_C(3600000000000));
    CHECK_EQUAL(pthread_create(&server, NULL, executes_late, path), 0);
    int again = engine_adopt("f", O_RDWR | O_TRUNC);
    CHECK_EQUAL(pthread_join(server, NULL), 0);
    CHECK_EQUAL(disk_size("f"), 0);
    CHECK_EQUAL(engine_size(again), 0);
}

static int engine_allocate(int fd, off_t offset, off_t length)
{
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    int result = fd_allocate(open, fd, 0, offset, length, true);
    file_put(open);
    sys_critical_leave();
    return result;
}

static void appends_while_another_allocates(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    engine_put(fd, SIZE, 0, 1); /* held by the server */
}

static void allocates_while_another_appends(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_size(fd), 0);
    step_done(1);
    CHECK_EQUAL(engine_allocate(fd, 0, 3 * SIZE), 0);
    CHECK_EQUAL(engine_size(fd), 3 * SIZE);
    engine_expect(fd, SIZE, 0, 1);
}

SCENE_TEST(allocation_writes_no_zeros_over_what_another_process_appends)
{
    disk_make("f", 0, 0);
    scene_run_behind(appends_while_another_allocates, allocates_while_another_appends);
}

/* ---- what another process sent ---- */

enum { WRITTEN, SENT, STABLE, TESTED };

/* As one that starts a program: with its own data all is sent that others wrote behind, and its
 * records hold that. */
static void sends_what_others_wrote(void)
{
    engine_adopt("f", O_RDONLY);
    engine_put(engine_adopt("g", O_RDWR), SIZE, 0, 2);
    sys_critical_enter();
    durable_write_out_all();
    sys_critical_leave();
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), 2);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    step_done(SENT);
    step_wait(TESTED);
}

static int wrote_what_another_sent(void)
{
    int fd = written();
    step_done(WRITTEN);
    step_wait(SENT);
    return fd;
}

static void closes_what_another_sent(void)
{
    CHECK_EQUAL(engine_close(wrote_what_another_sent()), 0);
    step_done(STABLE);
    step_wait(TESTED);
}

static void leaves_what_another_sent(void)
{
    wrote_what_another_sent();
    sys_critical_enter();
    CHECK_EQUAL(durable_commit_all(), 0);
    sys_critical_leave();
    step_done(STABLE);
    step_wait(TESTED);
}

static void is_stable_though_another_sent_it(void (*writes)(void))
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    disk_make("g", 0, 0);
    pid_t writer = scene_start(writes);
    step_wait(WRITTEN);
    pid_t sender = scene_start(sends_what_others_wrote);
    step_wait(STABLE);
    expect_durable();
    step_done(TESTED);
    scene_wait(sender);
    scene_wait(writer);
}

SCENE_TEST(close_commits_what_another_process_sent)
{
    is_stable_though_another_sent_it(closes_what_another_sent);
}

SCENE_TEST(exit_and_exec_commit_what_another_process_sent)
{
    is_stable_though_another_sent_it(leaves_what_another_sent);
}

/* ---- ports that are short ---- */

static int flags_without_port;

static void *writes_without_port(void *fd)
{
    uint8_t data[4096];
    struct iovec vector = {data, sizeof(data)};
    data_fill(data, sizeof(data), 0, 1);
    CHECK_EQUAL(engine_writev(*(int *)fd, &vector, 1, 0, flags_without_port), sizeof(data));
    return NULL;
}

/* It gave its connection back, as ports below 1024 were short, and gets no other one. */
static void waits_for_a_port(void)
{
    pthread_t thread;
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 4096, 0, 3);
    struct file_open *open = file_get(fd);
    struct net_server *server = open->inode->mount->server->net;
    step_done(0);
    step_wait(1);
    for (unsigned i = 0; i < atomic_load(&server->channel_count); i++)
        CHECK(server->options.close_idle(server->channels[i], 0));
    atomic_store(&server->ports_short, true);
    CHECK_EQUAL(pthread_create(&thread, NULL, writes_without_port, &fd), 0);
    while (!atomic_load(&server->channels[0]->failed_ns))
        usleep(1000);
    step_done(2);
    step_wait(3);
    server_do(FILE_SERVER_START);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    file_put(open);
}

static void keeps_its_port(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 4096, 0, 3);
    server_do(FILE_SERVER_REFUSE);
    step_done(1);
    step_wait(2);
    struct iovec vector = {"appended", 8};
    engine_put(fd, 4096, 0, 2);
    CHECK_EQUAL(engine_writev(fd, &vector, 1, 0, RWF_APPEND), 8);
    CHECK_EQUAL(engine_truncate(fd, 4096), 0);
    engine_expect(fd, 4096, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    step_done(3);
}

static void nobody_waits_for_who_waits_for_a_port(int flags)
{
    flags_without_port = flags;
    disk_make("f", 4096, 0);
    pid_t waiting = scene_start(waits_for_a_port);
    step_wait(0);
    pid_t other = scene_start(keeps_its_port);
    scene_wait(other);
    scene_wait(waiting);
    CHECK_EQUAL(disk_size("f"), flags ? 8192 : 4096);
    disk_expect("f", 4096, 0, flags ? 2 : 1);
}

SCENE_TEST(nobody_waits_for_a_write_that_waits_for_a_port)
{
    nobody_waits_for_who_waits_for_a_port(0);
}

SCENE_TEST(nobody_waits_for_an_append_that_waits_for_a_port)
{
    nobody_waits_for_who_waits_for_a_port(RWF_APPEND);
}

static void syncs_when_told(void)
{
    int fd = written();
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    step_done(3);
    step_wait(4); /* its end would commit all */
}

static void writes_over_it(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 2);
    step_done(2);
    step_wait(4);
}

/* The server lost the older data before the COMMIT, and the newer came after it. */
SCENE_TEST(fsync_vouches_for_what_others_wrote_over_lost_data_before_its_answer_came)
{
    int status;
    disk_make("f", 0, 0);
    pid_t syncing = scene_start(syncs_when_told);
    step_wait(0);
    server_do(FILE_SERVER_LOSE_POWER);
    server_hold(NFS_PROC_COMMIT);
    step_done(1);
    server_wait_held(1);
    CHECK_EQUAL(kill(syncing, SIGSTOP), 0);
    CHECK_EQUAL(waitpid(syncing, &status, WUNTRACED), syncing);
    CHECK(WIFSTOPPED(status));
    server_release();
    pid_t writing = scene_start(writes_over_it);
    step_wait(2);
    CHECK_EQUAL(kill(syncing, SIGCONT), 0);
    step_wait(3);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 2);
    step_done(4);
    scene_wait(syncing);
    scene_wait(writing);
}

static void syncs_what_was_lost(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    step_done(2);
}

static void reads_what_was_lost(void)
{
    struct ledger_attributes attributes;
    int fd = engine_adopt("f", O_RDWR);
    CHECK((lane = async_lane_new()) != NULL);
    engine_put(fd, BLOCK, BLOCK, 2);
    server_do(FILE_SERVER_LOSE_POWER);
    struct file_open *open = engine_begin(fd);
    CHECK_EQUAL(file_inode_ask(open->inode, open->auth, &attributes), 0); /* connects */
    engine_end(open);
    unsigned before = server_calls(NFS_PROC_READ);
    job_prepare(&jobs[0], ASYNC_READ, fd, BLOCK, BLOCK);
    submit(0, 1);
    while (server_calls(NFS_PROC_READ) == before)
        usleep(1000);
    step_done(1);
    step_wait(2);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, BLOCK);
    CHECK(data_is(jobs[0].data, BLOCK, BLOCK, 2));
}

/* The answer comes when another process has written again what the server lost before. */
SCENE_TEST(a_read_of_lost_data_that_was_written_again_meanwhile)
{
    disk_make("f", DISK, 1);
    pid_t other = scene_start(syncs_what_was_lost);
    step_wait(0);
    scene_run(reads_what_was_lost);
    scene_wait(other);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
