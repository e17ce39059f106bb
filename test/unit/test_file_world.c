/* A file is in one world for all processes of the host: the engine's, or the kernel's. */
#include "durability_scene.h"

#include <sys/resource.h>
#include "fd/adopt.h"
#include "fd/world.h"
#include "file/table.h"

#include "fd/world.h"
#include "ledger/dirty.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

enum { BLOCK = 8192 };

static unsigned writes_by_engine(void)
{
    return server_calls(NFS_PROC_WRITE);
}

/* Writes a block of this version, and expects which world carries it. */
static void put_by_engine(int fd, unsigned version)
{
    unsigned before = writes_by_engine();
    engine_put(fd, BLOCK, 0, version);
    CHECK(writes_by_engine() > before);
    CHECK(file_is_managed(fd));
}

static void put_by_kernel(int fd, unsigned version)
{
    unsigned before = writes_by_engine();
    engine_put(fd, BLOCK, 0, version);
    CHECK_EQUAL(writes_by_engine(), before);
    CHECK(!file_is_managed(fd));
}

/* ---- going there, and coming back ---- */

static void moves_it_and_waits(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_wait(0);
    CHECK_EQUAL(engine_demote(fd), 0);
    CHECK_EQUAL(stats_own->counters.files_handed_over, 1);
    disk_expect("f", BLOCK, 0, 1);
    put_by_kernel(fd, 2);
    step_done(1);
    step_wait(2);
}

