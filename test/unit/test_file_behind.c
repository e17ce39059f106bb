/* Write-behind: over at once, and in few WRITEs. */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "async_scene.h"
#include "behind_scene.h"
#include "durable/flush.h"
#include "durable/fsync.h"
#include "fd/adopt.h"
#include "fd/life.h"
#include "fd/stat.h"
#include "fd/truncate.h"
#include "ledger/dirty.h"
#include "rounds.h"

enum { MEBIBYTE = 1 << 20 };

static void wait_until_sent(unsigned count)
{
    for (int i = 0; writes() < count; i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
}

/* ---- few calls ---- */

/* As tar does with each file: one call, and not a WRITE and a COMMIT. */
BEHIND_TEST(what_is_written_before_a_change_of_attributes_is_one_call)
{
    struct stat status;
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(fstat(fd, &status), 0);
    put_blocks(fd, 0, 2, 1);
    sys_critical_enter();
    fd_attributes_changing(status.st_dev, status.st_ino);
    sys_critical_leave();
    CHECK_EQUAL(engine_close(fd), 0);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_FILE_SYNC]), 1);
    CHECK_EQUAL(writes(), 1);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 2 * PAGE_BYTES, 0, 1);
}

BEHIND_TEST(neighbouring_writes_are_one_call_and_stable)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 16, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(writes(), 1);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_FILE_SYNC]), 1);
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 16 * PAGE_BYTES, 0, 1);
}

/* A database that hurries pages on their way does not want each of the next sent alone. */
BEHIND_TEST(what_comes_while_others_are_sent_is_not_sent_piece_by_piece)
{
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = engine_begin(fd);
    server_hold(NFS_PROC_WRITE);
    put_blocks(fd, 8, 1, 1);
    put_blocks(fd, 0, 1, 1);
    durable_write_out(open, 0, 0, false);
    server_wait_held(2);
    uint64_t begun_ns = sys_now_ns();
    put_blocks(fd, 1, 1, 1);
    server_release();
    usleep(100000);
    unsigned sent = writes();
    if (sys_now_ns() - begun_ns < UINT64_C(400000000)) /* else it may be due */
        CHECK_EQUAL(sent, 2);
    engine_end(open);
}

/* They are copied in another way: into chunks that are new, and then into some that are not. */
BEHIND_TEST(scattered_writes_of_any_length)
{
    enum { COUNT = 40, STEP = 2 * MEBIBYTE / 16 };
    static const size_t lengths[] = {1, 100, 8191, 8192, 8193, 65536, 70000};
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned version = 1; version <= 2; version++) {
        for (unsigned i = COUNT; i-- > 0;)
            engine_put(fd, lengths[i % 7], (off_t)i * STEP + 5 * i, version);
        for (unsigned i = 0; i < COUNT; i++)
            engine_expect(fd, lengths[i % 7], (off_t)i * STEP + 5 * i, version);
        CHECK_EQUAL(engine_fsync(fd), 0);
        for (unsigned i = 0; i < COUNT; i++)
            disk_expect("f", lengths[i % 7], (off_t)i * STEP + 5 * i, version);
    }
    char two[300];
    struct iovec parts[3] = {{two, 100}, {two + 100, 0}, {two + 100, 200}};
    for (unsigned i = 0; i < sizeof(two); i++)
        two[i] = (char)i;
    CHECK_EQUAL(engine_writev(fd, parts, 3, 3 * MEBIBYTE, 0), 300);
    char got[300];
    CHECK_EQUAL(engine_read(fd, got, 300, 3 * MEBIBYTE), 300);
    CHECK(memcmp(got, two, 300) == 0);
    CHECK_EQUAL(engine_write(fd, (void *)8, 100, 9 * MEBIBYTE), -EFAULT);
}

BEHIND_TEST(many_writes_are_full_ones)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 1024, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(writes() <= 32);
    CHECK_EQUAL(stats_get(&stats_own->counters.gathered_bytes), 1024 * PAGE_BYTES);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 1024 * PAGE_BYTES, 0, 1);
}

