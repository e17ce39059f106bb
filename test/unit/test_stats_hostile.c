/* Statistics: files in the run directory that are no segments, or change while they are read; and
 * what processes in great number leave. */
#include <sys/stat.h>

#include "stats/count.h"
#include "stats/read.h"
#include "host_test.h"
#include "rounds.h"
#include "stats_segment.h"
#include "sys/text.h"

/* A run directory with one segment, as if of this process, and what it should hold. */
static struct directnfs_stats good;
static char own[64], own_path[200];

static void put_file(const char *name, const void *data, size_t length, off_t size)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", test_directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, length), length);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

static int make_good(void **state)
{
    (void)state;
    struct run_identity self;
    remove_contents(test_directory);
    assert_int_equal(run_identity_self(&self), 0);
    snprintf(own, sizeof(own), "stats.%u.%llu", self.pid, (unsigned long long)self.starttime);
    snprintf(own_path, sizeof(own_path), "%s/%s", test_directory, own);
    good = stats_segment_good(&self);
    good.counters.procedures[6].latency.calls = 7;
    strcpy(good.servers[0].name, "nas");
    strcpy(good.paths[1].path, "10.0.0.1");
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, make_good, NULL)

/* Reads the directory; how many processes and problems there are. */
static void expect(unsigned processes, unsigned problems)
{
    struct stats_snapshot snapshot = {0};
    assert_int_equal(stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.count, processes);
    assert_int_equal(snapshot.problem_count, problems);
    stats_snapshot_free(&snapshot);
}

TEST(what_is_no_segment_is_a_problem)
{
    put_file(own, &good, sizeof(good), STATS_BYTES);
    expect(1, 0);

    good.layout++;
    put_file(own, &good, sizeof(good), STATS_BYTES);
    expect(0, 1);
    good.layout--;
    good.file_count = DIRECTNFS_FILES + 1;
    put_file(own, &good, sizeof(good), STATS_BYTES);
    expect(0, 1);
    good.file_count = 0;
    good.pid++; /* not what its name says */
    put_file(own, &good, sizeof(good), STATS_BYTES);
    expect(0, 1);
    put_file(own, &good, 100, 100);
    expect(0, 1);
    put_file(own, &good, 100, (off_t)1 << 40);
    expect(0, 1);
    put_file(own, &good, 0, 0); /* its process is making it */
    expect(0, 0);

    assert_int_equal(unlink(own_path), 0);
    assert_int_equal(mkfifo(own_path, 0600), 0); /* must not hang */
    expect(0, 1);
    assert_int_equal(unlink(own_path), 0);
    assert_int_equal(symlink("/dev/zero", own_path), 0);
    expect(0, 1);
    assert_int_equal(unlink(own_path), 0);
    assert_int_equal(mkdir(own_path, 0700), 0);
    expect(0, 1);
    assert_int_equal(rmdir(own_path), 0);
}

TEST(a_segment_of_another_user_is_a_problem)
{
    if (geteuid() != 0)
        skip();
    put_file(own, &good, sizeof(good), STATS_BYTES);
    assert_int_equal(chown(own_path, 65534, 65534), 0);
    expect(0, 1);
}

