/* O_APPEND: what is written lands at the end of the file, whole, whoever else appends. */
#include <fcntl.h>
#include <sys/resource.h>

#include "async_scene.h"
#include "file/inode.h"

static ssize_t engine_stream(int fd, const void *data, size_t length, bool write)
{
    struct iovec vector = {(void *)data, length};
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    CHECK(open != NULL);
    ssize_t result =
        write ? file_writev(open, fd, &vector, 1, 0) : file_readv(open, fd, &vector, 1, 0);
    file_put(open);
    sys_critical_leave();
    CHECK(result != FILE_KERNEL);
    return result;
}

static ssize_t engine_append(int fd, const void *data, size_t length)
{
    return engine_stream(fd, data, length, true);
}

/* As the face does it. */
static void engine_set_flags(int fd, int flags)
{
    sys_critical_enter();
    bool changes = file_flags_begin(fd, flags);
    CHECK_EQUAL(fcntl(fd, F_SETFL, flags), 0);
    file_flags_end(changes);
    sys_critical_leave();
}

static off_t engine_offset(int fd)
{
    return engine_seek(fd, 0, SEEK_CUR);
}

/* Appends `length` bytes that tell that they are to begin at `offset`. */
static void append_there(int fd, size_t length, off_t offset, unsigned version)
{
    uint8_t *data = malloc(length);
    data_fill(data, length, (uint64_t)offset, version);
    CHECK_EQUAL(engine_append(fd, data, length), length);
    free(data);
}

/* ---- one process ---- */

ENGINE_TEST(appending_is_served)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_WRONLY | O_APPEND);
    append_there(fd, 50, 100, 2);
    append_there(fd, 3, 150, 3);
    CHECK_EQUAL(engine_size(fd), 153);
    CHECK_EQUAL(disk_size("f"), 153);
    CHECK_EQUAL(server_calls(NFS3_PROC_WRITE), 2);
    disk_expect("f", 100, 0, 1);
    disk_expect("f", 50, 100, 2);
    disk_expect("f", 3, 150, 3);
}

ENGINE_TEST(a_new_file_is_appended_to)
{
    disk_make("f", 0, 0);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 10, 0, 1);
    CHECK_EQUAL(engine_append(fd, "", 0), 0);
    engine_expect(fd, 10, 0, 1);
}

ENGINE_TEST(the_offset_is_the_end_of_what_was_appended)
{
    char data[100];
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND), other = engine_dup(fd);
    CHECK_EQUAL(engine_offset(fd), 0);
    append_there(fd, 50, 100, 2);
    CHECK_EQUAL(engine_offset(other), 150);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 150);
    append_there(other, 50, 150, 2);
    CHECK_EQUAL(engine_stream(fd, data, 10, false), 0);
    CHECK_EQUAL(engine_seek(fd, 20, SEEK_SET), 20);
    CHECK_EQUAL(engine_stream(fd, data, 10, false), 10);
    CHECK(data_is(data, 10, 20, 1));
    append_there(fd, 50, 200, 2);
    engine_set_flags(fd, 0);
    CHECK_EQUAL(engine_append(fd, "x", 1), 1);
    CHECK_EQUAL(engine_offset(fd), 251);
}

/* The end was before what had been appended until then. */
ENGINE_TEST(the_offset_follows_a_file_that_was_cut)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 50, 100, 2);
    CHECK_EQUAL(engine_truncate(fd, 0), 0);
    append_there(fd, 10, 0, 3);
    CHECK_EQUAL(engine_offset(fd), 10);
    append_there(fd, 10, 10, 3);
    engine_set_flags(fd, 0);
    CHECK_EQUAL(engine_append(fd, "x", 1), 1);
    CHECK_EQUAL(engine_size(fd), 21);
}

/* pwrite(2), BUGS. */
ENGINE_TEST(pwrite_appends_too_and_leaves_the_offset)
{
    uint8_t data[50];
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    CHECK_EQUAL(engine_seek(fd, 7, SEEK_SET), 7);
    data_fill(data, sizeof(data), 100, 2);
    CHECK_EQUAL(engine_write(fd, data, sizeof(data), 0), sizeof(data));
    engine_expect(fd, 100, 0, 1);
    engine_expect(fd, 50, 100, 2);
    CHECK_EQUAL(engine_offset(fd), 7);
}