BEHIND_TEST(overwriting_is_sent_once)
{
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned version = 1; version <= 100; version++)
        engine_put(fd, PAGE_BYTES, 0, version);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(writes() <= 10); /* the thread of ours sends it in between where the machine is slow */
    disk_expect("f", PAGE_BYTES, 0, 100);
}

BEHIND_TEST(what_is_dirty_is_sent_soon_by_itself)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, PAGE_BYTES, 0, 1);
    wait_until_sent(1);
    disk_expect("f", PAGE_BYTES, 0, 1);
    put_blocks(fd, 1, 3, 1);
    wait_until_sent(2);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

BEHIND_TEST(what_is_written_with_direct_or_synchronous_descriptors_is_not_behind)
{
    static const int flags[] = {O_DIRECT, O_DSYNC, O_SYNC};
    for (unsigned i = 0; i < 3; i++) {
        int fd = engine_adopt("f", O_RDWR | flags[i]);
        unsigned before = writes();
        engine_put(fd, PAGE_BYTES, 0, i);
        CHECK_EQUAL(writes(), before + 1);
        CHECK_EQUAL(engine_close(fd), 0);
    }
}

BEHIND_TEST(a_close_of_a_file_that_was_written_leaves_nothing_dirty)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 4, 1);
    CHECK_EQUAL(engine_close(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 4 * PAGE_BYTES, 0, 1);
}

/* ---- everybody sees it ---- */

BEHIND_TEST(it_is_read_back_without_a_call)
{
    int fd = engine_adopt("f", O_RDWR);
    server_hold(NFS_PROC_WRITE);
    put_blocks(fd, 0, 16, 1);
    put_blocks(fd, 3, 2, 2);
    expect_blocks(fd, 0, 3, 1);
    expect_blocks(fd, 3, 2, 2);
    expect_blocks(fd, 5, 11, 1);
    CHECK_EQUAL(server_calls(NFS_PROC_READ), 0);
    CHECK_EQUAL(engine_size(fd), 16 * PAGE_BYTES);
    server_release();
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void writes_and_stays(void)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 8, 7);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_close(fd), 0);
}

static void reads_and_syncs(void)
{
    step_wait(0);
    int fd = engine_adopt("f", O_RDWR);
    expect_blocks(fd, 0, 8, 7);
    CHECK_EQUAL(engine_size(fd), 8 * PAGE_BYTES);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 8 * PAGE_BYTES, 0, 7);
    step_done(1);
}

SCENE_TEST(another_process_reads_it_and_its_fsync_makes_it_safe)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    pid_t writer = scene_start(writes_and_stays);
    scene_run(reads_and_syncs);
    scene_wait(writer);
}

static void writes_and_is_killed(void)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 8, 5);
    step_done(0);
    pause();
}

static void finds_it(void)
{
    int fd = engine_adopt("f", O_RDWR);
    expect_blocks(fd, 0, 8, 5);
    CHECK_EQUAL(engine_size(fd), 8 * PAGE_BYTES);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 8 * PAGE_BYTES, 0, 5);
}

SCENE_TEST(data_of_a_killed_process_is_sent_by_the_next)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    server_hold(NFS_PROC_WRITE);
    pid_t writer = scene_start(writes_and_is_killed);
    step_wait(0);
    scene_kill(writer);
    server_release();
    scene_run(finds_it);
}

static void *syncs(void *fd)
{
    CHECK_EQUAL(engine_fsync(*(int *)fd), 0);
    return NULL;
}

