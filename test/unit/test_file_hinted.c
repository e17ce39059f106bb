/* sync_file_range(2) without waiting: the fsync that follows finds its work done. */
#include "behind_scene.h"
#include "durable/flush.h"
#include "durable/fsync.h"
#include "durable/hinted.h"
#include "ledger/uncommitted.h"

static void hint(int fd)
{
    struct file_open *open = engine_begin(fd);
    durable_write_out(open, 0, 0, false);
    engine_end(open);
}

/* Else the sender may have sent it, half a second after it was written. */
static bool in_time(uint64_t begun_ns)
{
    return sys_now_ns() - begun_ns < UINT64_C(400000000);
}

static void wait_until(enum nfs_procedure procedure, unsigned count)
{
    for (int i = 0; server_calls(procedure) < count; i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

static void wait_until_it_is(int fd, uint32_t hint)
{
    struct file_open *open = engine_begin(fd);
    for (int i = 0; atomic_load(&open->inode->hint) != hint; i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
    engine_end(open);
}

/* PostgreSQL's checkpointer hints at all files, then it makes an fsync of each. */
BEHIND_TEST(a_little_is_made_safe_at_once)
{
    uint64_t begun_ns = sys_now_ns();
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 2, 1);
    hint(fd);
    wait_until_it_is(fd, DURABLE_HINT_DONE);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(writes(), 1);
    if (in_time(begun_ns)) {
        CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_FILE_SYNC]), 1);
        CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    }
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 2 * PAGE_BYTES, 0, 1);
}

/* An fsync that comes while a thread does its work waits for that, and sends nothing. */
BEHIND_TEST(an_fsync_waits_for_what_is_done_for_it)
{
    int fd = engine_adopt("f", O_RDWR);
    server_hold(NFS_PROC_WRITE);
    put_blocks(fd, 0, 2, 1);
    hint(fd);
    server_wait_held(1);
    uint64_t begun_ns = sys_now_ns();
    server_release();
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(writes(), 1);
    if (sys_now_ns() - begun_ns < UINT64_C(50000000)) /* else it does the work itself */
        CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 2 * PAGE_BYTES, 0, 1);
}

/* The only thread of the program has a request in flight, and waits in fsync: it receives no
 * answer. Nor need it: what its work waits for is received for it. */
BEHIND_TEST(the_work_of_an_fsync_needs_nothing_of_the_thread_that_waits_for_it)
{
    int fd = lane_open(PAGE_BYTES);
    server_hold(NFS_PROC_WRITE);
    job_write(&jobs[0], fd, BLOCK, 0, 1);
    jobs[0].request.flags = RWF_DSYNC; /* it is sent at once */
    submit(0, 1);
    server_wait_held(1);
    put_blocks(fd, 0, 1, 2);
    hint(fd);
    wait_until_it_is(fd, DURABLE_HINT_BUSY);
    server_release();
    wait_until_it_is(fd, DURABLE_HINT_DONE);
    CHECK_EQUAL(engine_fsync(fd), 0);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, BLOCK);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", PAGE_BYTES, 0, 2);
}

/* Several files at a time: none has an answer before all were asked for. */
BEHIND_TEST(files_are_made_safe_together)
{
    int fds[4];
    server_hold(NFS_PROC_WRITE);
    for (int i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), 0};
        disk_make(name, 0, 0);
        fds[i] = engine_adopt(name, O_RDWR);
        put_blocks(fds[i], 0, 1, i);
        hint(fds[i]);
    }
    for (int i = 0; i < 4; i++)
        wait_until_it_is(fds[i], DURABLE_HINT_BUSY);
    server_release();
    for (int i = 0; i < 4; i++) {
        wait_until_it_is(fds[i], DURABLE_HINT_DONE);
        CHECK_EQUAL(engine_fsync(fds[i]), 0);
    }
    server_do(FILE_SERVER_LOSE_POWER);
    for (int i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), 0};
        disk_expect(name, PAGE_BYTES, 0, i);
    }
}