TEST(what_ended_and_the_lock_may_be_anything)
{
    char path[200];
    put_file(own, &good, sizeof(good), STATS_BYTES);
    put_file(DIRECTNFS_STATS_ENDED, "x", 1, STATS_BYTES);
    expect(1, 1);
    put_file("registry", "x", 1, 100000);
    expect(1, 2);
    snprintf(path, sizeof(path), "%s/stats.lock", test_directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(1, 3);
    assert_int_equal(rmdir(path), 0);
}

/* Whoever fills the directory does not fill the memory of readers. */
TEST(of_many_problems_the_first_are_kept)
{
    struct stats_snapshot snapshot = {0};
    char path[200];
    for (int i = 0; i < 3 * STATS_PROBLEMS; i++) {
        snprintf(path, sizeof(path), "%s/stats.1.%d", test_directory, i);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_int_equal(stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.problem_count, STATS_PROBLEMS);
    assert_int_equal(snapshot.problems_left_out, 2 * STATS_PROBLEMS);
    stats_snapshot_free(&snapshot);
    for (int i = 0; i < 3 * STATS_PROBLEMS; i++) {
        snprintf(path, sizeof(path), "%s/stats.1.%d", test_directory, i);
        assert_int_equal(rmdir(path), 0);
    }
}

/* ---- random bytes ---- */

static void check_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    assert_true(length < size);
    for (size_t i = 0, bytes; i < length; i += bytes) {
        uint32_t character;
        bytes = sys_text_decode((const unsigned char *)text + i, length - i, &character);
        assert_true(bytes && !sys_text_is_control(character));
    }
}

/* Everything that a reader does with a snapshot. */
static void check_snapshot(struct stats_snapshot *before)
{
    struct stats_snapshot now = {0}, copy;
    struct stats_latency latency;
    assert_int_equal(stats_snapshot_read(&now, NULL), 0);
    for (unsigned i = 0; i < now.count; i++)
        stats_segment_check(now.processes[i], check_text, not_true);
    for (unsigned i = 0; i < now.ended_count; i++)
        stats_segment_check(now.ended[i], check_text, not_true);
    assert_int_equal(stats_snapshot_copy(&copy, &now), 0);
    stats_snapshot_subtract(&copy, before);
    struct directnfs_stats *sum = stats_snapshot_sum(&copy);
    stats_segment_check(sum, check_text, not_true);
    stats_latency(&sum->counters.procedures[6].latency, &latency);
    free(sum);
    stats_snapshot_free(&copy);
    stats_snapshot_free(before);
    *before = now;
}

/* What stays as it is decides that the file is read at all. */
static void spoil(struct directnfs_stats *stats, bool keep_head)
{
    struct directnfs_stats head = *stats;
    uint8_t *bytes = (uint8_t *)stats;
    unsigned many = 1u << rand() % 14;
    for (unsigned i = 0; i < many; i++)
        bytes[(size_t)rand() % sizeof(*stats)] = (uint8_t)rand();
    if (rand() % 8 == 0)
        memset(bytes + (size_t)rand() % sizeof(*stats) / 2, rand(), sizeof(*stats) / 2);
    if (!keep_head)
        return;
    stats->magic = head.magic;
    stats->layout = head.layout;
    stats->size = head.size;
    stats->pid = head.pid;
    stats->starttime = head.starttime;
    stats->server_count = (uint32_t)rand() % (DIRECTNFS_SERVERS + 1);
    stats->path_count = (uint32_t)rand() % (DIRECTNFS_PATHS + 1);
    stats->channel_count = (uint32_t)rand() % (DIRECTNFS_CHANNELS + 1);
    stats->file_count = (uint32_t)rand() % (DIRECTNFS_FILES + 1);
}

TEST(random_bytes_do_no_harm)
{
    static struct directnfs_stats bad;
    struct stats_snapshot before = {0};
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    srand(seed);
    for (unsigned round = 0; round < rounds_of(500); round++) {
        bad = good;
        spoil(&bad, rand() % 4 != 0);
        put_file(rand() % 3 ? own : DIRECTNFS_STATS_ENDED, &bad, sizeof(bad), STATS_BYTES);
        check_snapshot(&before);
    }
    stats_snapshot_free(&before);
}

/* A header that is believed, and all else at random. */
TEST(a_random_registry_does_no_harm)
{
    static struct ledger_shared shared;
    struct stats_snapshot before = {0};
    srand((unsigned)getpid());
    for (unsigned round = 0; round < rounds_of(200); round++) {
        for (size_t i = 0; i < sizeof(shared); i += sizeof(int))
            memcpy((uint8_t *)&shared + i, &(int){rand()}, sizeof(int));
        shared.head.magic = LEDGER_REGISTRY_MAGIC;
        shared.head.layout = LEDGER_REGISTRY_LAYOUT;
        shared.head.header_size = sizeof(shared);
        if (rand() % 2)
            shared.chunk_count = shared.record_count = shared.bucket_count = 16;
        put_file("registry", &shared, sizeof(shared),
                 rand() % 2 ? (off_t)sizeof(shared) : (off_t)rand() * 32);
        check_snapshot(&before);
    }
    stats_snapshot_free(&before);
}

/* ---- files that change while they are read ---- */

static int truncate_again_and_again(void *unused)
{
    (void)unused;
    for (;;) {
        if (truncate(own_path, 5000) != 0 || truncate(own_path, STATS_BYTES) != 0)
            return 1;
        int fd = open(own_path, O_WRONLY);
        if (fd < 0 || pwrite(fd, &good, 10000, 0) != 10000)
            return 1;
        close(fd);
    }
}

TEST(a_file_that_shrinks_while_it_is_read_does_no_harm)
{
    struct stats_snapshot before = {0};
    put_file(own, &good, sizeof(good), STATS_BYTES);
    pid_t child = start_child(truncate_again_and_again, NULL);
    for (unsigned round = 0; round < rounds_of(2000); round++)
        check_snapshot(&before);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    stats_snapshot_free(&before);
}

/* ---- processes ---- */

static int stop_with_the_lock(void *unused)
{
    (void)unused;
    int lock = stats_lock(run_open(), STATS_LOCK_MS);
    if (lock < 0)
        return 1;
    raise(SIGSTOP);
    stats_unlock(lock);
    return 0;
}

static int count_and_end(void *unused)
{
    (void)unused;
    stats_after_fork();
    if (stats_open() != 0)
        return 1;
    stats_call(6, 1000, false);
    stats_finish();
    return 0;
}

/* It ends without the lock; a later reader adds what it left. */
TEST(a_stopped_reader_does_not_keep_a_process_from_ending)
{
    struct stats_snapshot snapshot = {0};
    int status;
    pid_t reader = start_child(stop_with_the_lock, NULL);
    assert_int_equal(waitpid(reader, &status, WUNTRACED), reader);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(run_child(count_and_end, NULL), 0);
    kill(reader, SIGCONT);
    assert_int_equal(end_child(reader), 0);

    assert_int_equal(stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.ended_count, 1);
    assert_int_equal(snapshot.ended[0]->counters.procedures[6].latency.calls, 1);
    stats_snapshot_free(&snapshot);
}

/* Bytes that the files of the run directory take. */
static uint64_t memory_used(void)
{
    uint64_t used = 0;
    struct dirent *entry;
    struct stat status;
    DIR *directory = opendir(test_directory);
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] != '.' &&
            fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
            used += (uint64_t)status.st_blocks * 512;
    }
    closedir(directory);
    return used;
}