ENGINE_TEST(one_write_may_append)
{
    uint8_t data[50];
    struct iovec vector = {data, sizeof(data)};
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR);
    data_fill(data, sizeof(data), 100, 2);
    CHECK_EQUAL(engine_writev(fd, &vector, 1, 3, RWF_APPEND), sizeof(data));
    data_fill(data, sizeof(data), 3, 3);
    CHECK_EQUAL(engine_writev(fd, &vector, 1, 3, 0), sizeof(data));
    engine_expect(fd, 50, 100, 2);
    engine_expect(fd, 50, 3, 3);
    int reading = engine_adopt("f", O_RDONLY | O_APPEND);
    CHECK_EQUAL(engine_writev(reading, &vector, 1, 3, RWF_APPEND), -EBADF);
    CHECK_EQUAL(engine_write(reading, "x", 1, 0), -EBADF);
}

ENGINE_TEST(one_write_may_not_append)
{
    uint8_t data[50];
    struct iovec vector = {data, sizeof(data)};
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    data_fill(data, sizeof(data), 3, 3);
    if (FILE_NOAPPEND == 0)
        return;
    CHECK_EQUAL(engine_writev(fd, &vector, 1, 3, FILE_NOAPPEND), sizeof(data));
    CHECK_EQUAL(engine_size(fd), 100);
    CHECK_EQUAL(engine_writev(fd, &vector, 1, 3, FILE_NOAPPEND | RWF_APPEND), -EINVAL);
}

ENGINE_TEST(appending_is_switched_on_and_off)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR), other = engine_dup(fd);
    CHECK_EQUAL(engine_append(fd, "x", 1), 1);
    engine_set_flags(fd, O_APPEND);
    CHECK(fcntl(fd, F_GETFL) & O_APPEND);
    append_there(other, 50, 100, 2);
    append_there(fd, 50, 150, 2);
    engine_set_flags(other, O_NONBLOCK);
    CHECK_EQUAL(engine_offset(fd), 200);
    engine_set_flags(fd, O_APPEND | O_NONBLOCK);
    engine_set_flags(fd, 0);
    CHECK_EQUAL(engine_seek(fd, 0, SEEK_SET), 0);
    CHECK_EQUAL(engine_append(fd, "y", 1), 1);
    CHECK_EQUAL(engine_size(fd), 200);
    CHECK(file_is_managed(fd));
}

static void child_changes(int fd, int flags)
{
    pid_t pid = engine_fork();
    if (pid == 0) {
        engine_set_flags(fd, flags);
        _exit(0);
    }
    scene_wait(pid);
}

ENGINE_TEST(a_child_switches_appending_on_and_off_for_its_parent)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_append(fd, "x", 1), 1);
    child_changes(fd, O_APPEND);
    append_there(fd, 50, 100, 2);
    child_changes(fd, 0);
    CHECK_EQUAL(engine_write(fd, "y", 1, 0), 1);
    CHECK_EQUAL(engine_size(fd), 150);
}

/* While the description is this process's alone the kernel's offset may lag behind. */
ENGINE_TEST(a_child_finds_the_offset_of_its_parent)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 50, 100, 2);
    pid_t pid = engine_fork();
    if (pid == 0) {
        CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 150);
        step_done(0);
        step_wait(1);
        CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 200);
        append_there(fd, 50, 200, 2);
        _exit(0);
    }
    step_wait(0);
    append_there(fd, 50, 150, 2);
    step_done(1);
    scene_wait(pid);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 250);
}

ENGINE_TEST(the_kernel_gets_the_offset_with_the_file)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 50, 100, 2);
    CHECK_EQUAL(engine_demote(fd), 0);
    CHECK_EQUAL(engine_offset(fd), 150);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 150);
}

ENGINE_TEST(appended_data_is_stable_where_it_is_to_be)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_WRONLY | O_APPEND | O_DSYNC);
    append_there(fd, 50, 100, 2);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS3_DATA_SYNC]), 1);
    int all = engine_adopt("f", O_WRONLY | O_APPEND | O_SYNC);
    append_there(all, 50, 150, 2);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS3_FILE_SYNC]), 1);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 100, 100, 2);
}

ENGINE_TEST(appended_data_is_written_again)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 50, 100, 2);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(disk_size("f"), 100);
    append_there(fd, 50, 150, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 100, 0, 1);
    disk_expect("f", 100, 100, 2);
    CHECK_EQUAL(disk_size("f"), 200);
}

ENGINE_TEST(a_limit_of_sizes_holds_for_appending)
{
    uint8_t data[100] = {0};
    struct rlimit limit;
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 130;
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    file_size_limit_learn();
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQUAL(engine_append(fd, data, 100), 30);
    CHECK_EQUAL(engine_append(fd, data, 100), -EFBIG);
    CHECK_EQUAL(engine_offset(fd), 130);
}

/* ---- errors ---- */

