/* Statistics: files in the run directory that are no segments, or change while they are read; and
 * what processes in great number leave. */
#include <sys/stat.h>

#include "host/stats.h"
#include "host/stats_read.h"
#include "host/stats_segment.h"
#include "host_test.h"
#include "rounds.h"
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
    struct host_identity self;
    remove_contents(test_directory);
    assert_int_equal(host_identity_self(&self), 0);
    snprintf(own, sizeof(own), "stats.%u.%llu", self.pid, (unsigned long long)self.starttime);
    snprintf(own_path, sizeof(own_path), "%s/%s", test_directory, own);
    good = (struct directnfs_stats){.magic = DIRECTNFS_STATS_MAGIC,
                                    .layout = DIRECTNFS_STATS_LAYOUT,
                                    .size = sizeof(good),
                                    .pid = self.pid,
                                    .starttime = self.starttime,
                                    .pid_namespace = host_pid_namespace(),
                                    .server_count = 1,
                                    .path_count = 2,
                                    .channel_count = 2,
                                    .file_count = 3};
    good.counters.procedures[6].latency.calls = 7;
    strcpy(good.servers[0].name, "nas");
    strcpy(good.paths[1].path, "10.0.0.1");
    return 0;
}

/* Reads the directory; how many processes and problems there are. */
static void expect(unsigned processes, unsigned problems)
{
    struct host_stats_snapshot snapshot = {0};
    assert_int_equal(host_stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.count, processes);
    assert_int_equal(snapshot.problem_count, problems);
    host_stats_snapshot_free(&snapshot);
}