static void writes_before_and_after(void)
{
    int fd = engine_adopt("f", O_RDWR);
    int reader = engine_adopt("f", O_RDONLY);
    put_by_engine(fd, 1);
    step_done(0);
    step_wait(1);
    engine_expect(reader, BLOCK, 0, 2);
    CHECK(!file_is_managed(reader));
    CHECK_EQUAL(stats_own->counters.files_handed_over, 1); /* one file, however often open */
    put_by_kernel(fd, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(strcmp(engine_reason("f"), "another process uses the kernel for it") == 0);
    CHECK(!file_is_managed(engine_open("f", O_RDONLY)));
    step_done(3);
    step_wait(4);
}

static void opens_what_the_kernel_has(void)
{
    int fd = engine_open("f", O_RDWR);
    CHECK_EQUAL(stats_own->counters.files_handed_over, 0); /* it was never direct here */
    put_by_kernel(fd, 4);
}

static void opens_what_came_back(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_expect(fd, BLOCK, 0, 4);
    put_by_engine(fd, 5);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

SCENE_TEST(all_processes_go_with_one_and_the_file_comes_back_after_the_last)
{
    disk_make("f", BLOCK, 0);
    pid_t follower = scene_start(writes_before_and_after);
    pid_t mover = scene_start(moves_it_and_waits);
    step_wait(3);
    scene_run(opens_what_the_kernel_has);
    step_done(2);
    scene_wait(mover);
    scene_run(opens_what_the_kernel_has); /* the follower is there still */
    scene_kill(follower);
    scene_run(opens_what_came_back);
    disk_expect("f", BLOCK, 0, 5);
}

static void forks_and_ends(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_demote(fd), 0);
    if (engine_fork() == 0) {
        step_done(0);
        step_wait(1);
        _exit(0);
    }
    step_wait(0);
}

SCENE_TEST(children_keep_a_file_there)
{
    disk_make("f", BLOCK, 0);
    scene_run(forks_and_ends);
    scene_run(opens_what_the_kernel_has);
    step_done(1);
    for (int i = 0; i < SCENE_LIMIT_S * 1000 && waitpid(-1, NULL, WNOHANG) == 0; i++)
        usleep(1000);
}

/* ---- those who die on the way ---- */

static void moves_it(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    engine_demote(fd);
}

/* A process that writes, says so in a step and waits for another; then the kernel has the file. */
static int writes_and_waits_for(unsigned version, int said, int awaited)
{
    int fd = engine_adopt("f", O_RDWR);
    put_by_engine(fd, version);
    step_done(said);
    step_wait(awaited);
    return fd;
}

static void expect_it_followed(int fd)
{
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(ledger_uncommitted(), 0);
}

static void writes_and_follows(void)
{
    int fd = writes_and_waits_for(1, 1, 2);
    engine_put(fd, BLOCK, 0, 4);
    expect_it_followed(fd);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* Who moves a file that another process has written is killed before it is committed. Returns the
 * other one. */
static pid_t kill_the_mover(void (*writes)(void))
{
    disk_make("f", BLOCK, 0);
    pid_t writer = scene_start(writes);
    step_wait(1);
    server_hold(NFS_PROC_COMMIT);
    pid_t mover = scene_start(moves_it);
    server_wait_held(1);
    scene_kill(mover);
    return writer;
}

SCENE_TEST(who_moves_a_file_is_killed_before_it_is_committed)
{
    pid_t writer = kill_the_mover(writes_and_follows);
    server_release();
    step_done(2);
    scene_wait(writer);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", BLOCK, 0, 4);
    scene_run(opens_what_came_back);
}

static void writes_until_it_is_killed(void)
{
    writes_and_waits_for(4, 1, 2);
}

SCENE_TEST(all_are_killed_on_the_way)
{
    scene_kill(kill_the_mover(writes_until_it_is_killed));
    server_release();
    server_do(FILE_SERVER_LOSE_POWER);
    scene_run(opens_what_came_back);
    disk_expect("f", BLOCK, 0, 5);
}

/* ---- those who cannot use the engine ---- */

static void writes_without_the_server(void)
{
    int fd = engine_open("f", O_RDWR);
    put_by_kernel(fd, 4);
    CHECK_EQUAL(fsync(fd), 0);
    step_done(0);
    step_wait(1);
}

SCENE_TEST(a_file_that_was_opened_before_the_server_answered)
{
    disk_make("f", BLOCK, 0);
    server_fail(NFS_PROC_FSINFO, 1, NFS3ERR_IO);
    pid_t without = scene_start(writes_without_the_server);
    step_wait(0);
    scene_run(opens_what_the_kernel_has);
    step_done(1);
    scene_wait(without);
    scene_run(opens_what_came_back);
}

static void leaves_it_uncommitted(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BLOCK, 0, 1);
    struct file_open *open = engine_begin(fd);
    while (ledger_file_dirty(&open->inode->entry) > 0)
        usleep(1000);
    engine_end(open);
    step_done(0);
    step_wait(1);
}

static void has_it_committed(void)
{
    struct ledger_file file;
    uint32_t cursor = 0;
    fd_world_unasked_ms = 100; /* nobody does so here */
    CHECK(!file_is_managed(engine_open("f", O_RDWR)));
    CHECK(ledger_uncommitted_next(&cursor, 0, true, &file));
}

SCENE_TEST(the_agent_is_asked_to_commit_what_who_opens_a_file_cannot)
{
    disk_make("f", BLOCK, 0);
    scene_configure("write_behind_max = 16777216;");
    pid_t writer = scene_start(leaves_it_uncommitted);
    step_wait(0);
    server_fail(NFS_PROC_GETATTR, 100, NFS3ERR_IO);
    scene_run(has_it_committed);
    server_fail(NFS_PROC_GETATTR, 0, 0);
    step_done(1);
    scene_wait(writer);
}

static void writes_until_another_cannot(void)
{
    int fd = writes_and_waits_for(1, 2, 0);
    engine_expect(fd, BLOCK, 0, 4);
    expect_it_followed(fd);
    put_by_kernel(fd, 5);
    step_done(1);
}

/* The room for its memory is too small for the registry. */
static void writes_without_the_registry(void)
{
    struct rlimit limit = {64 << 20, 64 << 20};
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
    writes_without_the_server();
}

SCENE_TEST(a_process_without_room_for_the_registry_moves_what_it_writes)
{
    if (getenv("DIRECTNFS_TEST_SHORT") || SANITIZED)
        return; /* they need room themselves */
    disk_make("f", BLOCK, 0);
    pid_t writer = scene_start(writes_until_another_cannot);
    step_wait(2);
    pid_t without = scene_start(writes_without_the_registry);
    scene_wait(writer);
    scene_wait(without);
}

/* ---- those who do not wait ---- */

/* As a process that cannot use the engine, and says so. */
static void somebody_writes(int engine, unsigned version)
{
    char path[SCENE_PATH];
    uint8_t data[BLOCK];
    struct file_open *known = file_get(engine);
    ledger_world_leave(&known->inode->entry, true);
    file_put(known);
    usleep(30000); /* the clock of file systems goes in steps */
    scene_file_path(path, "f");
    data_fill(data, sizeof(data), 0, version);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQUAL(pwrite(fd, data, sizeof(data), 0), sizeof(data));
    close(fd);
}

static void writes_and_waits_for_a_conflict(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    step_done(2);
}

static void is_written_over_by_somebody(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_wait(0);
    put_by_engine(fd, 1);
    somebody_writes(fd, 2);
    server_do(FILE_SERVER_NEW_VERIFIER);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
    step_done(1);
    step_wait(2);
    disk_expect("f", BLOCK, 0, 2);
    put_by_kernel(fd, 3);
}

SCENE_TEST(what_was_lost_is_not_written_over_what_somebody_else_wrote_since)
{
    disk_make("f", BLOCK, 0);
    pid_t other = scene_start(writes_and_waits_for_a_conflict);
    scene_run(is_written_over_by_somebody);
    scene_wait(other);
}

ENGINE_TEST(another_mode_is_no_conflict)
{
    disk_make("f", BLOCK, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_by_engine(fd, 1);
    usleep(30000);
    CHECK_EQUAL(fchmod(fd, 0600), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_demote(fd), 0);
    disk_expect("f", BLOCK, 0, 1);
}

/* ---- what moves nothing ---- */

static void reads_it_as_a_stream(void)
{
    char path[SCENE_PATH];
    int fd = engine_adopt("f", O_RDWR);
    int reader = engine_adopt("f", O_RDONLY);
    scene_file_path(path, "f");
    int stream = open(path, O_RDONLY | O_CLOEXEC);
    sys_critical_enter();
    fd_opened_for_kernel(stream, O_RDONLY, "stdio");
    CHECK_EQUAL(fd_demote_stream(reader, "stdio"), 0);
    sys_critical_leave();
    CHECK(!file_is_managed(stream) && !file_is_managed(reader));
    put_by_engine(fd, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BLOCK, 0, 1);
}

SCENE_TEST(a_stream_that_only_reads_moves_nothing)
{
    disk_make("f", BLOCK, 0);
    scene_run(reads_it_as_a_stream);
}

static void keeps_a_removed_file(void)
{
    char path[SCENE_PATH];
    int fd = engine_adopt("f", O_RDWR);
    struct stat status;
    scene_file_path(path, "f");
    CHECK_EQUAL(fstat(fd, &status), 0);
    CHECK_EQUAL(unlink(path), 0);
    engine_demote(fd);
    CHECK(!file_is_managed(fd));
    CHECK(!ledger_world_is_pinned(status.st_dev, status.st_ino));
}

/* Its number will be that of another file. */
SCENE_TEST(a_file_without_a_name_moves_alone)
{
    disk_make("f", BLOCK, 0);
    scene_run(keeps_a_removed_file);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
