/* What the host keeps of files that were read or written: fewer READs, and never anything but what
 * a READ would bring. */
#include <sys/stat.h>

#include "ahead_scene.h"
#include "ahead/ahead.h"
#include "fd/life.h"

#define CACHE         AHEAD "read_cache_max = 4194304;"
#define CACHE_BEHIND  CACHE "write_behind_max = 16777216;"
#define CACHE_PATIENT CACHE "actimeo = 3600.0;"

#define CACHE_TEST(name, configuration) \
    static void name##_engine(void);    \
    SCENE_TEST(name)                    \
    {                                   \
        scene_configure(configuration); \
        scene_run(name##_engine);       \
    }                                   \
    static void name##_engine(void)

static unsigned reads(void)
{
    return server_calls(NFS_PROC_READ);
}

/* Each block on its own, backwards: nothing is read ahead. */
static void read_back(int fd, unsigned blocks, unsigned version)
{
    for (unsigned i = blocks; i-- > 0;)
        expect_blocks(fd, i, 1, version);
}

static void reads_all(void)
{
    read_back(engine_adopt("f", O_RDONLY), 16, 1);
}

static void reads_all_without_a_call(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    unsigned before = reads();
    read_back(fd, 16, 1);
    engine_expect(fd, 5 * BLOCK + 7, 100, 1);
    char data[BLOCK];
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 16 * BLOCK - 10), 10); /* up to the end */
    CHECK_EQUAL(reads(), before);
    CHECK(stats_get(&stats_own->counters.cache_hits) >= 17);
    CHECK(stats_get(&stats_own->counters.cache_bytes) >= 16 * BLOCK);
}

SCENE_TEST(what_one_process_read_the_next_has)
{
    scene_configure(CACHE);
    disk_make("f", 16 * BLOCK, 1);
    scene_run(reads_all);
    scene_run(reads_all_without_a_call);
}

static void writes_and_reads_it_back(void)
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDWR);
    for (unsigned version = 2; version < 5; version++) {
        engine_put(fd, 16 * BLOCK, 0, version);
        CHECK_EQUAL(engine_fsync(fd), 0);
        unsigned before = reads();
        read_back(fd, 16, version);
        CHECK_EQUAL(reads(), before);
    }
    engine_put(fd, BLOCK, 3 * BLOCK, 9); /* not sent, over what is kept */
    expect_blocks(fd, 3, 1, 9);
    expect_blocks(fd, 2, 1, 4);
}

CACHE_TEST(what_was_written_and_sent_is_there, CACHE_BEHIND)
{
    writes_and_reads_it_back();
}

/* As with Linux's server. */
CACHE_TEST(it_is_there_though_answers_do_not_tell_what_writes_found, CACHE_BEHIND)
{
    atomic_store(&scene.control->no_before, true);
    writes_and_reads_it_back();
}

CACHE_TEST(what_is_written_now_is_not_what_was_read, CACHE)
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDWR), direct = engine_adopt("f", O_RDWR | O_DIRECT);
    read_back(fd, 16, 1);
    engine_put(fd, BLOCK, 3 * BLOCK, 2);
    engine_put(direct, BLOCK, 5 * BLOCK, 3);
    expect_blocks(fd, 3, 1, 2);
    expect_blocks(fd, 5, 1, 3);
    unsigned before = reads();
    expect_blocks(fd, 4, 1, 1);
    CHECK_EQUAL(reads(), before);
}

/* ---- another host ---- */

static void another_host_writes(unsigned version)
{
    usleep(20000); /* its clock has gone on */
    disk_make("f", 16 * BLOCK, version);
}

CACHE_TEST(who_opens_a_file_sees_what_others_wrote, CACHE_PATIENT)
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    read_back(fd, 16, 1);
    for (unsigned version = 2; version < 5; version++) {
        another_host_writes(version);
        int again = engine_adopt("f", O_RDONLY);
        read_back(again, 16, version);
        engine_close(again);
    }
}

CACHE_TEST(who_gets_a_lock_sees_what_others_wrote, CACHE_PATIENT)
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned version = 2; version < 5; version++) {
        read_back(fd, 16, version - 1);
        disk_make("f", 16 * BLOCK, version); /* in the same tick, maybe */
        struct file_open *open = engine_begin(fd);
        fd_locked(open);
        engine_end(open);
        read_back(fd, 16, version);
    }
}

CACHE_TEST(what_others_wrote_is_seen_soon, CACHE "actimeo = 0.2;")
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    read_back(fd, 16, 1);
    another_host_writes(2);
    usleep(250000);
    unsigned before = reads();
    read_back(fd, 16, 2);
    CHECK(reads() > before);
}

/* As long as nothing changes it lives on. */
CACHE_TEST(what_is_confirmed_stays, CACHE "actimeo = 0.2;")
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDWR);
    read_back(fd, 16, 1);
    unsigned before = reads();
    for (unsigned i = 0; i < 3; i++) {
        usleep(250000);
        engine_put(fd, BLOCK, 16 * BLOCK, 1); /* of this host */
        read_back(fd, 16, 1);
    }
    CHECK_EQUAL(reads(), before);
}

