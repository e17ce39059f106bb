/* Reading ahead: what others write meanwhile. */
#include "ahead_scene.h"
#include "ahead/fetched.h"
#include "fd/life.h"

static void writes_block_5(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BLOCK, 5 * BLOCK, 2);
    step_done(1);
}

static void reads_around_a_write(void)
{
    int fd = begun(1);
    step_done(0);
    step_wait(1);
    expect_blocks(fd, 4, 1, 1);
    expect_blocks(fd, 5, 1, 2);
    expect_blocks(fd, 6, BLOCKS - 6, 1);
}

SCENE_TEST(what_another_process_writes_is_read)
{
    scene_configure(AHEAD);
    disk_make("f", SIZE, 1);
    pid_t reader = scene_start(reads_around_a_write);
    step_wait(0);
    scene_run(writes_block_5);
    scene_wait(reader);
}

static void writes_block_60(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BLOCK, 60 * BLOCK, 2);
    step_done(1);
}

static void reads_after_a_slow_write(void)
{
    int fd = begun(1); /* while the write is on its way */
    expect_blocks(fd, 4, 40, 1);
    step_done(0);
    step_wait(1);
    expect_blocks(fd, 44, 16, 1);
    expect_blocks(fd, 60, 1, 2);
}

SCENE_TEST(what_was_in_flight_when_more_was_fetched_is_read)
{
    scene_configure(AHEAD);
    disk_make("f", SIZE, 1);
    server_hold(NFS_PROC_WRITE);
    pid_t writer = scene_start(writes_block_60);
    server_wait_held(1);
    pid_t reader = scene_start(reads_after_a_slow_write);
    step_wait(0);
    server_release();
    scene_wait(writer);
    scene_wait(reader);
}

AHEAD_TEST(what_this_process_writes_is_read)
{
    disk_make("f", SIZE, 1);
    int fd = begun(1), other = engine_adopt("f", O_RDWR);
    for (unsigned i = 4; i < 64; i++) {
        engine_put(i % 2 ? fd : other, BLOCK, (off_t)i * BLOCK, 2);
        engine_expect(fd, BLOCK, (off_t)i * BLOCK, 2);
    }
    expect_blocks(fd, 64, BLOCKS - 64, 1);
}

static void cuts_and_fills_again(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_truncate(fd, 0), 0);
    CHECK_EQUAL(engine_truncate(fd, SIZE), 0);
    step_done(1);
}

static void reads_zeros(void)
{
    int fd = begun(1);
    char data[BLOCK], zeros[BLOCK] = {0};
    step_done(0);
    step_wait(1);
    for (unsigned i = 4; i < BLOCKS; i++) {
        CHECK_EQUAL(engine_read(fd, data, BLOCK, (off_t)i * BLOCK), BLOCK);
        CHECK(memcmp(data, zeros, BLOCK) == 0);
    }
}

SCENE_TEST(what_another_process_cut_off_is_not_read)
{
    scene_configure(AHEAD);
    disk_make("f", SIZE, 1);
    pid_t reader = scene_start(reads_zeros);
    step_wait(0);
    scene_run(cuts_and_fills_again);
    scene_wait(reader);
}

static void extends(void)
{
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 4; i < 32; i++) {
        step_wait(0);
        engine_put(fd, BLOCK, (off_t)i * BLOCK, 1);
    }
}

static void reads_to_the_end(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    uint8_t data[BLOCK];
    off_t at = 0;
    step_done(0);
    while (at < 32 * BLOCK) {
        ssize_t got = engine_read(fd, data, BLOCK, at);
        CHECK(got >= 0 && data_is(data, (size_t)got, (uint64_t)at, 1));
        at += got;
    }
    CHECK_EQUAL(engine_read(fd, data, BLOCK, at), 0);
}

SCENE_TEST(a_reader_follows_a_file_that_grows)
{
    scene_configure(AHEAD);
    disk_make("f", 4 * BLOCK, 1);
    pid_t writer = scene_start(extends);
    scene_run(reads_to_the_end);
    scene_wait(writer);
}

/* Another host: what this host has of the file is a second old at most. */
AHEAD_TEST(what_was_fetched_grows_old)
{
    disk_make("f", SIZE, 1);
    int fd = begun(1);
    disk_make("f", SIZE, 2);
    usleep(1050000);
    expect_blocks(fd, 4, BLOCKS - 4, 2);
}

