/* Writing again what a server lost when it restarted: how much of it, in how many calls, and not
 * over what somebody else wrote since. */
#include "durability_scene.h"
#include "holds.h"
#include "no_descriptors.h"
#include "ledger/store/processes.h"
#include "rounds.h"

enum { SMALL = 430, TOTAL = SMALL * 8000, SPREAD = 20000 };

/* TOTAL in this many pieces: what is written again is as long where they are fewer. */
static unsigned smalls(void)
{
    return rounds_of(TOTAL / SMALL);
}

static void put_small(int fd)
{
    const size_t small = TOTAL / smalls();
    for (unsigned i = 0; i < smalls(); i++)
        engine_put(fd, small, (off_t)(i * small), 1);
}

/* How many WRITEs the fsync took. */
static unsigned writes_of_fsync(int fd)
{
    unsigned before = server_calls(NFS_PROC_WRITE);
    CHECK_EQUAL(engine_fsync(fd), 0);
    return server_calls(NFS_PROC_WRITE) - before;
}

ENGINE_TEST(neighbours_are_written_together_and_committed_once)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    unsigned commits = server_calls(NFS_PROC_COMMIT);
    CHECK(writes_of_fsync(fd) < 10);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_FILE_SYNC]), 0);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT) - commits, 2);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", TOTAL, 0, 1);
}

/* The server takes less of each WRITE than it is sent. */
ENGINE_TEST(short_replies_while_it_is_written_again)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    atomic_store(&scene.control->short_write, 50001);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", TOTAL, 0, 1);
}

/* While it is written again the server loses power once more, after the second of these calls. */
static void is_written_again_twice(enum nfs_procedure procedure)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    atomic_store(&scene.control->power_after[procedure], 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(atomic_load(&scene.control->power_after[procedure]), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", TOTAL, 0, 1);
}

ENGINE_TEST(a_restart_while_it_is_written_again)
{
    is_written_again_twice(NFS_PROC_WRITE);
}

/* What was written again is lost once more before its COMMIT. */
ENGINE_TEST(a_restart_before_what_was_written_again_is_committed)
{
    is_written_again_twice(NFS_PROC_COMMIT);
}

ENGINE_TEST(pieces_apart_are_on_their_way_together)
{
    enum { PIECES = 100 };
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < PIECES; i++)
        engine_put(fd, SMALL, (off_t)i * SPREAD, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(writes_of_fsync(fd), PIECES);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 0; i < PIECES; i++)
        disk_expect("f", SMALL, (off_t)i * SPREAD, 1);
}

ENGINE_TEST(pieces_that_are_longer_than_a_write)
{
    enum { PIECES = 3, LENGTH = 50000, APART = 1 << 17 };
    atomic_store(&scene.control->wtmax, 8192);
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < PIECES; i++)
        engine_put(fd, LENGTH, (off_t)i * APART, 1);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    for (unsigned i = 0; i < PIECES; i++)
        disk_expect("f", LENGTH, (off_t)i * APART, 1);
}

/* A full disk: each is tried once, and stays for another time. */
ENGINE_TEST(what_finds_no_room_stays)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR);
    put_small(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_WRITE, 1000000, NFS3ERR_NOSPC);
    unsigned before = server_calls(NFS_PROC_WRITE);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK(server_calls(NFS_PROC_WRITE) - before < smalls() / 40);
    CHECK_EQUAL(ledger_uncommitted(), TOTAL);
    server_fail(NFS_PROC_WRITE, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", TOTAL, 0, 1);
}

/* ---- what somebody else wrote since ---- */

enum { CLOCK_STEP_US = 30000 }; /* the clock of file systems goes in steps */

/* Version 1 in the ledger, over version 0 on the disk. */
static int written_over(void)
{
    disk_make("f", SIZE, 0);
    return written();
}

static struct timespec time_of(const char *name)
{
    char path[SCENE_PATH];
    struct stat status;
    scene_file_path(path, name);
    CHECK_EQUAL(stat(path, &status), 0);
    return status.st_mtim;
}

static void date(const char *name, struct timespec mtime)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    CHECK_EQUAL(utimensat(AT_FDCWD, path, (struct timespec[]){{0, UTIME_OMIT}, mtime}, 0), 0);
}

/* As another host, past this one. */
static void somebody_writes(const char *name, size_t length, off_t offset, unsigned version)
{
    char path[SCENE_PATH];
    uint8_t *data = malloc(length);
    usleep(CLOCK_STEP_US);
    scene_file_path(path, name);
    data_fill(data, length, (uint64_t)offset, version);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQUAL(pwrite(fd, data, length, offset), length);
    close(fd);
    free(data);
}