/* With a WRITE on its way, whose answer it does not take. */
static void writes_and_is_stopped(void)
{
    pthread_t thread;
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 32, 5);
    CHECK(pthread_create(&thread, NULL, syncs, &fd) == 0);
    server_wait_held(1);
    step_done(0);
    raise(SIGSTOP);
    pthread_join(thread, NULL);
    step_wait(2);
    expect_blocks(fd, 0, 1, 6);
    expect_blocks(fd, 1, 31, 5);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", PAGE_BYTES, 0, 6);
    disk_expect("f", 31 * PAGE_BYTES, PAGE_BYTES, 5);
}

static void syncs_beside_it(void)
{
    step_wait(1); /* it is stopped */
    int fd = engine_adopt("f", O_RDWR);
    expect_blocks(fd, 0, 32, 5);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 32 * PAGE_BYTES, 0, 5);
    put_blocks(fd, 0, 1, 6);
    expect_blocks(fd, 0, 1, 6);
    step_done(2);
}

SCENE_TEST(a_process_that_is_stopped_does_not_keep_others_from_fsync)
{
    int status;
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    server_hold(NFS_PROC_WRITE);
    pid_t stopped = scene_start(writes_and_is_stopped);
    CHECK(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status));
    server_release();
    pid_t other = scene_start(syncs_beside_it);
    step_done(1);
    step_wait(2);
    kill(stopped, SIGCONT);
    scene_wait(stopped);
    scene_wait(other);
}

BEHIND_TEST(a_child_sees_it_and_does_not_send_it_again)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, PAGE_BYTES, 0, 1);
    wait_until_sent(1);
    server_hold(NFS_PROC_WRITE);
    put_blocks(fd, 0, 4, 2);
    pid_t child = engine_fork();
    if (child == 0) {
        expect_blocks(fd, 0, 4, 2);
        _exit(0);
    }
    scene_wait(child);
    server_release();
    CHECK_EQUAL(engine_close(fd), 0);
    disk_expect("f", 4 * PAGE_BYTES, 0, 2);
}

static int engine_fstat(int fd)
{
    struct stat status;
    struct file_open *open = engine_begin(fd);
    CHECK(open != NULL && fstat(fd, &status) == 0);
    int result = fd_stat(open, fd, &status);
    engine_end(open);
    return result;
}

/* It has not written yet, and has no place in the registry. */
BEHIND_TEST(a_child_sends_what_its_parent_wrote)
{
    uint8_t data[3 * PAGE_BYTES];
    int fd = engine_adopt("f", O_RDWR);
    for (int what = 0; what < 3; what++) {
        put_blocks(fd, 1, 1, 2);
        pid_t child = engine_fork();
        if (child == 0 && what == 0)
            CHECK_EQUAL(engine_fsync(fd), 0);
        else if (child == 0 && what == 1)
            CHECK_EQUAL(engine_read(fd, data, sizeof(data), 0), 2 * PAGE_BYTES);
        else if (child == 0)
            CHECK_EQUAL(engine_fstat(fd), 0);
        if (child == 0)
            _exit(0);
        scene_wait(child);
    }
}

BEHIND_TEST(a_stream_for_reading_has_what_was_written)
{
    char path[SCENE_PATH];
    uint8_t data[PAGE_BYTES];
    int fd = engine_adopt("f", O_RDWR);
    scene_file_path(path, "f");
    put_blocks(fd, 0, 1, 1);
    int stream = open(path, O_RDONLY | O_CLOEXEC);
    sys_critical_enter();
    fd_opened_for_kernel(stream, O_RDONLY, "stdio");
    sys_critical_leave();
    CHECK_EQUAL(pread(stream, data, PAGE_BYTES, 0), PAGE_BYTES);
    CHECK(data_is(data, PAGE_BYTES, 0, 1));
    close(stream);
}

BEHIND_TEST(a_lock_is_asked_for_and_given_back_with_all_at_the_server)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 1, 1);
    sys_critical_enter();
    fd_locking(fd);
    sys_critical_leave();
    disk_expect("f", PAGE_BYTES, 0, 1);
}

