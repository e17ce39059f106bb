/* read() and write() at the file offset: one that several share, near an end that moves. */
#include <pthread.h>

#include "file_scene.h"
#include "fd/offset.h"
#include "file/table.h"

enum { RECORDS = 3000, RECORD = 100, READERS = 3, SIZE = 100000 };

static _Atomic unsigned *seen; /* how often each record was read; shared */

/* read(2) or write(2). */
static ssize_t stream(int fd, void *data, size_t length, bool write)
{
    struct iovec vector = {data, length};
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    ssize_t result = write ? fd_writev(open, fd, &vector, 1, 0) : fd_readv(open, fd, &vector, 1, 0);
    file_put(open);
    sys_critical_leave();
    return result;
}

/* Until all are read. */
static void reads(int fd)
{
    uint32_t record[RECORD / 4];
    while (atomic_load(&seen[RECORDS]) < RECORDS) {
        ssize_t got = stream(fd, record, RECORD, false);
        CHECK(got == RECORD || got == 0);
        if (got == 0)
            continue;
        CHECK(record[0] < RECORDS);
        atomic_fetch_add(&seen[record[0]], 1);
        atomic_fetch_add(&seen[RECORDS], 1);
    }
}

static void appends(void)
{
    int fd = engine_adopt("f", O_RDWR);
    uint32_t record[RECORD / 4] = {0};
    step_wait(0);
    for (record[0] = 0; record[0] < RECORDS; record[0]++)
        CHECK_EQUAL(engine_write(fd, record, RECORD, (off_t)record[0] * RECORD), RECORD);
}

static void make_seen(void)
{
    seen = mmap(NULL, (RECORDS + 1) * sizeof(*seen), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(seen != MAP_FAILED);
    disk_make("f", 0, 0);
}

static void expect_each_once(void)
{
    for (unsigned i = 0; i < RECORDS; i++)
        CHECK_EQUAL(atomic_load(&seen[i]), 1);
}

static void forks_readers(void)
{
    pid_t pids[READERS];
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 0; i < READERS; i++) {
        pids[i] = engine_fork();
        if (pids[i] == 0) {
            reads(fd);
            _exit(0);
        }
    }
    step_done(0);
    for (unsigned i = 0; i < READERS; i++)
        scene_wait(pids[i]);
}

SCENE_TEST(processes_that_share_an_offset_read_each_record_once)
{
    make_seen();
    pid_t writer = scene_start(appends);
    scene_run(forks_readers);
    scene_wait(writer);
    expect_each_once();
}

static void *reads_in_thread(void *fd)
{
    reads(*(int *)fd);
    return NULL;
}

static void starts_readers(void)
{
    pthread_t threads[READERS];
    int fd = engine_adopt("f", O_RDONLY);
    for (unsigned i = 0; i < READERS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, reads_in_thread, &fd), 0);
    step_done(0);
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
}

SCENE_TEST(threads_that_share_an_offset_read_each_record_once)
{
    make_seen();
    pid_t writer = scene_start(appends);
    scene_run(starts_readers);
    scene_wait(writer);
    expect_each_once();
}

static void reads_until_killed(void)
{
    char data[RECORD];
    int fd = engine_adopt("f", O_RDONLY);
    pid_t child = engine_fork();
    if (child == 0) {
        server_hold(NFS_PROC_READ);
        stream(fd, data, RECORD, false);
        _exit(1);
    }
    server_wait_held(1);
    scene_kill(child);
    server_release();
    CHECK_EQUAL(stream(fd, data, RECORD, false), 10);
}

/* In the middle of a read at the end. */
SCENE_TEST(who_shares_an_offset_goes_on_after_one_was_killed)
{
    disk_make("f", 10, 0);
    scene_run(reads_until_killed);
}