/* What the server's clock says is known by a write to another file. */
static void hear_the_time(void)
{
    static int fd = -1;
    if (fd < 0) {
        disk_make("g", 0, 0);
        fd = engine_adopt("g", O_RDWR);
    }
    usleep(CLOCK_STEP_US);
    engine_put(fd, 1000, 0, 1);
}

static unsigned lines_with(const char *one, const char *other)
{
    unsigned count = 0;
    char line[1024];
    FILE *log = fopen(getenv("DIRECTNFS_LOG"), "r");
    CHECK(log != NULL);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, one) && strstr(line, other);
    fclose(log);
    return count;
}

static void expect_a_conflict(int fd)
{
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(lines_with("/f: ", "are not written again, as somebody else changed the file"), 1);
    CHECK_EQUAL(set_aside("f"), SIZE);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void expect_no_conflict(int fd)
{
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(lines_with("/f: ", "not written again"), 0);
    CHECK_EQUAL(set_aside("f"), 0);
}

ENGINE_TEST(what_another_host_wrote_before_the_restart_is_kept)
{
    int fd = written_over();
    somebody_writes("f", SIZE, 0, 2);
    hear_the_time();
    server_do(FILE_SERVER_NEW_VERIFIER);
    expect_a_conflict(fd);
    disk_expect("f", SIZE, 0, 2);
    engine_put(fd, SIZE, 0, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", SIZE, 0, 3);
}

ENGINE_TEST(what_another_host_wrote_after_the_restart_is_kept)
{
    int fd = written_over();
    server_do(FILE_SERVER_LOSE_POWER);
    hear_the_time();
    somebody_writes("f", SIZE, 0, 2);
    expect_a_conflict(fd);
    disk_expect("f", SIZE, 0, 2);
}

/* Being asked for the times meanwhile does not make the change this host's. */
ENGINE_TEST(a_change_that_was_seen_is_kept)
{
    int fd = written_over();
    somebody_writes("f", SIZE, 0, 2);
    mount_tunables.actimeo = 0;
    CHECK_EQUAL(engine_size(fd), SIZE);
    hear_the_time();
    server_do(FILE_SERVER_NEW_VERIFIER);
    expect_a_conflict(fd);
    disk_expect("f", SIZE, 0, 2);
}

/* And it is not written again. */
ENGINE_TEST(what_the_server_has_all_the_same_is_no_loss_though_another_host_appended)
{
    int fd = written_over();
    somebody_writes("f", SIZE, SIZE, 2);
    server_do(FILE_SERVER_NEW_VERIFIER);
    unsigned before = server_calls(NFS_PROC_WRITE);
    expect_no_conflict(fd);
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), before);
    disk_expect("f", SIZE, 0, 1);
    disk_expect("f", SIZE, SIZE, 2);
}

ENGINE_TEST(what_is_lost_stays_while_there_is_no_room_to_set_it_aside)
{
    int fd = written_over();
    somebody_writes("f", SIZE, 0, 2);
    hear_the_time();
    server_do(FILE_SERVER_NEW_VERIFIER);
    no_descriptors_begin();
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK(ledger_uncommitted() >= SIZE);
    no_descriptors_end();
    CHECK_EQUAL(lines_with("/f: ", "cannot be set aside"), 1);
    expect_a_conflict(fd);
    disk_expect("f", SIZE, 0, 2);
}

/* The time is no proof here, as the server may have set it while it recovered, or counts seconds.
 */
ENGINE_TEST(what_another_host_appended_after_the_restart_is_kept)
{
    int fd = written_over();
    server_do(FILE_SERVER_LOSE_POWER);
    struct timespec before = time_of("f");
    somebody_writes("f", SIZE, SIZE, 2);
    date("f", before);
    expect_a_conflict(fd);
    disk_expect("f", SIZE, SIZE, 2);
}

ENGINE_TEST(the_same_time_is_no_conflict)
{
    int fd = written_over();
    struct timespec before = time_of("f");
    somebody_writes("f", SIZE, 0, 2);
    date("f", before);
    hear_the_time();
    server_do(FILE_SERVER_NEW_VERIFIER);
    expect_no_conflict(fd);
}

/* The times of the other parts are older than what these made of the file. */
ENGINE_TEST(a_write_of_which_some_parts_are_answered_without_a_time_is_no_conflict)
{
    atomic_store(&scene.control->wtmax, 32768);
    atomic_store(&scene.control->bare_from, 50000);
    atomic_store(&scene.control->delay_ms, CLOCK_STEP_US / 1000);
    int fd = written_over();
    atomic_store(&scene.control->delay_ms, 0);
    hear_the_time();
    server_do(FILE_SERVER_LOSE_POWER);
    expect_no_conflict(fd);
    disk_expect("f", SIZE, 0, 1);
}

