/* Reading ahead: in few calls, and never anything but what a read would bring. */
#include <pthread.h>

#include "ahead_scene.h"
#include "rounds.h"
#include "ahead/ahead.h"

static void advise(int fd, off_t offset, off_t length, int advice)
{
    struct file_open *open = engine_begin(fd);
    CHECK(open != NULL);
    ahead_advise(open, offset, length, advice);
    engine_end(open);
}

/* ---- what is fetched, and what is not ---- */

AHEAD_TEST(a_file_is_read_in_few_calls)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    uint64_t begun_ns = sys_now_ns();
    expect_blocks(fd, 0, BLOCKS, 1);
    char byte;
    CHECK_EQUAL(engine_read(fd, &byte, 1, SIZE), 0);
    engine_close(fd);
    if (!in_time(begun_ns))
        return;
    CHECK(server_calls(NFS_PROC_READ) < 20); /* and nothing twice */
    CHECK(stats_get(&stats_own->counters.read_bytes) <= SIZE + MINDED * BLOCK);
    CHECK(stats_get(&stats_own->counters.read_ahead_used) >= SIZE - (1 + MINDED) * BLOCK);
}

AHEAD_TEST(it_may_be_read_in_pieces_of_any_size)
{
    disk_make("f", SIZE, 1);
    const size_t lengths[] = {1, 100, 4096, 12345, 65536, 200000, 300000, 1 << 20};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        int fd = engine_adopt("f", O_RDONLY);
        size_t reads = rounds_of(3000),
               most = lengths[i] * reads < SIZE ? lengths[i] * reads : SIZE;
        for (size_t at = 0; at < most; at += lengths[i])
            engine_expect(fd, most - at < lengths[i] ? most - at : lengths[i], (off_t)at, 1);
        engine_close(fd);
    }
}

enum { LONG_SIZE = 8 << 20 };

static void reads_at_length(void)
{
    for (size_t length = 256 << 10; length <= 1 << 20; length *= 2) {
        uint64_t used = stats_get(&stats_own->counters.read_ahead_used), begun_ns = sys_now_ns();
        int fd = engine_adopt("f", O_RDONLY);
        for (size_t at = 0; at < LONG_SIZE; at += length)
            engine_expect(fd, length, (off_t)at, 1);
        engine_close(fd);
        used = stats_get(&stats_own->counters.read_ahead_used) - used;
        CHECK(used > LONG_SIZE / 2 || !in_time(begun_ns));
    }
}

SCENE_TEST(long_reads_are_served_as_well)
{
    scene_configure("read_ahead_max = 4194304;");
    disk_make("f", LONG_SIZE, 1);
    scene_run(reads_at_length);
}

/* Who reads twice and then elsewhere waits for what it asked for, and for no more. */
AHEAD_TEST(the_second_read_is_a_call_of_its_own)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    expect_blocks(fd, 0, 2, 1);
    expect_blocks(fd, 100, 1, 1);
    CHECK(server_calls(NFS_PROC_READ) <= 4);
    CHECK(atomic_load(&scene.control->longest_read) < 64 << 10);
}