CACHE_TEST(a_file_that_others_cut_and_made_longer, CACHE_PATIENT)
{
    char path[SCENE_PATH], data[BLOCK], zeros[BLOCK] = {0};
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDWR);
    scene_file_path(path, "f");
    read_back(fd, 16, 1);
    usleep(20000);
    CHECK_EQUAL(truncate(path, BLOCK / 2), 0);
    engine_close(engine_adopt("f", O_RDONLY));
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 0), BLOCK / 2);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, BLOCK), 0);
    usleep(20000);
    CHECK_EQUAL(truncate(path, 2 * BLOCK), 0);
    engine_close(engine_adopt("f", O_RDONLY));
    CHECK_EQUAL(engine_read(fd, data, BLOCK, BLOCK), BLOCK);
    CHECK_EQUAL(memcmp(data, zeros, BLOCK), 0);
}

/* ---- this host ---- */

CACHE_TEST(a_file_that_is_cut_and_made_longer, CACHE_BEHIND)
{
    char data[BLOCK], zeros[BLOCK] = {0};
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDWR);
    read_back(fd, 16, 1);
    CHECK_EQUAL(engine_truncate(fd, BLOCK / 2), 0);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 0), BLOCK / 2);
    CHECK_EQUAL(engine_truncate(fd, 3 * BLOCK), 0);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, BLOCK), BLOCK);
    CHECK_EQUAL(memcmp(data, zeros, BLOCK), 0);
    engine_put(fd, BLOCK, 10 * BLOCK, 4); /* and a hole before it */
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 5 * BLOCK), BLOCK);
    CHECK_EQUAL(memcmp(data, zeros, BLOCK), 0);
    expect_blocks(fd, 10, 1, 4);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 11 * BLOCK), 0);
}

static void moves_it_and_writes(void)
{
    int fd = engine_adopt("f", O_RDWR);
    read_back(fd, 16, 1);
    CHECK_EQUAL(engine_demote(fd), 0);
    engine_put(fd, 16 * BLOCK, 0, 2);
    read_back(fd, 16, 2);
}

static void reads_what_the_kernel_wrote(void)
{
    read_back(engine_adopt("f", O_RDONLY), 16, 2);
}

SCENE_TEST(a_file_that_went_to_the_kernel_and_came_back)
{
    scene_configure(CACHE_PATIENT);
    disk_make("f", 16 * BLOCK, 1);
    scene_run(reads_all);
    scene_run(moves_it_and_writes);
    scene_run(reads_what_the_kernel_wrote);
}

static void writes_and_is_killed(void)
{
    int fd = engine_adopt("f", O_RDWR);
    read_back(fd, 16, 1);
    engine_put(fd, BLOCK, 0, 2);
    step_done(0);
    step_wait(1);
}

static void reads_what_the_dead_wrote(void)
{
    int fd = engine_adopt("f", O_RDWR);
    expect_blocks(fd, 0, 1, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_blocks(fd, 0, 1, 2);
    expect_blocks(fd, 1, 1, 1);
}

SCENE_TEST(what_a_dead_process_wrote_is_read)
{
    scene_configure(CACHE_BEHIND);
    disk_make("f", 16 * BLOCK, 1);
    pid_t writer = scene_start(writes_and_is_killed);
    step_wait(0);
    scene_kill(writer);
    scene_run(reads_what_the_dead_wrote);
}

static void loses_what_it_wrote(void)
{
    char data[BLOCK];
    int fd = engine_adopt("f", O_RDWR);
    read_back(fd, 16, 1);
    engine_put(fd, BLOCK, 2 * BLOCK, 2);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
    CHECK_EQUAL(engine_fsync(fd), -ENOSPC);
    CHECK_EQUAL(engine_read(fd, data, BLOCK, 2 * BLOCK), BLOCK);
    CHECK(data_is((uint8_t *)data, BLOCK, 2 * BLOCK, 1));
}

SCENE_TEST(what_is_lost_is_not_read)
{
    scene_configure(CACHE_BEHIND);
    disk_make("f", 16 * BLOCK, 1);
    scene_run(loses_what_it_wrote);
}

/* ---- where nothing is kept ---- */

static void reads_twice(int flags)
{
    int fd = engine_adopt("f", flags);
    read_back(fd, 16, 1);
    unsigned before = reads();
    read_back(fd, 16, 1);
    CHECK_EQUAL(reads(), before + 16);
    CHECK_EQUAL(stats_get(&stats_own->counters.cache_hits), 0);
}

static void reads_twice_directly(void)
{
    reads_twice(O_RDONLY | O_DIRECT);
}

static void reads_twice_as_configured(void)
{
    reads_twice(O_RDONLY);
}

/* Reading ahead may have fetched some of it. */
static void reads_twice_and_ahead(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    read_back(fd, 16, 1);
    read_back(fd, 16, 1);
    CHECK_EQUAL(stats_get(&stats_own->counters.cache_hits), 0);
}

SCENE_TEST(nothing_is_kept_where_it_is_not_wanted)
{
    disk_make("f", 16 * BLOCK, 1);
    scene_configure(CACHE);
    scene_run(reads_twice_directly);
    scene_configure(CACHE "actimeo = 0.0;");
    scene_run(reads_twice_as_configured);
    scene_configure(AHEAD "read_cache_max = 0;");
    scene_run(reads_twice_and_ahead);
}

CACHE_TEST(what_is_not_needed_goes, CACHE)
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    read_back(fd, 16, 1);
    unsigned before = reads();
    struct file_open *open = engine_begin(fd);
    ahead_advise(open, 0, 0, POSIX_FADV_DONTNEED);
    engine_end(open);
    read_back(fd, 16, 1);
    CHECK(reads() > before);
}