/* As OpenZFS does with what it has in its log. But somebody may have written: that is said. */
ENGINE_TEST(a_file_that_the_server_dated_as_it_recovered_is_no_conflict)
{
    int fd = written_over();
    hear_the_time();
    server_do(FILE_SERVER_LOSE_POWER);
    usleep(CLOCK_STEP_US);
    date("f", (struct timespec){0, UTIME_NOW});
    hear_the_time();
    expect_no_conflict(fd);
    CHECK_EQUAL(lines_with("/f: ", "what somebody else wrote is written over"), 1);
    disk_expect("f", SIZE, 0, 1);
}

static void *syncs(void *fd)
{
    return (void *)(intptr_t)engine_fsync(*(int *)fd);
}

/* Its call of this procedure waits. */
static pthread_t begin_fsync(int *fd, enum nfs_procedure procedure)
{
    pthread_t thread;
    server_hold(procedure);
    CHECK_EQUAL(pthread_create(&thread, NULL, syncs, fd), 0);
    server_wait_held(1);
    return thread;
}

static int end_fsync(pthread_t thread)
{
    void *result;
    server_release();
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    return (int)(intptr_t)result;
}

/* The COMMIT waits over the restart: it is older than the last answers of before. */
ENGINE_TEST(a_file_that_the_server_dated_during_a_commit_is_no_conflict)
{
    int fd = written_over();
    pthread_t thread = begin_fsync(&fd, NFS_PROC_COMMIT);
    hear_the_time();
    server_do(FILE_SERVER_LOSE_POWER);
    usleep(CLOCK_STEP_US);
    date("f", (struct timespec){0, UTIME_NOW});
    CHECK_EQUAL(end_fsync(thread), 0);
    CHECK_EQUAL(lines_with("/f: ", "what somebody else wrote is written over"), 1);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(what_another_host_wrote_during_a_commit_before_the_restart_is_kept)
{
    int fd = written_over();
    pthread_t thread = begin_fsync(&fd, NFS_PROC_COMMIT);
    somebody_writes("f", SIZE, 0, 2);
    hear_the_time();
    server_do(FILE_SERVER_NEW_VERIFIER);
    CHECK_EQUAL(end_fsync(thread), -EIO);
    disk_expect("f", SIZE, 0, 2);
}

/* ---- a server that does not tell whether somebody did ---- */

/* Somebody wrote, and the server lost what this host wrote before: it is known once the server is
 * asked for the times. */
static int conflict_to_be_found(void)
{
    int fd = written_over();
    somebody_writes("f", SIZE, 0, 2);
    hear_the_time();
    server_do(FILE_SERVER_NEW_VERIFIER);
    return fd;
}

static uint64_t uncommitted(int fd)
{
    struct file_open *open = engine_begin(fd);
    uint64_t bytes = ledger_file_uncommitted(&open->inode->entry);
    engine_end(open);
    return bytes;
}

static void expect_not_written_again_yet(int fd, int result)
{
    unsigned before = server_calls(NFS_PROC_WRITE);
    CHECK_EQUAL(engine_fsync(fd), result);
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), before);
    CHECK_EQUAL(uncommitted(fd), SIZE);
    CHECK_EQUAL(lines_with("/f: ", "is not written again before server scripted tells"), 1);
}

ENGINE_TEST(nothing_is_written_again_before_the_server_tells_of_others)
{
    int fd = conflict_to_be_found();
    server_fail(NFS_PROC_GETATTR, 1000000, NFS3ERR_SERVERFAULT);
    expect_not_written_again_yet(fd, -EIO);
    disk_expect("f", SIZE, 0, 2);
    server_fail(NFS_PROC_GETATTR, 0, 0);
    expect_a_conflict(fd);
    disk_expect("f", SIZE, 0, 2);
}