AHEAD_TEST(several_sequences_of_one_open_file)
{
    enum { SEQUENCES = 6, EACH = LONG_SIZE / SEQUENCES / BLOCK };
    if (getenv("DIRECTNFS_TEST_SHORT"))
        return; /* what waits for a slow reader grows old */
    disk_make("f", LONG_SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    uint64_t begun_ns = sys_now_ns();
    for (unsigned i = 0; i < EACH; i++) {
        for (unsigned j = 0; j < SEQUENCES; j++)
            expect_blocks(fd, j * EACH + i, 1, 1);
        if (i % 4 == 0)
            expect_blocks(fd, i * 37 % (LONG_SIZE / BLOCK), 1, 1); /* and something in between */
    }
    CHECK(server_calls(NFS_PROC_READ) < LONG_SIZE / BLOCK / 4 || !in_time(begun_ns));
}

AHEAD_TEST(a_small_file_is_fetched_as_a_whole_by_its_first_read)
{
    disk_make("f", 5 * BLOCK + 100, 1);
    int fd = engine_adopt("f", O_RDONLY);
    uint64_t begun_ns = sys_now_ns();
    expect_blocks(fd, 0, 5, 1);
    CHECK(server_calls(NFS_PROC_READ) == 1 || !in_time(begun_ns));
    char last[BLOCK];
    CHECK_EQUAL(engine_read(fd, last, 100, 5 * BLOCK), 100);
    CHECK(data_is((uint8_t *)last, 100, 5 * BLOCK, 1));
    CHECK(server_calls(NFS_PROC_READ) == 1 || !in_time(begun_ns));
}

/* ---- reads here and there ---- */

enum { UNIT = 64 << 10, IN_UNIT = UNIT / BLOCK, UNPROVEN = 8 /* units that nobody read again */ };

AHEAD_TEST(reads_far_from_one_another_fetch_no_more)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 1; i < BLOCKS; i += IN_UNIT / 2)
        expect_blocks(fd, i, 1, 1);
    CHECK_EQUAL(server_calls(NFS_PROC_READ), 2 * SIZE / UNIT);
    CHECK_EQUAL(stats_get(&stats_own->counters.read_ahead_bytes), 0);
}

/* Each unit is read three times, and the last of them finds all of it: it is tried, and not for
 * long. */
AHEAD_TEST(what_is_strided_is_hardly_read_ahead)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 1; i < BLOCKS; i += IN_UNIT)
        for (unsigned j = 0; j < 6; j += 2)
            expect_blocks(fd, i + j, 1, 1);
    CHECK(server_calls(NFS_PROC_READ) <= 3 * SIZE / UNIT);
    CHECK(stats_get(&stats_own->counters.read_ahead_bytes) > 0);
    CHECK(stats_get(&stats_own->counters.read_ahead_bytes) <= UNPROVEN * UNIT);
}

AHEAD_TEST(reads_near_one_another_fetch_what_is_between)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    uint64_t begun_ns = sys_now_ns();
    for (unsigned i = 1; i <= BLOCKS; i++)
        expect_blocks(fd, i * 37 % BLOCKS, 1, 1);
    for (unsigned i = BLOCKS; i-- > 0;)
        expect_blocks(fd, i, 1, 1);
    CHECK(server_calls(NFS_PROC_READ) < BLOCKS / 2 || !in_time(begun_ns));
    CHECK(stats_get(&stats_own->counters.read_ahead_used) <=
          stats_get(&stats_own->counters.read_ahead_bytes));
}

AHEAD_TEST(a_write_between_reads_near_one_another)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned unit = 0; unit < SIZE / UNIT; unit++) {
        unsigned first = unit * IN_UNIT;
        expect_blocks(fd, first + 6, 1, 1);
        expect_blocks(fd, first, 1, 1);
        expect_blocks(fd, first + 2, 1, 1);
        expect_blocks(fd, first + 4, 1, 1);
        engine_put(fd, BLOCK, (off_t)(first + 3) * BLOCK, 2);
        expect_blocks(fd, first + 3, 1, 2);
        expect_blocks(fd, first + 1, 1, 1);
    }
    CHECK(stats_get(&stats_own->counters.read_ahead_bytes) > 0);
}

AHEAD_TEST(who_says_that_reads_are_random_is_believed)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    expect_blocks(fd, 5, 1, 1);
    advise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (unsigned i = 1; i <= BLOCKS; i++)
        expect_blocks(fd, i * 37 % BLOCKS, 1, 1);
    CHECK_EQUAL(stats_get(&stats_own->counters.read_ahead_bytes), 0);
}