/* A server without room takes what it has room for, and then fails. */
static void fills_the_disk(size_t length, uint64_t room)
{
    uint8_t *data = malloc(length);
    data_fill(data, length, 100, 2);
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    atomic_store(&scene.control->full_at, 100 + room);
    CHECK_EQUAL(engine_append(fd, data, length), room);
    CHECK_EQUAL(engine_append(fd, data, length), -ENOSPC);
    CHECK_EQUAL(engine_size(fd), 100 + room);
    CHECK_EQUAL(engine_offset(fd), 100 + room);
    atomic_store(&scene.control->full_at, 0);
    append_there(fd, 50, (off_t)(100 + room), 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", 50 + room, 100, 2);
    CHECK_EQUAL(disk_size("f"), 150 + room);
    free(data);
}

ENGINE_TEST(a_full_disk_in_the_middle_of_a_write)
{
    fills_the_disk(1000, 300);
}

ENGINE_TEST(a_full_disk_in_the_middle_of_a_write_of_several_calls)
{
    atomic_store(&scene.control->wtmax, 65536);
    fills_the_disk(1 << 20, 200000);
}

ENGINE_TEST(a_full_disk_in_the_middle_of_a_write_of_several_pieces)
{
    fills_the_disk(3 << 20, (2 << 20) + 5000);
}

ENGINE_TEST(what_failed_leaves_no_hole)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    server_fail(NFS3_PROC_WRITE, 1, NFS3ERR_IO);
    CHECK_EQUAL(engine_append(fd, "lost", 4), -EIO);
    append_there(fd, 50, 100, 2);
    CHECK_EQUAL(engine_size(fd), 150);
}

/* No part of it that is behind the one that failed. */
ENGINE_TEST(what_failed_leaves_nothing_behind_it)
{
    static uint8_t data[300000];
    disk_make("f", 100, 1);
    atomic_store(&scene.control->wtmax, 65536);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    server_fail(NFS3_PROC_WRITE, 1, NFS3ERR_IO);
    CHECK_EQUAL(engine_append(fd, data, sizeof(data)), -EIO);
    append_there(fd, 50, 100, 2);
    CHECK_EQUAL(engine_size(fd), 150);
    CHECK_EQUAL(disk_size("f"), 150);
}

/* ---- the size ---- */

static void disk_append(const char *name, size_t length, off_t offset, unsigned version)
{
    char path[SCENE_PATH];
    uint8_t data[1000];
    scene_file_path(path, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    data_fill(data, length, (uint64_t)offset, version);
    CHECK_EQUAL(pwrite(fd, data, length, offset), length);
    close(fd);
}

static void appends_after_another_host(void)
{
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 50, 100, 2);
    disk_append("f", 50, 150, 3);
    append_there(fd, 50, 200, 2);
}

SCENE_TEST(the_server_is_asked_for_the_size_if_that_is_wanted_at_every_call)
{
    strcpy(scene.conf, "actimeo = 0;");
    scene_environment();
    disk_make("f", 100, 1);
    scene_run(appends_after_another_host);
    disk_expect("f", 50, 100, 2);
    disk_expect("f", 50, 150, 3);
    disk_expect("f", 50, 200, 2);
}

ENGINE_TEST(the_size_is_known_as_long_as_actimeo_says)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    append_there(fd, 50, 100, 2);
    unsigned asked = server_calls(NFS3_PROC_GETATTR);
    for (int i = 0; i < 10; i++)
        append_there(fd, 50, 150 + i * 50, 2);
    CHECK(server_calls(NFS3_PROC_GETATTR) <= asked + 1);
}

/* ---- several processes ---- */

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
    server_hold(NFS3_PROC_WRITE);
    pid_t one = scene_start(first);
    step_wait(0);
    server_wait_held(1);
    pid_t two = scene_start(appends_behind);
    step_wait(1);
    usleep(100000);
    CHECK_EQUAL(atomic_load(&scene.control->held), 1);
    server_release();
    scene_wait(one);
    scene_wait(two);
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
    server_hold(NFS3_PROC_WRITE);
    pid_t one = scene_start(appends_much);
    step_wait(0);
    server_wait_held(1);
    pid_t two = scene_start(writes_far_behind);
    step_wait(1);
    usleep(100000);
    CHECK_EQUAL(atomic_load(&scene.control->held), 1);
    server_release();
    scene_wait(one);
    scene_wait(two);
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
    strcpy(scene.conf, "uncommitted_max = 16777216;");
    scene_environment();
    disk_make("f", 100, 1);
    atomic_store(&scene.control->power_after[NFS3_PROC_WRITE], 5);
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
    server_hold(NFS3_PROC_WRITE);
    pid_t one = scene_start(appends_once);
    step_wait(0);
    server_wait_held(1);
    pid_t two = scene_start(truncates);
    step_wait(1);
    usleep(100000);
    server_release();
    scene_wait(one);
    scene_wait(two);
    CHECK_EQUAL(disk_size("f"), 10);
}

