/* What a process and its agent left unsent: sent after the proof that nobody changed the file, else
 * set aside. src/durable/stray.c. */
#include <dirent.h>

#include "durable/operation.h"
#include "fd/world.h"
#include "file_scene.h"
#include "fd/adopt.h"
#include "file/table.h"
#include "ledger/dirty.h"
#include "ledger/store/processes.h"
#include "ledger/strays.h"
#include "run/directory.h"
#include "run/strays.h"

enum { BLOCK = 8192, BLOCKS = 8 };

/* What it does before, with so many WRITEs. NULL: nothing. */
static void (*before_it_writes)(int fd);
static unsigned writes_before;

static void writes_and_dies(void)
{
    int fd = engine_adopt("f", O_RDWR);
    usleep(20000); /* the file has another time after a change */
    if (before_it_writes)
        before_it_writes(fd);
    engine_put(fd, BLOCK, 2 * BLOCK, 1);
    kill(scene.agent, SIGKILL);
    kill(getpid(), SIGKILL);
}

/* Block 2 of the file is of version 1 in the registry, and of version 0 at the server. */
static void leave_stray(void)
{
    unsigned sent;
    do { /* on a machine that stands still for so long the sender may be faster */
        disk_make("f", BLOCKS * BLOCK, 0);
        if (scene.agent == 0)
            scene_start_agent();
        sent = server_calls(NFS_PROC_WRITE);
        pid_t pid = scene_start(writes_and_dies);
        CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
        CHECK_EQUAL(waitpid(scene.agent, NULL, 0), scene.agent);
        scene.agent = 0;
    } while (server_calls(NFS_PROC_WRITE) != sent + writes_before);
}

#define STRAY_TEST(name)                                 \
    static void name##_body_of(void);                    \
    SCENE_TEST(name)                                     \
    {                                                    \
        scene_configure("write_behind_max = 16777216;"); \
        disk_make("other", BLOCK, 0);                    \
        leave_stray();                                   \
        name##_body_of();                                \
    }                                                    \
    static void name##_body_of(void)

/* Another host writes block 2, or a backup is restored: the file is `seconds` newer, or older, or
 * as old as before. */
static void change_file(int64_t seconds)
{
    char path[SCENE_PATH], data[BLOCK];
    struct stat before;
    scene_file_path(path, "f");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_EQUAL(fstat(fd, &before), 0);
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = before.st_mtim.tv_sec + seconds, .tv_nsec = before.st_mtim.tv_nsec}};
    data_fill(data, BLOCK, 2 * BLOCK, 9);
    CHECK_EQUAL(pwrite(fd, data, BLOCK, 2 * BLOCK), BLOCK);
    CHECK_EQUAL(futimens(fd, times), 0);
    close(fd);
}

static void opens_other(void)
{
    engine_adopt("other", O_RDONLY);
}