AHEAD_TEST(a_file_of_one_read_costs_one)
{
    disk_make("f", BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    char data[2 * BLOCK];
    uint64_t begun_ns = sys_now_ns();
    CHECK_EQUAL(engine_read(fd, data, sizeof(data), 0), BLOCK);
    CHECK_EQUAL(engine_read(fd, data, sizeof(data), BLOCK), 0);
    CHECK_EQUAL(engine_read(fd, data, 1, SIZE), 0);
    if (in_time(begun_ns))
        CHECK_EQUAL(server_calls(NFS_PROC_READ), 1);
}

static void reads_one_by_one(int flags)
{
    int fd = engine_adopt("f", flags);
    expect_blocks(fd, 0, 16, 1);
    CHECK_EQUAL(stats_get(&stats_own->counters.read_ahead_bytes), 0);
    engine_close(fd);
}

static void reads_one_by_one_directly(void)
{
    reads_one_by_one(O_RDONLY | O_DIRECT);
}

static void reads_one_by_one_as_configured(void)
{
    reads_one_by_one(O_RDONLY);
}

SCENE_TEST(nothing_is_read_ahead_where_it_is_not_wanted)
{
    scene_configure(AHEAD);
    disk_make("f", SIZE, 1);
    scene_run(reads_one_by_one_directly);
    scene_configure(AHEAD "actimeo = 0.0;");
    scene_run(reads_one_by_one_as_configured);
    scene_configure("read_ahead_max = 0;");
    scene_run(reads_one_by_one_as_configured);
}

/* All files of a process have no more than four may have. */
AHEAD_TEST(memory_is_bounded)
{
    enum { LONG = 4 * 2 - 1, SHORT = 16 }; /* READs of 1 MiB, and of 64 KiB in what is left */
    disk_make("f", SIZE, 1);
    int fds[6];
    server_hold(NFS_PROC_READ);
    for (unsigned i = 0; i < 6; i++) {
        fds[i] = engine_adopt("f", O_RDONLY);
        advise(fds[i], 0, SIZE, POSIX_FADV_WILLNEED);
    }
    server_wait_held(LONG + 1);
    usleep(100000); /* time for what is wrong */
    CHECK(atomic_load(&scene.control->held) < LONG + SHORT);
    server_release();
    for (unsigned i = 0; i < 6; i++) {
        expect_blocks(fds[i], 0, BLOCKS, 1);
        engine_close(fds[i]);
    }
}

/* ---- trouble ---- */

static void writes_all_and_waits(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 16 * BLOCK, 0, 2);
    step_done(0);
    step_wait(1);
}

static void reads_what_the_server_lost(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    expect_blocks(fd, 0, 16, 2);
}

SCENE_TEST(what_a_server_lost_is_not_read)
{
    scene_configure(AHEAD);
    disk_make("f", SIZE, 1);
    pid_t writer = scene_start(writes_all_and_waits);
    step_wait(0);
    server_do(FILE_SERVER_LOSE_POWER);
    scene_run(reads_what_the_server_lost);
    step_done(1);
    scene_wait(writer);
}

AHEAD_TEST(an_error_ahead_is_nobody_s)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    expect_blocks(fd, 0, 1, 1);
    server_fail(NFS_PROC_READ, 1, NFS3ERR_IO);
    expect_blocks(fd, 1, BLOCKS - 1, 1);
}

AHEAD_TEST(connections_break)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % 20 == 5)
            atomic_store(&scene.control->drop_after[NFS_PROC_READ], 1);
        expect_blocks(fd, i, 1, 1);
    }
}

AHEAD_TEST(a_bad_address)
{
    disk_make("f", SIZE, 1);
    int fd = begun(1);
    CHECK_EQUAL(engine_read(fd, (void *)8, BLOCK, 4 * BLOCK), -EFAULT);
    expect_blocks(fd, 4, BLOCKS - 4, 1);
}