/* Each close ends the locks of the process: fcntl_locking(2). */
BEHIND_TEST(a_close_gives_locks_back_with_all_at_the_server)
{
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("f", O_RDONLY);
    struct file_open *open = engine_begin(fd);
    fd_locked(open);
    engine_end(open);
    put_blocks(fd, 0, 1, 1);
    CHECK_EQUAL(engine_close(other), 0);
    disk_expect("f", PAGE_BYTES, 0, 1);
}

static _Atomic bool enough;

static void *writes_on(void *fd)
{
    for (unsigned n = 0; !atomic_load(&enough); n++) {
        engine_put(*(int *)fd, 512, 0, n);
        if (n % 8 == 7)
            usleep(
                1); /* where one thread runs at a time (valgrind) the other's turn would not come */
    }
    return NULL;
}

BEHIND_TEST(a_child_sends_what_it_writes_itself)
{
    pthread_t thread;
    int fd = engine_adopt("f", O_RDWR);
    CHECK(pthread_create(&thread, NULL, writes_on, &fd) == 0);
    for (unsigned i = 0; i < rounds_of(200); i++) {
        pid_t child = engine_fork();
        if (child == 0)
            _exit(atomic_load(&atomic_load(&file_table[fd])->inode->behind_listed) ? 1 : 0);
        scene_wait(child);
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
}

/* ---- memory that is fetched when it is touched ---- */

struct slow_read {
    int fd;
    void *memory;
};

static void *read_slowly(void *argument)
{
    const struct slow_read *slow = argument;
    CHECK_EQUAL(engine_read(slow->fd, slow->memory, PAGE_BYTES, 0), PAGE_BYTES);
    return NULL;
}

/* A map of a file of a server that is away, say: nobody else waits for it. */
BEHIND_TEST(who_reads_into_memory_that_is_away_keeps_nobody_waiting)
{
    struct slow_read slow = {.fd = engine_adopt("f", O_RDWR)};
    struct uffdio_api api = {.api = UFFD_API};
    struct uffd_msg fault;
    pthread_t thread;
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0)
        return; /* not permitted here */
    slow.memory =
        mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register area = {.range = {(uintptr_t)slow.memory, PAGE_BYTES},
                                   .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct uffdio_zeropage zeros = {.range = area.range};
    CHECK_EQUAL(ioctl(faults, UFFDIO_API, &api), 0);
    CHECK_EQUAL(ioctl(faults, UFFDIO_REGISTER, &area), 0);
    put_blocks(slow.fd, 0, 2, 1);
    CHECK_EQUAL(pthread_create(&thread, NULL, read_slowly, &slow), 0);
    CHECK_EQUAL(read(faults, &fault, sizeof(fault)), sizeof(fault));
    put_blocks(slow.fd, 1, 1, 2);
    expect_blocks(slow.fd, 1, 1, 2);
    CHECK_EQUAL(ioctl(faults, UFFDIO_ZEROPAGE, &zeros), 0);
    pthread_join(thread, NULL);
    CHECK(data_is(slow.memory, PAGE_BYTES, 0, 1));
    close(faults);
}

/* ---- sizes ---- */

BEHIND_TEST(a_hole_before_what_is_dirty_is_read_as_zeros)
{
    uint8_t data[PAGE_BYTES], zeros[PAGE_BYTES] = {0};
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 100, 10 * PAGE_BYTES, 1);
    CHECK_EQUAL(engine_read(fd, data, PAGE_BYTES, PAGE_BYTES), PAGE_BYTES);
    CHECK(memcmp(data, zeros, PAGE_BYTES) == 0);
    CHECK_EQUAL(engine_read(fd, data, PAGE_BYTES, 10 * PAGE_BYTES), 100);
    CHECK_EQUAL(engine_read(fd, data, PAGE_BYTES, 10 * PAGE_BYTES + 100), 0);
}