static void writes_and_syncs(int fd)
{
    engine_put(fd, BLOCK, 3 * BLOCK, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void truncates(int fd)
{
    CHECK_EQUAL(engine_truncate(fd, 0), 0);
}

static void opens_again(int fd)
{
    engine_close(fd);
    CHECK_EQUAL(engine_adopt("f", O_RDWR | O_TRUNC), fd);
}

/* How many stray files there are; the pieces of the last are checked. */
static unsigned strays(void)
{
    static uint8_t bytes[RUN_STRAY_PIECE];
    static char text[RUN_STRAY_TEXT];
    char path[SCENE_PATH];
    unsigned count = 0;
    struct run_stray_file file;
    struct run_stray stray;
    uint64_t offset;
    snprintf(path, sizeof(path), "%s/run", scene.top);
    DIR *directory = opendir(path);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (strncmp(entry->d_name, RUN_STRAY_PREFIX, strlen(RUN_STRAY_PREFIX)) != 0)
            continue;
        count++;
        CHECK_EQUAL(run_stray_read(&file, dirfd(directory), entry->d_name, text, &stray), 0);
        CHECK_EQUAL(stray.bytes, BLOCK);
        CHECK(strcmp(stray.server, "scripted") == 0);
        CHECK_EQUAL(run_stray_next(&file, &offset, bytes), BLOCK);
        CHECK_EQUAL(offset, 2 * BLOCK);
        CHECK(data_is(bytes, BLOCK, offset, 1));
        CHECK_EQUAL(run_stray_next(&file, &offset, bytes), 0);
        run_stray_close(&file);
    }
    closedir(directory);
    return count;
}

static void expect_block_2(unsigned version)
{
    disk_expect("f", BLOCK, 2 * BLOCK, version);
}

STRAY_TEST(what_nobody_changed_is_sent_at_the_next_contact)
{
    scene_run(opens_other);
    expect_block_2(1);
    CHECK_EQUAL(strays(), 0);
}

STRAY_TEST(what_another_host_changed_is_left_alone_and_the_bytes_are_kept)
{
    change_file(2);
    scene_run(opens_other);
    expect_block_2(9);
    CHECK_EQUAL(strays(), 1);
    CHECK_EQUAL(scene_logged("are not sent to server scripted"), 1);
    scene_run(opens_other);
    expect_block_2(9);
    CHECK_EQUAL(scene_logged("are not sent to server scripted"), 1);
}

STRAY_TEST(so_is_what_was_restored_with_an_older_time)
{
    change_file(-1000);
    scene_run(opens_other);
    expect_block_2(9);
    CHECK_EQUAL(strays(), 1);
}

STRAY_TEST(or_with_the_very_same_time)
{
    change_file(0);
    scene_run(opens_other);
    expect_block_2(9);
    CHECK_EQUAL(strays(), 1);
}

static void write_at_server(unsigned block, unsigned version)
{
    char path[SCENE_PATH], data[BLOCK];
    scene_file_path(path, "f");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    data_fill(data, BLOCK, (uint64_t)block * BLOCK, version);
    CHECK_EQUAL(pwrite(fd, data, BLOCK, (off_t)block * BLOCK), BLOCK);
    close(fd);
}

/* What was on its way as its process died is at the server at last, which nobody heard. */
static void arrive(unsigned block)
{
    write_at_server(block, 1);
}

static void expect_nothing_aside(void)
{
    expect_block_2(1);
    CHECK_EQUAL(strays(), 0);
    CHECK_EQUAL(scene_logged("are not sent to server"), 0);
}

STRAY_TEST(what_arrived_all_the_same_needs_a_commit_before_and_after_it_is_found_and_no_stray)
{
    arrive(2);
    unsigned writes = server_calls(NFS_PROC_WRITE);
    scene_run(opens_other);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 2 + 1); /* one more, of the file */
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), writes);
    expect_nothing_aside();
}

STRAY_TEST(of_a_server_that_restarts_between_the_two_it_is_looked_for_again)
{
    arrive(2);
    server_hold(NFS_PROC_READ);
    pid_t pid = scene_start(opens_other);
    server_wait_held(1);
    server_do(FILE_SERVER_NEW_VERIFIER);
    server_release();
    scene_wait(pid);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 4 + 1);
    expect_nothing_aside();
}

STRAY_TEST(what_a_commit_that_failed_may_have_lost_is_set_aside_though_it_is_found)
{
    arrive(2);
    server_fail(NFS_PROC_COMMIT, 1, NFS3ERR_IO);
    scene_run(opens_other);
    CHECK_EQUAL(strays(), 1);
}

static void writes_block_5(int fd)
{
    engine_put(fd, BLOCK, 5 * BLOCK, 1);
}

SCENE_TEST(only_what_did_not_arrive_is_set_aside)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("other", BLOCK, 0);
    before_it_writes = writes_block_5;
    leave_stray();
    arrive(5);
    change_file(2);
    scene_run(opens_other);
    CHECK_EQUAL(strays(), 1);
    disk_expect("f", BLOCK, 5 * BLOCK, 1);
    expect_block_2(9);
}

static void writes_and_waits(void)
{
    int fd = engine_adopt("f", O_RDWR);
    usleep(20000);
    engine_put(fd, BLOCK, 2 * BLOCK, 1);
    step_wait(0);
}

SCENE_TEST(what_may_yet_arrive_is_waited_for)
{
    scene_configure("write_behind_max = 16777216; failover_hold = 600;");
    disk_make("other", BLOCK, 0);
    disk_make("f", BLOCKS * BLOCK, 0);
    server_hold(NFS_PROC_WRITE);
    pid_t pid = scene_start(writes_and_waits);
    server_wait_held(1); /* its sender's */
    kill(scene.agent, SIGKILL);
    scene_kill(pid);
    CHECK_EQUAL(waitpid(scene.agent, NULL, 0), scene.agent);
    scene.agent = 0;
    write_at_server(7, 9);
    pid = scene_start(opens_other);
    while (server_calls(NFS_PROC_READ) < 2)
        usleep(1000);
    CHECK_EQUAL(strays(), 0);
    server_release();
    scene_wait(pid);
    expect_nothing_aside();
}