/* Though nobody has dropped it yet. */
AHEAD_TEST(what_is_too_old_is_not_read_whoever_drops_it)
{
    disk_make("f", SIZE, 1);
    int fd = begun(1);
    disk_make("f", SIZE, 2);
    struct file_open *open = engine_begin(fd);
    pthread_mutex_lock(&open->ahead.lock);
    for (unsigned i = 0; i < open->ahead.all->count; i++)
        open->ahead.all->parts[i]->asked_ns = 1;
    pthread_mutex_unlock(&open->ahead.lock);
    engine_end(open);
    expect_blocks(fd, 4, 4, 2);
}

/* The answer to a WRITE tells of it. */
AHEAD_TEST(what_was_fetched_behind_a_new_end_is_not_read)
{
    uint8_t data[BLOCK];
    char path[SCENE_PATH];
    disk_make("f", SIZE, 1);
    int fd = begun(1);
    expect_blocks(fd, 4, 12, 1); /* far from the write */
    scene_file_path(path, "f");
    CHECK_EQUAL(truncate(path, 16 * BLOCK + 100), 0); /* another host */
    engine_put(fd, BLOCK, 0, 2);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 16 * BLOCK), 100);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 17 * BLOCK), 0);
}

/* Who has got a lock sees what others wrote under it, and who opens a file what they closed. */
AHEAD_TEST(what_was_fetched_before_a_lock_is_old)
{
    disk_make("f", SIZE, 1);
    int fd = begun(1);
    disk_make("f", SIZE, 2);
    struct file_open *open = engine_begin(fd);
    fd_locked(open);
    engine_end(open);
    expect_blocks(fd, 4, 4, 2);
    disk_make("f", SIZE, 3);
    engine_close(engine_adopt("f", O_RDONLY));
    expect_blocks(fd, 8, BLOCKS - 8, 3);
}

/* Whoever makes it longer: the end that was met is not believed in any more. */
static void expect_end(int fd, unsigned blocks)
{
    uint8_t data[BLOCK];
    expect_blocks(fd, blocks - 1, 1, 1);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, (off_t)blocks * BLOCK), 0);
}

static void adds_block_5(void)
{
    engine_put(engine_adopt("f", O_RDWR), BLOCK, 5 * BLOCK, 1);
}

static void locks(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    step_done(0);
    step_wait(1);
    struct file_open *open = engine_begin(fd);
    fd_locked(open);
    engine_end(open);
    step_done(2);
}

static void meets_the_end(void)
{
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = engine_begin(fd);
    engine_end(open);
    expect_end(fd, 4);
    engine_put(fd, BLOCK, 4 * BLOCK, 1);
    expect_end(fd, 5);
    step_done(3);
    step_wait(4);
    expect_end(fd, 6);
    disk_make("f", 7 * BLOCK, 1); /* another host */
    fd_locked(open);
    expect_end(fd, 7);
    disk_make("f", 8 * BLOCK, 1);
    engine_close(engine_adopt("f", O_RDONLY));
    expect_end(fd, 8);
    disk_make("f", 9 * BLOCK, 1);
    usleep(1050000);
    expect_end(fd, 9);
    step_done(5);
    step_wait(0);
    expect_end(fd, 9);
    disk_make("f", 10 * BLOCK, 1);
    step_done(1);
    step_wait(2);
    expect_end(fd, 10);
    CHECK_EQUAL(engine_truncate(fd, 2 * BLOCK), 0);
    expect_end(fd, 2);
}

SCENE_TEST(the_end_that_was_met_is_asked_for_again)
{
    scene_configure(AHEAD);
    disk_make("f", 4 * BLOCK, 1);
    pid_t reader = scene_start(meets_the_end);
    step_wait(3);
    scene_run(adds_block_5);
    step_done(4);
    step_wait(5);
    scene_run(locks);
    scene_wait(reader);
}

/* A database asks for the size after it has a lock and has read where changes are counted. */
AHEAD_TEST(the_first_read_after_a_lock_tells_the_attributes)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_size(fd), SIZE);
    struct file_open *open = engine_begin(fd);
    fd_locked(open);
    engine_end(open);
    expect_blocks(fd, 7, 1, 1);
    uint64_t asked = server_calls(NFS_PROC_GETATTR), begun_ns = sys_now_ns();
    CHECK_EQUAL(engine_size(fd), SIZE);
    if (in_time(begun_ns))
        CHECK_EQUAL(server_calls(NFS_PROC_GETATTR), asked);
}

