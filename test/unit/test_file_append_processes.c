/* O_APPEND by several processes and threads at once. */
#include "append_scene.h"

/* ---- one behind the other ---- */

static void appends_once(void)
{
    int fd = engine_adopt("f", O_WRONLY | O_APPEND);
    step_done(0);
    append_there(fd, 50, 100, 2); /* held by the server */
}

static void appends_behind(void)
{
    int fd = engine_adopt("f", O_WRONLY | O_APPEND);
    step_done(1);
    append_there(fd, 50, 150, 2);
}

static void is_behind_in_flight(void (*first)(void))
{
    disk_make("f", 100, 1);
    scene_run_behind(first, appends_behind);
    disk_expect("f", 90, 0, 1);
    disk_expect("f", 100, 100, 2);
    CHECK_EQUAL(disk_size("f"), 200);
}

SCENE_TEST(who_appends_waits_for_who_appends)
{
    is_behind_in_flight(appends_once);
}

static void writes_at_the_end(void)
{
    int fd = engine_adopt("f", O_WRONLY);
    step_done(0);
    engine_put(fd, 60, 90, 2); /* held by the server */
}

SCENE_TEST(who_appends_waits_for_who_writes_at_the_end)
{
    is_behind_in_flight(writes_at_the_end);
}

static void appends_much(void)
{
    int fd = engine_adopt("f", O_WRONLY | O_APPEND);
    step_done(0);
    append_there(fd, 3 << 20, 100, 2); /* the first piece is held by the server */
}

static void writes_far_behind(void)
{
    int fd = engine_adopt("f", O_WRONLY);
    step_done(1);
    engine_put(fd, 50, 2 << 20, 3);
}

SCENE_TEST(nobody_writes_where_the_rest_of_a_long_write_is_to_be)
{
    disk_make("f", 100, 1);
    scene_run_behind(appends_much, writes_far_behind);
    disk_expect("f", 50, 2 << 20, 3);
    CHECK_EQUAL(disk_size("f"), 100 + (3 << 20));
}

static void appends_more_than_the_ledger_holds(void)
{
    int fd = engine_adopt("f", O_WRONLY | O_APPEND);
    append_there(fd, 40 << 20, 100, 2);
}

/* What has to be written again for that is behind the end that there was at first. */
SCENE_TEST(room_is_made_in_the_middle_of_a_long_write)
{
    scene_configure("uncommitted_max = 16777216;");
    disk_make("f", 100, 1);
    atomic_store(&scene.control->power_after[NFS_PROC_WRITE], 5);
    scene_run(appends_more_than_the_ledger_holds);
    disk_expect("f", 40 << 20, 100, 2);
}

static void truncates(void)
{
    int fd = engine_adopt("f", O_WRONLY);
    step_done(1);
    CHECK_EQUAL(engine_truncate(fd, 10), 0);
    CHECK_EQUAL(engine_size(fd), 10);
}

SCENE_TEST(who_changes_the_size_waits_for_who_appends)
{
    disk_make("f", 100, 1);
    scene_run_behind(appends_once, truncates);
    CHECK_EQUAL(disk_size("f"), 10);
}

/* The one that is killed has a write in flight, which the server executes, or never gets. */
static void one_is_killed(bool executed)
{
    scene_configure("failover_hold = 4; actimeo = 100;"); /* the other one begins within it */
    disk_make("f", 100, 1);
    server_hold(NFS_PROC_WRITE);
    pid_t one = scene_start(appends_once);
    step_wait(0);
    server_wait_held(1);
    scene_kill(one);
    atomic_store(&scene.control->hold, 0);
    uint64_t start = sys_now_ns();
    pid_t two;
    if (!executed)
        server_do(FILE_SERVER_DROP_HELD);
    two = scene_start(executed ? appends_behind : appends_once);
    if (executed) {
        step_wait(1);
        usleep(200000);
        server_do(FILE_SERVER_RELEASE);
    }
    scene_wait(two);
    CHECK(sys_now_ns() - start < UINT64_C(60000000000));
    disk_expect("f", 100, 0, 1);
    disk_expect("f", executed ? 100 : 50, 100, 2);
    CHECK_EQUAL(disk_size("f"), executed ? 200 : 150);
}

SCENE_TEST(who_was_killed_blocks_nobody)
{
    one_is_killed(false);
}

SCENE_TEST(what_a_killed_process_sent_may_arrive_late)
{
    one_is_killed(true);
}

static void opens_and_appends_behind(void)
{
    int fd = engine_adopt("f", O_WRONLY | O_APPEND);
    CHECK_EQUAL(engine_size(fd), 100);
    step_done(1);
    step_wait(2);
    append_there(fd, 50, 150, 2);
}

/* Nothing is held; but the file is longer than the registry knows. */
SCENE_TEST(what_a_killed_process_sent_has_arrived)
{
    scene_configure("failover_hold = 0; actimeo = 100;");
    disk_make("f", 100, 1);
    pid_t started[2];
    scene_start_behind(appends_once, opens_and_appends_behind, started);
    scene_kill(started[0]);
    server_release();
    step_done(2);
    scene_wait(started[1]);
    disk_expect("f", 100, 100, 2);
    CHECK_EQUAL(disk_size("f"), 200);
}