static void what_is_no_segment_is_a_problem(void **state)
{
    (void)state;
    put_file(own, &good, sizeof(good), HOST_STATS_BYTES);
    expect(1, 0);

    good.layout++;
    put_file(own, &good, sizeof(good), HOST_STATS_BYTES);
    expect(0, 1);
    good.layout--;
    good.file_count = DIRECTNFS_FILES + 1;
    put_file(own, &good, sizeof(good), HOST_STATS_BYTES);
    expect(0, 1);
    good.file_count = 0;
    good.pid++; /* not what its name says */
    put_file(own, &good, sizeof(good), HOST_STATS_BYTES);
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

static void a_segment_of_another_user_is_a_problem(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    put_file(own, &good, sizeof(good), HOST_STATS_BYTES);
    assert_int_equal(chown(own_path, 65534, 65534), 0);
    expect(0, 1);
}

static void what_ended_and_the_lock_may_be_anything(void **state)
{
    (void)state;
    char path[200];
    put_file(own, &good, sizeof(good), HOST_STATS_BYTES);
    put_file("stats.ended", "x", 1, HOST_STATS_BYTES);
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
static void of_many_problems_the_first_are_kept(void **state)
{
    (void)state;
    struct host_stats_snapshot snapshot = {0};
    char path[200];
    for (int i = 0; i < 3 * HOST_STATS_PROBLEMS; i++) {
        snprintf(path, sizeof(path), "%s/stats.1.%d", test_directory, i);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_int_equal(host_stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.problem_count, HOST_STATS_PROBLEMS);
    assert_int_equal(snapshot.problems_left_out, 2 * HOST_STATS_PROBLEMS);
    host_stats_snapshot_free(&snapshot);
    for (int i = 0; i < 3 * HOST_STATS_PROBLEMS; i++) {
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

static void check_copy(const struct directnfs_stats *stats)
{
    assert_true(stats->server_count <= DIRECTNFS_SERVERS && stats->path_count <= DIRECTNFS_PATHS);
    assert_true(stats->channel_count <= DIRECTNFS_CHANNELS);
    assert_true(stats->file_count <= DIRECTNFS_FILES);
    check_text(stats->program, sizeof(stats->program));
    for (unsigned i = 0; i < DIRECTNFS_SERVERS; i++) {
        check_text(stats->servers[i].name, sizeof(stats->servers[i].name));
        check_text(stats->servers[i].directory, sizeof(stats->servers[i].directory));
        check_text(stats->servers[i].mount, sizeof(stats->servers[i].mount));
        check_text(stats->servers[i].security, sizeof(stats->servers[i].security));
        assert_true(stats->servers[i].slot <= DIRECTNFS_SLOT_USED);
        assert_true(stats->servers[i].kind <= DIRECTNFS_STANDALONE);
    }
    for (unsigned i = 0; i < DIRECTNFS_PATHS; i++) {
        const struct directnfs_path_stats *path = &stats->paths[i];
        check_text(path->name, sizeof(path->name));
        check_text(path->path, sizeof(path->path));
        check_text(path->local, sizeof(path->local));
        check_text(path->reason, sizeof(path->reason));
        assert_true(path->slot <= DIRECTNFS_SLOT_USED && path->server <= DIRECTNFS_SERVERS);
        assert_true(path->state <= DIRECTNFS_CHANNEL_OFFLINE);
    }
    for (unsigned i = 0; i < DIRECTNFS_CHANNELS; i++) {
        const struct directnfs_channel_stats *channel = &stats->channels[i];
        check_text(channel->path, sizeof(channel->path));
        check_text(channel->local, sizeof(channel->local));
        assert_true(channel->slot <= DIRECTNFS_SLOT_USED && channel->server <= DIRECTNFS_SERVERS);
        assert_true(channel->state <= DIRECTNFS_CHANNEL_OFFLINE);
    }
    for (unsigned i = 0; i < DIRECTNFS_FILES; i++) {
        const struct directnfs_file_stats *file = &stats->files[i];
        check_text(file->name, sizeof(file->name));
        check_text(file->reason, sizeof(file->reason));
        assert_true(file->slot <= DIRECTNFS_SLOT_CLOSED && file->server <= DIRECTNFS_SERVERS);
        assert_true(file->state <= DIRECTNFS_FILE_KERNEL);
    }
}

/* Everything that a reader does with a snapshot. */
static void check_snapshot(struct host_stats_snapshot *before)
{
    struct host_stats_snapshot now = {0}, copy;
    struct host_latency latency;
    assert_int_equal(host_stats_snapshot_read(&now, NULL), 0);
    for (unsigned i = 0; i < now.count; i++)
        check_copy(now.processes[i]);
    for (unsigned i = 0; i < now.ended_count; i++)
        check_copy(now.ended[i]);
    assert_int_equal(host_stats_snapshot_copy(&copy, &now), 0);
    host_stats_snapshot_subtract(&copy, before);
    struct directnfs_stats *sum = host_stats_snapshot_sum(&copy);
    check_copy(sum);
    host_stats_latency(&sum->counters.procedures[6].latency, &latency);
    free(sum);
    host_stats_snapshot_free(&copy);
    host_stats_snapshot_free(before);
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

static void random_bytes_do_no_harm(void **state)
{
    (void)state;
    static struct directnfs_stats bad;
    struct host_stats_snapshot before = {0};
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    srand(seed);
    for (unsigned round = 0; round < rounds_of(500); round++) {
        bad = good;
        spoil(&bad, rand() % 4 != 0);
        put_file(rand() % 3 ? own : "stats.ended", &bad, sizeof(bad), HOST_STATS_BYTES);
        check_snapshot(&before);
    }
    host_stats_snapshot_free(&before);
}

/* A header that is believed, and all else at random. */
static void a_random_registry_does_no_harm(void **state)
{
    (void)state;
    static struct host_shared shared;
    struct host_stats_snapshot before = {0};
    srand((unsigned)getpid());
    for (unsigned round = 0; round < rounds_of(200); round++) {
        for (size_t i = 0; i < sizeof(shared); i += sizeof(int))
            memcpy((uint8_t *)&shared + i, &(int){rand()}, sizeof(int));
        shared.magic = HOST_REGISTRY_MAGIC;
        shared.layout = HOST_REGISTRY_LAYOUT;
        shared.header_size = sizeof(shared);
        if (rand() % 2)
            shared.chunk_count = shared.record_count = shared.bucket_count = 16;
        put_file("registry", &shared, sizeof(shared),
                 rand() % 2 ? (off_t)sizeof(shared) : (off_t)rand() * 32);
        check_snapshot(&before);
    }
    host_stats_snapshot_free(&before);
}

/* ---- files that change while they are read ---- */

static int truncate_again_and_again(void *unused)
{
    (void)unused;
    for (;;) {
        if (truncate(own_path, 5000) != 0 || truncate(own_path, HOST_STATS_BYTES) != 0)
            return 1;
        int fd = open(own_path, O_WRONLY);
        if (fd < 0 || pwrite(fd, &good, 10000, 0) != 10000)
            return 1;
        close(fd);
    }
}

static void a_file_that_shrinks_while_it_is_read_does_no_harm(void **state)
{
    (void)state;
    struct host_stats_snapshot before = {0};
    put_file(own, &good, sizeof(good), HOST_STATS_BYTES);
    pid_t child = start_child(truncate_again_and_again, NULL);
    for (unsigned round = 0; round < rounds_of(2000); round++)
        check_snapshot(&before);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    host_stats_snapshot_free(&before);
}

/* ---- processes ---- */

static int stop_with_the_lock(void *unused)
{
    (void)unused;
    int lock = host_stats_lock(host_run_open(), HOST_STATS_LOCK_MS);
    if (lock < 0)
        return 1;
    raise(SIGSTOP);
    host_stats_unlock(lock);
    return 0;
}

static int count_and_end(void *unused)
{
    (void)unused;
    host_stats_after_fork();
    if (host_stats_open() != 0)
        return 1;
    host_stats_call(6, 1000, false);
    host_stats_finish();
    return 0;
}

/* It ends without the lock; a later reader adds what it left. */
static void a_stopped_reader_does_not_keep_a_process_from_ending(void **state)
{
    (void)state;
    struct host_stats_snapshot snapshot = {0};
    int status;
    pid_t reader = start_child(stop_with_the_lock, NULL);
    assert_int_equal(waitpid(reader, &status, WUNTRACED), reader);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(run_child(count_and_end, NULL), 0);
    kill(reader, SIGCONT);
    assert_int_equal(end_child(reader), 0);

    assert_int_equal(host_stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.ended_count, 1);
    assert_int_equal(snapshot.ended[0]->counters.procedures[6].latency.calls, 1);
    host_stats_snapshot_free(&snapshot);
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
    host_stats_after_fork();
    if (host_stats_open() != 0)
        return 1;
    host_stats_call(6, 1000, false);
    if (*(unsigned *)number % 2)
        kill(getpid(), SIGKILL);
    host_stats_finish();
    return 0;
}

static void ten_thousand_forks_leave_two_files(void **state)
{
    (void)state;
    enum { AT_ONCE = 20 };
    struct host_stats_snapshot snapshot = {0};
    pid_t children[AT_ONCE];
    unsigned rounds = rounds_of(rounds_of(10000)) / AT_ONCE; /* valgrind is slow to fork */
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            children[i] = start_child(count_and_end_somehow, &i);
        /* Of those that run, and of what is being added up. */
        assert_true(memory_used() <= (AT_ONCE + 2) * HOST_STATS_BYTES);
        for (unsigned i = 0; i < AT_ONCE; i++)
            assert_int_equal(end_child(children[i]), i % 2 ? 128 + SIGKILL : 0);
        int run = host_run_open();
        host_stats_reap(run, NULL);
        close(run);
        assert_int_equal(count_run_files(), 2);
        assert_true(memory_used() <= 100000);
    }
    assert_int_equal(host_stats_snapshot_read(&snapshot, NULL), 0);
    assert_int_equal(snapshot.ended[0]->processes, rounds * AT_ONCE);
    assert_int_equal(snapshot.ended[0]->counters.procedures[6].latency.calls, rounds * AT_ONCE);
    host_stats_snapshot_free(&snapshot);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, make_good)
    const struct CMUnitTest tests[] = {
        TEST(what_is_no_segment_is_a_problem),
        TEST(a_segment_of_another_user_is_a_problem),
        TEST(what_ended_and_the_lock_may_be_anything),
        TEST(of_many_problems_the_first_are_kept),
        TEST(random_bytes_do_no_harm),
        TEST(a_random_registry_does_no_harm),
        TEST(a_file_that_shrinks_while_it_is_read_does_no_harm),
        TEST(a_stopped_reader_does_not_keep_a_process_from_ending),
        TEST(ten_thousand_forks_leave_two_files),
    };
    return cmocka_run_group_tests(tests, make_run_directory, remove_run_directory);
}