/* The one that is killed has a write in flight, which the server executes, or never gets. */
static void one_is_killed(bool executed)
{
    strcpy(scene.conf, "failover_hold = 0.5; actimeo = 100;");
    scene_environment();
    disk_make("f", 100, 1);
    server_hold(NFS3_PROC_WRITE);
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
    CHECK(sys_now_ns() - start < UINT64_C(20000000000));
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
    strcpy(scene.conf, "failover_hold = 0; actimeo = 100;");
    scene_environment();
    disk_make("f", 100, 1);
    server_hold(NFS3_PROC_WRITE);
    pid_t one = scene_start(appends_once);
    step_wait(0);
    server_wait_held(1);
    pid_t two = scene_start(opens_and_appends_behind);
    step_wait(1);
    scene_kill(one);
    server_release();
    step_done(2);
    scene_wait(two);
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
    strcpy(scene.conf, "failover_hold = 0.2;");
    scene_environment();
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

/* ---- asynchronous ---- */

ENGINE_TEST(asynchronous_writes_append)
{
    enum { COUNT = 8, LENGTH = 100 };
    disk_make("f", 100, 1);
    file_lane_init(&lane);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    for (unsigned i = 0; i < COUNT; i++)
        job_write(&jobs[i], fd, LENGTH, 0, 2 + i);
    submit(0, COUNT);
    wait_for_jobs(0, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_EQUAL(jobs[i].result, LENGTH);
    CHECK_EQUAL(engine_size(fd), 100 + COUNT * LENGTH);
    engine_expect(fd, 100, 0, 1);
}

/* Behind its own writes in flight, which nobody else would see the end of. */
ENGINE_TEST(who_appends_waits_for_its_own_asynchronous_write)
{
    disk_make("f", 100, 1);
    file_lane_init(&lane);
    int fd = engine_adopt("f", O_RDWR), appending = engine_adopt("f", O_RDWR | O_APPEND);
    job_write(&jobs[0], fd, 100, 100, 2);
    submit(0, 1);
    append_there(appending, 100, 200, 2);
    wait_for_job(&jobs[0]);
    engine_expect(fd, 200, 100, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_is_served),
        cmocka_unit_test(a_new_file_is_appended_to),
        cmocka_unit_test(the_offset_is_the_end_of_what_was_appended),
        cmocka_unit_test(the_offset_follows_a_file_that_was_cut),
        cmocka_unit_test(pwrite_appends_too_and_leaves_the_offset),
        cmocka_unit_test(one_write_may_append),
        cmocka_unit_test(one_write_may_not_append),
        cmocka_unit_test(appending_is_switched_on_and_off),
        cmocka_unit_test(a_child_switches_appending_on_and_off_for_its_parent),
        cmocka_unit_test(a_child_finds_the_offset_of_its_parent),
        cmocka_unit_test(the_kernel_gets_the_offset_with_the_file),
        cmocka_unit_test(appended_data_is_stable_where_it_is_to_be),
        cmocka_unit_test(appended_data_is_written_again),
        cmocka_unit_test(a_limit_of_sizes_holds_for_appending),
        cmocka_unit_test(a_full_disk_in_the_middle_of_a_write),
        cmocka_unit_test(a_full_disk_in_the_middle_of_a_write_of_several_calls),
        cmocka_unit_test(a_full_disk_in_the_middle_of_a_write_of_several_pieces),
        cmocka_unit_test(what_failed_leaves_no_hole),
        cmocka_unit_test(what_failed_leaves_nothing_behind_it),
        cmocka_unit_test(the_server_is_asked_for_the_size_if_that_is_wanted_at_every_call),
        cmocka_unit_test(the_size_is_known_as_long_as_actimeo_says),
        cmocka_unit_test(who_appends_waits_for_who_appends),
        cmocka_unit_test(who_appends_waits_for_who_writes_at_the_end),
        cmocka_unit_test(nobody_writes_where_the_rest_of_a_long_write_is_to_be),
        cmocka_unit_test(room_is_made_in_the_middle_of_a_long_write),
        cmocka_unit_test(who_changes_the_size_waits_for_who_appends),
        cmocka_unit_test(who_was_killed_blocks_nobody),
        cmocka_unit_test(what_a_killed_process_sent_may_arrive_late),
        cmocka_unit_test(what_a_killed_process_sent_has_arrived),
        cmocka_unit_test(threads_and_processes_append_whole_records),
        cmocka_unit_test(records_are_whole_beside_a_process_that_is_killed),
        cmocka_unit_test(long_records_are_whole),
        cmocka_unit_test(asynchronous_writes_append),
        cmocka_unit_test(who_appends_waits_for_its_own_asynchronous_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