/* Half of them are killed. */
static int count_and_end_somehow(void *number)
{
    stats_after_fork();
    if (stats_open() != 0)
        return 1;
    stats_call(6, 1000, false);
    if (*(unsigned *)number % 2)
        kill(getpid(), SIGKILL);
    stats_finish();
    return 0;
}

TEST(ten_thousand_forks_leave_two_files)
{
    enum { AT_ONCE = 20 };
    struct stats_snapshot snapshot = {0};
    pid_t children[AT_ONCE];
    unsigned rounds = rounds_of(rounds_of(3000)) / AT_ONCE; /* valgrind is slow to fork */
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            children[i] = start_child(count_and_end_somehow, &i);
        /* Of those that run, and of what is being added up. */
        assert_true(memory_used() <= (AT_ONCE + 2) * STATS_BYTES);
        for (unsigned i = 0; i < AT_ONCE; i++)
            assert_int_equal(end_child(children[i]), i % 2 ? 128 + SIGKILL : 0);
        int run = run_open();
        stats_reap(run, NULL);
        close(run);
        assert_int_equal(count_run_files(), 2);
        assert_true(memory_used() <= 100000);
    }
    assert_int_equal(stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.ended[0]->processes, rounds * AT_ONCE);
    assert_int_equal(snapshot.ended[0]->counters.procedures[6].latency.calls, rounds * AT_ONCE);
    stats_snapshot_free(&snapshot);
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