/* ---- many ---- */

/* Records of any length, which say what they are. */
struct record {
    uint32_t magic, writer, sequence, length; /* of what follows */
};

enum { MAGIC = 0x5eC04d, WRITERS = 8, LONGEST = 3 << 20 };

static uint8_t record_data[WRITERS][sizeof(struct record) + LONGEST];

static void append_record(int fd, unsigned writer, unsigned sequence, size_t length)
{
    uint8_t *data = record_data[writer];
    struct record record = {MAGIC, writer, sequence, (uint32_t)length};
    memcpy(data, &record, sizeof(record));
    data_fill(data + sizeof(record), length, 0, writer * 1000 + sequence);
    CHECK_EQUAL(engine_append(fd, data, sizeof(record) + length), sizeof(record) + length);
}

/* The file consists of `most` records of each writer, or the first of them if it was `killed`. */
static void check_records(unsigned writers, unsigned most, int killed)
{
    char path[SCENE_PATH];
    struct stat status;
    unsigned next[WRITERS] = {0};
    scene_file_path(path, "f");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQUAL(fstat(fd, &status), 0);
    uint8_t *all = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    for (off_t at = 0; at < status.st_size;) {
        struct record record;
        memcpy(&record, all + at, sizeof(record));
        CHECK_EQUAL(record.magic, MAGIC);
        CHECK(record.writer < writers);
        CHECK_EQUAL(record.sequence, next[record.writer]++);
        at += (off_t)sizeof(record);
        CHECK(at + record.length <= status.st_size);
        CHECK(data_is(all + at, record.length, 0, record.writer * 1000 + record.sequence));
        at += record.length;
    }
    for (unsigned i = 0; i < writers; i++)
        CHECK((int)i == killed ? next[i] > 0 : next[i] == most);
    munmap(all, (size_t)status.st_size);
    close(fd);
}

enum { RECORDS = 150 };
static int records_fd;

static size_t some_length(unsigned writer, unsigned sequence)
{
    uint32_t number = (writer * 1000 + sequence) * 2654435761u;
    return number % 97 == 0 ? number % 100000 : number % 3000;
}

static void *appends_many(void *argument)
{
    unsigned writer = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < RECORDS; i++)
        append_record(records_fd, writer, i, some_length(writer, i));
    return NULL;
}

static void two_append(unsigned first)
{
    pthread_t other;
    CHECK_EQUAL(pthread_create(&other, NULL, appends_many, (void *)(uintptr_t)(first + 1)), 0);
    appends_many((void *)(uintptr_t)first);
    CHECK_EQUAL(pthread_join(other, NULL), 0);
}

static void some_append(void)
{
    records_fd = engine_adopt("f", O_WRONLY | O_APPEND);
    two_append(0);
    CHECK_EQUAL(engine_fsync(records_fd), 0);
}

static void others_append(void)
{
    records_fd = engine_adopt("f", O_RDWR | O_APPEND);
    pid_t pid = engine_fork();
    two_append(pid == 0 ? 2 : 4);
    CHECK_EQUAL(engine_fsync(records_fd), 0);
    if (pid == 0)
        _exit(0);
    scene_wait(pid);
}

SCENE_TEST(threads_and_processes_append_whole_records)
{
    disk_make("f", 0, 0);
    pid_t one = scene_start(some_append), two = scene_start(others_append);
    scene_wait(one);
    scene_wait(two);
    server_do(FILE_SERVER_LOSE_POWER);
    check_records(6, RECORDS, -1);
}

static void appends_until_killed(void)
{
    records_fd = engine_adopt("f", O_WRONLY | O_APPEND);
    for (unsigned i = 0;; i++) {
        append_record(records_fd, 6, i, some_length(6, i));
        if (i == 10)
            step_done(0);
    }
}

SCENE_TEST(records_are_whole_beside_a_process_that_is_killed)
{
    scene_configure("failover_hold = 0.2;");
    disk_make("f", 0, 0);
    pid_t one = scene_start(some_append), victim = scene_start(appends_until_killed);
    pid_t two = scene_start(others_append);
    step_wait(0);
    scene_kill(victim);
    scene_wait(one);
    scene_wait(two);
    /* Of the victim's what was acknowledged is there, and perhaps one more. */
    check_records(7, RECORDS, 6);
}

static void appends_long_ones(void)
{
    records_fd = engine_adopt("f", O_WRONLY | O_APPEND);
    for (unsigned i = 0; i < 4; i++)
        append_record(records_fd, 0, i, LONGEST - i);
}

static void appends_short_ones(void)
{
    records_fd = engine_adopt("f", O_WRONLY | O_APPEND);
    for (unsigned i = 0; i < 4; i++) {
        append_record(records_fd, 1, i, 100 + i);
        usleep(2000);
    }
}

/* A write of several pieces. */
SCENE_TEST(long_records_are_whole)
{
    disk_make("f", 0, 0);
    pid_t one = scene_start(appends_long_ones), two = scene_start(appends_short_ones);
    scene_wait(one);
    scene_wait(two);
    check_records(2, 4, -1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