/* What is scattered takes a COMMIT. It is made when another file is hinted at. */
BEHIND_TEST(scattered_pages_are_committed_when_the_next_file_comes)
{
    uint64_t begun_ns = sys_now_ns();
    disk_make("g", 0, 0);
    int fd = engine_adopt("f", O_RDWR), next = engine_adopt("g", O_RDWR);
    put_blocks(fd, 0, 1, 1);
    put_blocks(fd, 8, 1, 1);
    hint(fd);
    put_blocks(next, 0, 1, 2);
    hint(next);
    wait_until_it_is(fd, DURABLE_HINT_DONE);
    CHECK_EQUAL(engine_fsync(fd), 0);
    wait_until_it_is(next, DURABLE_HINT_DONE);
    CHECK_EQUAL(engine_fsync(next), 0);
    if (in_time(begun_ns))
        CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 1);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", PAGE_BYTES, 0, 1);
    disk_expect("g", PAGE_BYTES, 0, 2);
}

/* A long time may pass between hint and fsync: it vouches for what was written meanwhile, too. */
BEHIND_TEST(what_is_written_after_the_hint_is_safe_after_the_fsync)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 1, 1);
    hint(fd);
    wait_until_it_is(fd, DURABLE_HINT_DONE);
    put_blocks(fd, 1, 1, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 2 * PAGE_BYTES, 0, 1);
}

/* The work was done once: the next fsync asks the server, as ever. */
BEHIND_TEST(one_hint_is_for_one_fsync)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 1, 1);
    hint(fd);
    wait_until_it_is(fd, DURABLE_HINT_DONE);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 1);
}

BEHIND_TEST(what_the_server_refuses_is_told_by_the_fsync)
{
    int fd = engine_adopt("f", O_RDWR);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
    put_blocks(fd, 0, 1, 1);
    hint(fd);
    wait_until(NFS_PROC_WRITE, 1);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* What a COMMIT says of the disk that nobody asked for, the fsync finds again. */
BEHIND_TEST(what_a_commit_fails_at_is_told_by_the_fsync)
{
    disk_make("g", 0, 0);
    int fd = engine_adopt("f", O_RDWR), next = engine_adopt("g", O_RDWR);
    server_fail(NFS_PROC_COMMIT, 1000, NFS3ERR_IO);
    put_blocks(fd, 0, 1, 1);
    put_blocks(fd, 8, 1, 1);
    hint(fd);
    put_blocks(next, 0, 1, 2);
    hint(next);
    wait_until(NFS_PROC_COMMIT, 1);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    server_fail(NFS_PROC_COMMIT, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", PAGE_BYTES, 0, 1);
}

/* The thread finds the file gone, and leaves its data to be found by the fsync. */
BEHIND_TEST(a_file_that_is_gone_is_left_to_the_fsync)
{
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = engine_begin(fd);
    char path[SCENE_PATH];
    put_blocks(fd, 0, 1, 1);
    scene_file_path(path, "f");
    CHECK_EQUAL(unlink(path), 0);
    atomic_fetch_add(&scene.control->handles, 1); /* the old ones are stale */
    hint(fd);
    wait_until_it_is(fd, DURABLE_HINT_NONE);
    CHECK(ledger_file_uncommitted(&open->inode->entry) > 0);
    engine_end(open);
    engine_fsync(fd);
    CHECK_EQUAL(ledger_uncommitted(), 0); /* of a removed file nobody can miss it */
}

static void use_in_child(void)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 1, 1);
    hint(fd);
    wait_until_it_is(fd, DURABLE_HINT_DONE);
    pid_t child = engine_fork();
    if (child == 0) {
        CHECK_EQUAL(engine_fsync(fd), 0);
        CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 1);
        put_blocks(fd, 1, 1, 1);
        hint(fd);
        CHECK_EQUAL(engine_fsync(fd), 0);
        _exit(0);
    }
    scene_wait(child);
}

/* The child has no threads of the parent, nor what they have done. */
BEHIND_TEST(a_child_of_fork_begins_anew)
{
    use_in_child();
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 2 * PAGE_BYTES, 0, 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