ENGINE_TEST(streams_move_the_kernels_offset)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR), copy = engine_dup(fd);
    uint8_t data[1000];
    CHECK_EQUAL(stream(fd, data, 1000, false), 1000);
    CHECK(data_is(data, 1000, 0, 1));
    CHECK_EQUAL(stream(copy, data, 1000, false), 1000);
    CHECK(data_is(data, 1000, 1000, 1));
    data_fill(data, 500, 2000, 2);
    CHECK_EQUAL(stream(fd, data, 500, true), 500);
    CHECK_EQUAL(lseek(copy, 0, SEEK_CUR), 2500);
    CHECK_EQUAL(lseek(fd, SIZE - 10, SEEK_SET), SIZE - 10);
    CHECK_EQUAL(stream(fd, data, 1000, false), 10);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), SIZE);
    CHECK_EQUAL(stream(fd, data, 1000, false), 0);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
    CHECK_EQUAL(stream(fd, data, 1000, true), -ENOSPC);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), SIZE);
    engine_expect(fd, 500, 2000, 2);
}

static void *writes_in_vain(void *fd)
{
    uint8_t data[500] = {0};
    CHECK_EQUAL(stream(*(int *)fd, data, 500, true), -ENOSPC);
    return NULL;
}

static void *writes_behind_it(void *fd)
{
    uint8_t data[500];
    data_fill(data, 500, 500, 2);
    CHECK_EQUAL(stream(*(int *)fd, data, 500, true), 500);
    return NULL;
}

/* Else the next write would be over those bytes. */
ENGINE_TEST(what_a_write_did_not_use_is_not_given_back_if_others_wrote_behind_it)
{
    pthread_t first, second;
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(pthread_create(&first, NULL, writes_in_vain, &fd), 0);
    server_wait_held(1);
    CHECK_EQUAL(pthread_create(&second, NULL, writes_behind_it, &fd), 0);
    server_wait_held(2);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
    server_release();
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 1000);
    engine_expect(fd, 500, 500, 2);
}

static void *reads_beyond_the_end(void *fd)
{
    uint8_t data[1000];
    CHECK_EQUAL(stream(*(int *)fd, data, 1000, false), 10);
    return NULL;
}

/* During a call, which the server holds, the descriptor is closed, and its number given to another
 * file, of which `other` is the first descriptor. */
struct reuse {
    int fd, other;
    pthread_t caller;
};

static void reuse_begin(struct reuse *reuse, enum nfs_procedure procedure, void *(*call)(void *))
{
    disk_make("f", 10, 1);
    disk_make("g", SIZE, 1);
    reuse->fd = engine_adopt("f", O_RDONLY);
    reuse->other = engine_open("g", O_RDONLY);
    server_hold(procedure);
    CHECK_EQUAL(pthread_create(&reuse->caller, NULL, call, &reuse->fd), 0);
    server_wait_held(1);
    CHECK_EQUAL(engine_close(reuse->fd), 0);
    CHECK_EQUAL(dup2(reuse->other, reuse->fd), reuse->fd);
}

static void reuse_end(struct reuse *reuse)
{
    server_release();
    CHECK_EQUAL(pthread_join(reuse->caller, NULL), 0);
}

static void reuse_during_a_read(bool managed)
{
    struct reuse reuse;
    reuse_begin(&reuse, NFS_PROC_READ, reads_beyond_the_end);
    sys_critical_enter();
    if (managed)
        file_duplicated(reuse.other, reuse.fd);
    sys_critical_leave();
    CHECK_EQUAL(lseek(reuse.fd, 5000, SEEK_SET), 5000);
    reuse_end(&reuse);
    CHECK_EQUAL(lseek(reuse.fd, 0, SEEK_CUR), 5000);
}

ENGINE_TEST(the_offset_of_another_file_is_left_alone)
{
    reuse_during_a_read(false);
    reuse_during_a_read(true);
}

static void *seeks_the_end(void *fd)
{
    CHECK_EQUAL(engine_seek(*(int *)fd, -2, SEEK_END), SIZE - 2);
    return NULL;
}

static void reuse_during_a_seek(void)
{
    struct reuse reuse;
    reuse_begin(&reuse, NFS_PROC_GETATTR, seeks_the_end);
    reuse_end(&reuse);
    CHECK_EQUAL(lseek(reuse.other, 0, SEEK_CUR), SIZE - 2);
}

SCENE_TEST(the_end_is_that_of_the_file_which_has_the_number)
{
    scene_configure("actimeo = 0.0;");
    scene_run(reuse_during_a_seek);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