CACHE_TEST(bad_addresses, CACHE)
{
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 0; i < 2; i++) { /* from the server, and from the cache */
        CHECK_EQUAL(engine_read(fd, (void *)8, BLOCK, 4 * BLOCK), -EFAULT);
        if (getenv("DIRECTNFS_TEST_SHORT"))
            continue; /* valgrind writes to the memory itself */
        char *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        CHECK_EQUAL(engine_read(fd, memory, 100, 4 * BLOCK), -EFAULT);
        CHECK_EQUAL(munmap(memory, 4096), 0);
        expect_blocks(fd, 4, 1, 1);
    }
}

static void writes_after_another_host(void)
{
    enum { TICK_US = 50000 }; /* of the server's clock, and more */
    disk_make("f", 16 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDWR);
    read_back(fd, 16, 1);
    another_host_writes(2);
    usleep(TICK_US);
    engine_put(fd, BLOCK, 15 * BLOCK, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
    usleep(TICK_US);
    int again = engine_adopt("f", O_RDONLY);
    read_back(again, 15, 2);
    engine_close(again);
}

CACHE_TEST(a_write_of_ours_does_not_hide_what_another_host_wrote_before_it, CACHE_PATIENT)
{
    writes_after_another_host();
}

CACHE_TEST(nor_does_one_whose_answer_does_not_tell_what_it_found, CACHE_PATIENT)
{
    atomic_store(&scene.control->no_before, true);
    writes_after_another_host();
}

CACHE_TEST(a_long_file_that_is_read_in_sequence_is_not_kept, CACHE)
{
    enum { BLOCKS = 64 };
    disk_make("f", BLOCKS * BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    expect_blocks(fd, 0, 1, 1); /* a stream begins with the second one */
    for (unsigned i = 1; i < BLOCKS; i++)
        expect_blocks(fd, i, 1, 1);
    int random = engine_adopt("f", O_RDONLY);
    expect_blocks(random, 50, 1, 1);
    CHECK_EQUAL(stats_get(&stats_own->counters.cache_hits), 0);
}

/* A write of this host hides what another one wrote; then a long read brings that. */
CACHE_TEST(what_a_long_read_has_brought_does_not_grow_old_again, CACHE_PATIENT)
{
    static char data[20 * BLOCK];
    atomic_store(&scene.control->no_before, true);
    disk_make("f", 64 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDWR);
    expect_blocks(fd, 50, 1, 1);
    disk_make("f", 64 * BLOCK, 2);
    engine_put(fd, BLOCK, 10 * BLOCK, 3);
    CHECK_EQUAL(engine_read(fd, data, sizeof(data), 40 * BLOCK), sizeof(data));
    CHECK(data_is((uint8_t *)data, sizeof(data), 40 * BLOCK, 2));
    expect_blocks(fd, 50, 1, 2);
}

CACHE_TEST(a_short_one_is, CACHE)
{
    disk_make("f", 8 * BLOCK, 1);
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 0; i < 8; i++)
        expect_blocks(fd, i, 1, 1);
    unsigned before = reads();
    read_back(engine_adopt("f", O_RDONLY), 8, 1);
    CHECK_EQUAL(reads(), before);
}

/* A long piece of a long file would push out what is read again. */
CACHE_TEST(what_is_sent_in_long_pieces_is_kept_of_a_file_of_some_mebibytes, CACHE_BEHIND)
{
    enum { LONG = 32 * BLOCK, SHORT_FILE = 2 << 20, LONG_FILE = 9 << 20 };
    for (unsigned i = 0; i < 2; i++) {
        const char *name = i == 0 ? "short" : "long";
        disk_make(name, i == 0 ? SHORT_FILE : LONG_FILE, 1);
        int fd = engine_adopt(name, O_RDWR);
        engine_put(fd, LONG, 0, 2);
        CHECK_EQUAL(engine_fsync(fd), 0);
        engine_put(fd, BLOCK, 10 * LONG, 3);
        CHECK_EQUAL(engine_fsync(fd), 0);
        unsigned before = reads();
        expect_blocks(fd, 10 * LONG / BLOCK, 1, 3);
        CHECK_EQUAL(reads(), before);
        expect_blocks(fd, 4, 1, 2);
        CHECK_EQUAL(reads(), before + i);
    }
}

int main(void)
{
    return unit_run(NULL, NULL);
}