ENGINE_TEST(what_nobody_changed_is_written_again_once_the_server_tells_so)
{
    int fd = written_over();
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_GETATTR, 1000000, NFS3ERR_ACCES);
    expect_not_written_again_yet(fd, -EACCES);
    server_fail(NFS_PROC_GETATTR, 0, 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(a_server_that_is_away_when_it_is_asked_is_waited_for)
{
    int fd = conflict_to_be_found();
    pthread_t thread = begin_fsync(&fd, NFS_PROC_GETATTR);
    server_do(FILE_SERVER_STOP);
    usleep(100000);
    server_do(FILE_SERVER_START);
    CHECK_EQUAL(end_fsync(thread), -EIO);
    disk_expect("f", SIZE, 0, 2);
    CHECK_EQUAL(uncommitted(fd), 0);
}

static void is_given_up(void)
{
    int fd = conflict_to_be_found();
    server_hold(NFS_PROC_GETATTR);
    expect_not_written_again_yet(fd, -ETIMEDOUT);
    server_release();
    expect_a_conflict(fd);
    disk_expect("f", SIZE, 0, 2);
}

SCENE_TEST(nothing_is_written_again_when_the_server_was_asked_for_too_long)
{
    scene_configure("soft_timeout = 1;");
    scene_run(is_given_up);
}

ENGINE_TEST(a_handle_that_is_stale_when_the_server_is_asked_is_found_again)
{
    int fd = conflict_to_be_found();
    server_fail(NFS_PROC_GETATTR, 1, NFS3ERR_STALE);
    expect_a_conflict(fd);
    disk_expect("f", SIZE, 0, 2);
}

ENGINE_TEST(a_file_that_is_removed_when_the_server_is_asked_is_no_loss)
{
    int fd = written_over();
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    server_do(FILE_SERVER_NEW_VERIFIER);
    pthread_t thread = begin_fsync(&fd, NFS_PROC_GETATTR);
    CHECK_EQUAL(unlink(path), 0);
    CHECK_EQUAL(end_fsync(thread), 0);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(ledger_uncommitted(), 0);
}

/* ---- what only looks so ---- */

ENGINE_TEST(a_server_that_comes_back_to_an_older_time_is_no_conflict)
{
    int fd = written_over();
    server_do(FILE_SERVER_LOSE_POWER);
    date("f", (struct timespec){1000000000, 0});
    hear_the_time();
    expect_no_conflict(fd);
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(an_own_change_of_size_is_no_conflict)
{
    int fd = written_over();
    usleep(CLOCK_STEP_US);
    CHECK_EQUAL(engine_truncate(fd, SIZE / 2), 0);
    hear_the_time();
    server_do(FILE_SERVER_LOSE_POWER);
    expect_no_conflict(fd);
    disk_expect("f", SIZE / 2, 0, 1);
}

/* The process may have died before it said so. */
ENGINE_TEST(a_file_that_the_kernel_emptied_is_no_conflict)
{
    char path[SCENE_PATH];
    int fd = written_over();
    scene_file_path(path, "f");
    usleep(CLOCK_STEP_US);
    CHECK_EQUAL(truncate(path, 0), 0);
    hear_the_time();
    server_do(FILE_SERVER_NEW_VERIFIER);
    expect_no_conflict(fd);
}

/* The server carries out the write that it holds after it was asked for the times. */
static void is_carried_out_late(int fd)
{
    mount_tunables.actimeo = 0;
    CHECK_EQUAL(engine_size(fd), SIZE);
    server_release();
    end_holds();
    hear_the_time();
    server_do(FILE_SERVER_LOSE_POWER);
    expect_no_conflict(fd);
    disk_expect("f", SIZE - SMALL, 0, 1);
}

static void write_is_late(void)
{
    int fd = written_over();
    uint8_t data[SMALL] = {0};
    usleep(CLOCK_STEP_US);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(engine_write(fd, data, SMALL, SIZE - SMALL), -ETIMEDOUT);
    is_carried_out_late(fd);
}

SCENE_TEST(an_own_write_that_failed_and_is_carried_out_late_is_no_conflict)
{
    strcpy(scene.conf, "soft_timeout = 1; failover_hold = 300;");
    scene_environment();
    scene_run(write_is_late);
}

static void writes_and_is_killed(void)
{
    uint8_t data[SMALL] = {0};
    int fd = engine_adopt("f", O_RDWR);
    step_wait(0);
    engine_write(fd, data, SMALL, SIZE - SMALL);
}

static void outlives_the_writer(void)
{
    int fd = written();
    usleep(CLOCK_STEP_US);
    server_hold(NFS_PROC_WRITE);
    step_done(0);
    step_wait(1);
    ledger_process_sweep(0);
    is_carried_out_late(fd);
}

SCENE_TEST(what_a_killed_process_of_this_host_had_in_flight_is_no_conflict)
{
    strcpy(scene.conf, "failover_hold = 300;");
    scene_environment();
    disk_make("f", SIZE, 0);
    pid_t killed = scene_start(writes_and_is_killed);
    pid_t other = scene_start(outlives_the_writer);
    server_wait_held(1);
    scene_kill(killed);
    step_done(1);
    scene_wait(other);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