/* Also where the program has no handler. */
AHEAD_TEST(memory_that_is_not_there)
{
    if (getenv("DIRECTNFS_TEST_SHORT"))
        return; /* valgrind sees the memory, too */
    disk_make("f", SIZE, 1);
    int fd = begun(1);
    char *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK_EQUAL(mprotect(memory + 4096, 4096, PROT_READ), 0);
    CHECK_EQUAL(munmap(memory + 2 * 4096, 4096), 0);
    CHECK_EQUAL(engine_read(fd, memory, BLOCK, 4 * BLOCK), -EFAULT);
    CHECK_EQUAL(engine_read(fd, memory + 4096, BLOCK, 4 * BLOCK), -EFAULT);
    CHECK_EQUAL(engine_read(fd, memory + 4096, 4, 4 * BLOCK), -EFAULT);
    CHECK_EQUAL(engine_read(fd, memory + 2 * 4096, 100, 4 * BLOCK), -EFAULT);
    CHECK_EQUAL(engine_read(fd, memory, 4096, 4 * BLOCK), 4096);
    CHECK(data_is((uint8_t *)memory, 4096, 4 * BLOCK, 1));
    CHECK_EQUAL(engine_read(fd, memory + 4090, 6, 5 * BLOCK + 1), 6);
    CHECK(data_is((uint8_t *)memory + 4090, 6, 5 * BLOCK + 1, 1));
    expect_blocks(fd, 4, BLOCKS - 4, 1);
}

static void times_out_once(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    char data[BLOCK];
    expect_blocks(fd, 1, 1, 1);
    server_hold(NFS_PROC_READ);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 2 * BLOCK), -ETIMEDOUT);
    /* Its own, and what is ahead: neither is sent again when the time is over. */
    CHECK_EQUAL(atomic_load(&scene.control->held), 2);
    server_release();
    expect_blocks(fd, 2, BLOCKS - 2, 1);
}

SCENE_TEST(a_soft_mount_is_waited_for_once)
{
    scene_configure(AHEAD "soft_timeout = 1;");
    disk_make("f", SIZE, 1);
    scene_run(times_out_once);
}

/* ---- ends ---- */

/* Begins to read while the server does not answer what is asked for ahead. */
static int begun_without_answers(void)
{
    int fd = engine_adopt("f", O_RDWR);
    expect_blocks(fd, 0, 8, 1);
    server_hold(NFS_PROC_READ);
    advise(fd, SIZE / 2, SIZE / 4, POSIX_FADV_WILLNEED);
    server_wait_held(1);
    return fd;
}

AHEAD_TEST(a_file_is_closed_while_more_is_on_its_way)
{
    disk_make("f", SIZE, 1);
    for (unsigned i = 0; i < 3; i++) {
        int fd = begun_without_answers();
        CHECK_EQUAL(engine_close(fd), 0);
        server_release();
        fd = engine_adopt("f", O_RDONLY);
        expect_blocks(fd, 0, BLOCKS, 1);
        CHECK_EQUAL(engine_close(fd), 0);
    }
}

AHEAD_TEST(a_child_reads_what_its_parent_has_on_its_way)
{
    disk_make("f", SIZE, 1);
    int fd = begun_without_answers();
    pid_t pid = engine_fork();
    server_release();
#ifdef __SANITIZE_THREAD__ /* allows no thread in the child */
    if (pid == 0)
        advise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif
    expect_blocks(fd, 8, BLOCKS - 8, 1);
    CHECK_EQUAL(engine_close(fd), 0);
    if (pid == 0)
        _exit(0);
    scene_wait(pid);
}

static void releases(void)
{
    usleep(50000);
    server_release();
}

AHEAD_TEST(a_file_goes_to_the_kernel_while_more_is_on_its_way)
{
    disk_make("f", SIZE, 1);
    int fd = begun_without_answers();
    pid_t pid = fork();
    if (pid == 0) {
        releases();
        _exit(0);
    }
    CHECK_EQUAL(engine_demote(fd), 0);
    CHECK(!file_is_managed(fd));
    scene_wait(pid);
    expect_blocks(fd, 8, BLOCKS - 8, 1);
}

enum { MOVED = 60 };

static void *reads_while_it_moves(void *fd)
{
    for (unsigned round = 0; round < 4; round++)
        expect_blocks(*(int *)fd, 0, 32, 1);
    return NULL;
}

/* Who asks for more is inside already, and who moves the file waits for him. */
AHEAD_TEST(files_go_to_the_kernel_while_they_are_read)
{
    for (unsigned i = 0; i < rounds_of(MOVED); i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        disk_make(name, 32 * BLOCK, 1);
        int fd = engine_adopt(name, O_RDWR);
        pthread_t reader;
        CHECK_EQUAL(pthread_create(&reader, NULL, reads_while_it_moves, &fd), 0);
        usleep(i * 37 % 1500);
        CHECK_EQUAL(engine_demote(fd), 0);
        CHECK_EQUAL(pthread_join(reader, NULL), 0);
    }
}