BEHIND_TEST(a_truncation_cuts_it)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 16, 1);
    CHECK_EQUAL(engine_truncate(fd, 5 * PAGE_BYTES), 0);
    CHECK_EQUAL(engine_size(fd), 5 * PAGE_BYTES);
    expect_blocks(fd, 0, 5, 1);
    put_blocks(fd, 2, 1, 3);
    CHECK_EQUAL(engine_truncate(fd, 0), 0);
    put_blocks(fd, 0, 2, 4);
    CHECK_EQUAL(engine_close(fd), 0);
    CHECK_EQUAL(disk_size("f"), 2 * PAGE_BYTES);
    disk_expect("f", 2 * PAGE_BYTES, 0, 4);
}

BEHIND_TEST(appends_are_behind_too)
{
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    for (unsigned i = 0; i < 50; i++)
        append_there(fd, 1000, (off_t)i * 1000, 1);
    CHECK(writes() < 25);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(disk_size("f"), 50000);
    disk_expect("f", 50000, 0, 1);
}

BEHIND_TEST(a_direct_write_goes_over_what_is_dirty)
{
    int behind = engine_adopt("f", O_RDWR), direct = engine_adopt("f", O_RDWR | O_DIRECT);
    for (unsigned i = 1; i < 100; i += 2) {
        put_blocks(behind, 0, 4, i);
        engine_put(direct, PAGE_BYTES, PAGE_BYTES, i + 1);
        engine_expect(behind, PAGE_BYTES, PAGE_BYTES, i + 1);
        engine_expect(direct, PAGE_BYTES, 0, i);
    }
    CHECK_EQUAL(engine_fsync(behind), 0);
    disk_expect("f", PAGE_BYTES, PAGE_BYTES, 100);
}

BEHIND_TEST(a_request_reads_what_is_dirty)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK((lane = async_lane_new()) != NULL);
    engine_put(fd, PAGE_BYTES, 0, 1);
    job_prepare(&jobs[0], ASYNC_READ, fd, PAGE_BYTES, 0);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, PAGE_BYTES);
    CHECK(data_is(jobs[0].data, PAGE_BYTES, 0, 1));
    put_blocks(fd, 4, 1, 1); /* behind a hole, where the server's file does not end yet */
    job_prepare(&jobs[0], ASYNC_READ, fd, PAGE_BYTES, 2 * PAGE_BYTES);
    submit(0, 1);
    wait_for_job(&jobs[0]);
    CHECK_EQUAL(jobs[0].result, PAGE_BYTES);
}

BEHIND_TEST(the_kernel_gets_a_file_with_all_that_was_written)
{
    int fd = engine_adopt("f", O_RDWR);
    put_blocks(fd, 0, 16, 1);
    CHECK_EQUAL(engine_demote(fd), 0);
    disk_expect("f", 16 * PAGE_BYTES, 0, 1);
}

/* ---- bounds ---- */

static void writes_more_than_fits(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 200000, 0, 1);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

SCENE_TEST(a_server_that_takes_little_at_a_time_gets_it_so)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    atomic_store(&scene.control->wtmax, 32768);
    scene_run(writes_more_than_fits);
    CHECK(atomic_load(&scene.control->longest_write) <= 32768);
    disk_expect("f", 200000, 0, 1);
}

static void more_than_fits(void)
{
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < 64; i++) {
        engine_put(fd, MEBIBYTE, (off_t)i * MEBIBYTE, 1);
        CHECK(ledger_file_dirty(&atomic_load(&file_table[fd])->inode->entry) <= 5 * MEBIBYTE);
    }
    CHECK(stats_get(&stats_own->counters.behind_waits) > 0);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

SCENE_TEST(no_more_is_dirty_than_is_allowed)
{
    scene_configure("write_behind_max = 4194304; uncommitted_max = 33554432;");
    disk_make("f", 0, 0);
    scene_run(more_than_fits);
    for (unsigned i = 0; i < 64; i++)
        disk_expect("f", MEBIBYTE, (off_t)i * MEBIBYTE, 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