static void reads_what_another_host_wrote(void)
{
    int fd = begun(1);
    step_done(0);
    step_wait(1);
    expect_blocks(fd, 4, BLOCKS - 4, 2);
}

static void opens_what_another_host_wrote(void)
{
    step_wait(0);
    disk_make("f", SIZE, 2);
    int fd = engine_adopt("f", O_RDONLY);
    step_done(1);
    engine_close(fd);
}

static void asks_what_another_host_wrote(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    step_done(2);
    step_wait(0);
    disk_make("f", SIZE, 2);
    usleep(20000); /* actimeo */
    CHECK_EQUAL(engine_size(fd), SIZE);
    step_done(1);
}

static void locks_what_another_host_wrote(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    step_done(2);
    step_wait(0);
    disk_make("f", SIZE, 2);
    struct file_open *open = engine_begin(fd);
    fd_locked(open);
    engine_end(open);
    step_done(1);
}

/* What one process of this host has seen of it, the others see. */
SCENE_TEST(what_another_process_opened_is_read)
{
    scene_configure(AHEAD);
    disk_make("f", SIZE, 1);
    pid_t reader = scene_start(reads_what_another_host_wrote);
    scene_run(opens_what_another_host_wrote);
    scene_wait(reader);
}

static void runs_before_the_reader(void (*body)(void))
{
    disk_make("f", SIZE, 1);
    pid_t other = scene_start(body);
    step_wait(2);
    pid_t reader = scene_start(reads_what_another_host_wrote);
    scene_wait(other);
    scene_wait(reader);
}

SCENE_TEST(what_another_process_asked_for_is_read)
{
    scene_configure(AHEAD);
    disk_make("f", SIZE, 1);
    scene_configure(AHEAD "actimeo = 0.01;");
    pid_t other = scene_start(asks_what_another_host_wrote);
    step_wait(2);
    scene_configure(AHEAD);
    pid_t reader = scene_start(reads_what_another_host_wrote);
    scene_wait(other);
    scene_wait(reader);
}

SCENE_TEST(what_another_process_locked_is_read)
{
    scene_configure(AHEAD);
    runs_before_the_reader(locks_what_another_host_wrote);
}

static void reads_what_another_host_wrote_elsewhere(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    step_done(2);
    step_wait(0);
    disk_make("f", SIZE, 2);
    expect_blocks(fd, 200, 1, 2); /* the answer tells that the file changed */
    step_done(1);
}

SCENE_TEST(what_another_process_read_is_read)
{
    scene_configure(AHEAD);
    runs_before_the_reader(reads_what_another_host_wrote_elsewhere);
}

/* Nothing that is fetched lasts until it is wanted: little is. */
AHEAD_TEST(who_reads_and_writes_in_turn_fetches_little)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned i = 0; i < BLOCKS; i++) {
        expect_blocks(fd, i, 1, 1);
        engine_put(fd, BLOCK, (off_t)i * BLOCK, 2);
    }
    CHECK(stats_get(&stats_own->counters.read_bytes) < 2 * SIZE);
}

/* ---- a READ that the server carries out while it carries out a WRITE ---- */

static void reads_block_60(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    expect_blocks(fd, 60, 1, 2);
}

/* The server has half of what was written when it carries out the READ. */
static void write_half_of_block_60(void)
{
    uint8_t data[BLOCK];
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    data_fill(data, BLOCK, 60 * BLOCK, 2);
    CHECK_EQUAL(pwrite(fd, data, BLOCK / 2, 60 * BLOCK), BLOCK / 2);
    close(fd);
}

SCENE_TEST(a_read_is_not_half_of_a_write_of_this_host)
{
    scene_configure(AHEAD " write_behind_max = 16777216;");
    disk_make("f", SIZE, 1);
    server_hold(NFS_PROC_READ);
    server_hold(NFS_PROC_WRITE); /* else the server may have all of it by then */
    pid_t reader = scene_start(reads_block_60);
    server_wait_held(1);
    pid_t writer = scene_start(writes_block_60);
    step_wait(1);
    write_half_of_block_60();
    server_release();
    scene_wait(reader);
    scene_wait(writer);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