/* No reply waits at the server, though the program does something else, and no memory for it. */
AHEAD_TEST(what_nobody_takes_is_received_and_forgotten)
{
    disk_make("f", SIZE, 1);
    int fd = begun_without_answers();
    server_release();
    while (stats_get(&stats_own->counters.read_ahead_bytes) < SIZE / 4)
        usleep(10000);
    struct file_open *open = engine_begin(fd);
    while (atomic_load(&open->ahead.fetched) > 0)
        usleep(10000);
    engine_end(open);
    expect_blocks(fd, 8, BLOCKS - 8, 1);
}

static long anonymous_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (kib < 0 && fgets(line, sizeof(line), file))
        sscanf(line, "RssAnon: %ld", &kib);
    fclose(file);
    return kib;
}

AHEAD_TEST(an_idle_process_gives_the_memory_back)
{
    if (getenv("DIRECTNFS_TEST_SHORT"))
        return; /* the tools have memory of their own */
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    long before = anonymous_kib();
    expect_blocks(fd, 0, BLOCKS, 1);
    for (unsigned i = 0; anonymous_kib() > before + 1024; i++) {
        CHECK(i < 1000);
        usleep(10000);
    }
}

/* ---- advice ---- */

AHEAD_TEST(what_is_announced_is_fetched)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    uint64_t begun_ns = sys_now_ns();
    for (unsigned i = 0; i < 8; i++)
        advise(fd, (off_t)(i * 29 % BLOCKS) * BLOCK, BLOCK, POSIX_FADV_WILLNEED);
    for (unsigned i = 0; i < 8; i++)
        expect_blocks(fd, i * 29 % BLOCKS, 1, 1);
    uint64_t used = stats_get(&stats_own->counters.read_ahead_used);
    CHECK(server_calls(NFS_PROC_READ) <= 8 + MINDED || !in_time(begun_ns));
    CHECK(used >= (8 - MINDED) * BLOCK || !in_time(begun_ns));
    advise(fd, SIZE - BLOCK, 100 * BLOCK, POSIX_FADV_WILLNEED);
    advise(fd, SIZE, 0, POSIX_FADV_WILLNEED);
    expect_blocks(fd, BLOCKS - 1, 1, 1);
    CHECK(server_calls(NFS_PROC_READ) <= 9 + MINDED || !in_time(begun_ns));
}

AHEAD_TEST(what_is_announced_as_random_is_not_fetched)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDONLY);
    advise(fd, 0, 0, POSIX_FADV_RANDOM);
    expect_blocks(fd, 0, 16, 1);
    CHECK_EQUAL(server_calls(NFS_PROC_READ), 16);
    advise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    uint64_t begun_ns = sys_now_ns();
    expect_blocks(fd, 16, 64, 1);
    CHECK(server_calls(NFS_PROC_READ) < 40 || !in_time(begun_ns));
}

AHEAD_TEST(what_is_not_needed_is_forgotten)
{
    disk_make("f", SIZE, 1);
    int fd = begun(1);
    disk_make("f", SIZE, 2);
    advise(fd, 0, 0, POSIX_FADV_DONTNEED);
    usleep(100000);
    engine_expect(fd, BLOCK, 64 * BLOCK, 2);
}

/* ---- threads ---- */

static int shared_fd;

static void *reads_a_quarter(void *argument)
{
    unsigned from = *(unsigned *)argument * (BLOCKS / 4);
    for (unsigned round = 0; round < rounds_of(4); round++)
        expect_blocks(shared_fd, from, BLOCKS / 4, 1);
    return NULL;
}

AHEAD_TEST(threads_read_one_open_file)
{
    pthread_t threads[4];
    unsigned numbers[4];
    disk_make("f", SIZE, 1);
    shared_fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 0; i < 4; i++) {
        numbers[i] = i;
        CHECK_EQUAL(pthread_create(&threads[i], NULL, reads_a_quarter, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