static void opens_it_to_write(int expected)
{
    char path[SCENE_PATH];
    fd_world_unasked_ms = 0;
    scene_file_path(path, "f");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    sys_critical_enter();
    CHECK_EQUAL(fd_opened(fd, O_WRONLY), expected);
    sys_critical_leave();
    CHECK(!file_is_managed(fd));
    close(fd);
}

static void may_not_write_it(void)
{
    opens_it_to_write(-EIO);
}

STRAY_TEST(nobody_writes_the_file_while_the_server_cannot_be_asked)
{
    server_fail(NFS_PROC_GETATTR, 100, NFS3ERR_IO);
    scene_run(may_not_write_it);
    server_fail(NFS_PROC_GETATTR, 0, 0);
    scene_run(opens_other);
    expect_block_2(1);
    CHECK_EQUAL(strays(), 0);
}

static void may_write_it(void)
{
    opens_it_to_write(0);
}

STRAY_TEST(it_is_given_up_where_the_server_says_that_it_is_another)
{
    atomic_store(&scene.control->root_ctime_error, 5);
    scene_run(may_write_it);
    CHECK_EQUAL(scene_logged("are not at the server and are lost"), 1);
}

static void fsyncs(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_expect(fd, BLOCK, 2 * BLOCK, 9);
    engine_put(fd, BLOCK, 3 * BLOCK, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

STRAY_TEST(who_opens_the_file_later_has_what_the_server_has_and_no_error)
{
    change_file(2);
    scene_run(fsyncs);
    expect_block_2(9);
    CHECK_EQUAL(strays(), 1);
}

static void expect_sent_after(void (*before)(int fd), unsigned writes)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("other", BLOCK, 0);
    before_it_writes = before;
    writes_before = writes;
    leave_stray();
    scene_run(opens_other);
    expect_block_2(1);
    CHECK_EQUAL(strays(), 0);
}

SCENE_TEST(an_fsync_before_does_not_spoil_the_proof)
{
    expect_sent_after(writes_and_syncs, 1);
}

SCENE_TEST(nor_does_a_change_of_size)
{
    expect_sent_after(truncates, 0);
}

SCENE_TEST(nor_does_an_open_that_empties_the_file)
{
    expect_sent_after(opens_again, 0);
}

/* Both have the file open all the time. */
static void hears_of_it(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    engine_put(fd, BLOCK, 3 * BLOCK, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void hears_nothing(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    engine_expect(fd, BLOCK, 2 * BLOCK, 1);
}

static void asks_twice(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    server_fail(NFS_PROC_GETATTR, 1000, NFS3ERR_IO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    expect_block_2(0);
    server_fail(NFS_PROC_GETATTR, 0, NFS3ERR_IO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_block_2(1);
}

/* A process that has the file open before there are strays. */
static pid_t start_before(void (*body)(void))
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", BLOCKS * BLOCK, 0);
    pid_t pid = scene_start(body);
    step_wait(0);
    leave_stray();
    return pid;
}

SCENE_TEST(who_has_the_file_open_hears_of_it_once)
{
    pid_t pid = start_before(hears_of_it);
    change_file(2);
    step_done(1);
    scene_wait(pid);
    expect_block_2(9);
    CHECK_EQUAL(strays(), 1);
}

SCENE_TEST(and_of_what_arrived_all_the_same_nothing)
{
    pid_t pid = start_before(hears_nothing);
    arrive(2);
    step_done(1);
    scene_wait(pid);
    expect_nothing_aside();
}

/* The new agent is there, and does not know yet whether the stray may be sent. */
static void writes_into_it(void)
{
    uint8_t data[100] = {0};
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    struct file_open *open = engine_begin(fd);
    engine_is_cared_for(open);
    engine_end(open);
    CHECK_EQUAL(engine_write(fd, data, sizeof(data), 2 * BLOCK), -EIO);
    server_fail(NFS_PROC_GETATTR, 0, NFS3ERR_IO);
}

/* Else the rest of the stray would be sent with it, as what a living process wrote. */
SCENE_TEST(nothing_is_left_behind_in_a_stray_that_may_not_be_sent)
{
    pid_t writer = start_before(writes_into_it);
    change_file(2);
    atomic_store(&scene.control->spares_directories, true);
    server_fail(NFS_PROC_GETATTR, 1000000, NFS3ERR_IO);
    scene_start_agent();
    step_done(1);
    scene_wait(writer);
    expect_block_2(9);
}

/* It has been in contact with the mount for long. */
static void opens_later(void)
{
    engine_adopt("other", O_RDONLY);
    step_done(0);
    step_wait(1);
    engine_adopt("f", O_RDONLY);
    expect_block_2(1);
}

SCENE_TEST(what_an_open_has_proven_is_sent_before_others_may_change_the_file)
{
    disk_make("other", BLOCK, 0);
    pid_t pid = start_before(opens_later);
    step_done(1);
    scene_wait(pid);
    CHECK_EQUAL(strays(), 0);
}

SCENE_TEST(a_server_that_does_not_tell_gets_nothing_before_it_does)
{
    pid_t pid = start_before(asks_twice);
    step_done(1);
    scene_wait(pid);
    CHECK_EQUAL(strays(), 0);
}

/* As an agent that is killed: its main thread may be gone before the others are. */
static void takes_it(void)
{
    struct ledger_write write;
    struct file_open *open = file_get(engine_adopt("f", O_RDWR));
    struct ledger_file *file = &open->inode->entry;
    step_done(0);
    step_wait(1);
    CHECK(ledger_file_has_strays(file));
    struct ledger_sending sending = ledger_dirty_now(file, BLOCK);
    sending.strays = true;
    CHECK_EQUAL(ledger_dirty_take(file, &sending, false, &write), 1);
    step_done(2);
    step_wait(3);
}

SCENE_TEST(what_a_process_has_on_its_way_that_is_slow_to_die_is_sent_once_it_is_dead)
{
    disk_make("other", BLOCK, 0);
    pid_t pid = start_before(takes_it);
    step_done(1);
    step_wait(2);
    unsigned asked = server_calls(NFS_PROC_GETATTR);
    pid_t visitor = scene_start(opens_other);
    while (server_calls(NFS_PROC_GETATTR) < asked + 6)
        usleep(1000);
    scene_kill(pid);
    scene_wait(visitor);
    expect_nothing_aside();
}

/* NFSv3: another host writes between the proof and the WRITE. */
STRAY_TEST(who_is_overtaken_says_so_and_sends_nothing_else)
{
    server_hold(NFS_PROC_WRITE);
    pid_t pid = scene_start(opens_other);
    server_wait_held(1);
    change_file(2);
    server_release();
    scene_wait(pid);
    expect_block_2(1);
    CHECK_EQUAL(scene_logged("changed the file at the very moment at which 8192 bytes at offset "
                             "16384"),
                1);
    CHECK_EQUAL(strays(), 0);
}

static void writes_at_once_and_dies(int fd)
{
    engine_put(fd, BLOCK, 2 * BLOCK, 1);
    kill(getpid(), SIGKILL);
}

/* The child's first write waits for the server, as no agent watches it yet. */
static void has_a_child_that_dies(void)
{
    int fd = engine_adopt("f", O_RDWR);
    struct ledger_file *file = &file_get(fd)->inode->entry;
    unsigned sent = server_calls(NFS_PROC_WRITE);
    pid_t child = engine_fork();
    if (child == 0)
        writes_at_once_and_dies(fd);
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    ledger_process_sweep(0);
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), sent + 1);
    CHECK_EQUAL(ledger_file_uncommitted(file), BLOCK);
    CHECK(!ledger_file_has_sent_strays(file));
}

SCENE_TEST(what_a_process_sent_and_did_not_live_to_be_watched_is_the_agents)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", BLOCKS * BLOCK, 0);
    scene_run(has_a_child_that_dies);
}

/* What the server tells with such a write is no link of the proof: others may have changed the file
 * in between. */
UNIT_TEST(a_write_of_several_calls_proves_nothing)
{
    struct ledger_file entry = {.index = 0};
    struct file_target to = {.entry = &entry};
    struct durable_write write = {.to = &to, .stable = NFS_FILE_SYNC};
    struct nfs_transfer transfer = {.committed = NFS_FILE_SYNC, .parts = 1};
    struct ledger_ending ending;
    durable_write_judge(&write, 0, &transfer, &ending);
    assert_false(ending.several);
    transfer.parts = 2;
    durable_write_judge(&write, 0, &transfer, &ending);
    assert_true(ending.several);
    transfer.parts = 1;
    write.taken = 100; /* by a call before */
    durable_write_judge(&write, 0, &transfer, &ending);
    assert_true(ending.several);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
