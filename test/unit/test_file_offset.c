/* read() at an offset that several share, near an end that moves. */
#include <pthread.h>

#include "file_scene.h"

enum { RECORDS = 3000, RECORD = 100, READERS = 3 };

static _Atomic unsigned *seen; /* how often each record was read; shared */

static ssize_t read_next(int fd, void *data, size_t length)
{
    struct iovec vector = {data, length};
    sys_critical_enter();
    struct file_open *open = file_get(fd);
    ssize_t result = file_readv(open, fd, &vector, 1, 0);
    file_put(open);
    sys_critical_leave();
    return result;
}

/* Until all are read. */
static void reads(int fd)
{
    uint32_t record[RECORD / 4];
    while (atomic_load(&seen[RECORDS]) < RECORDS) {
        ssize_t got = read_next(fd, record, RECORD);
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
        server_hold(NFS3_PROC_READ);
        read_next(fd, data, RECORD);
        _exit(1);
    }
    server_wait_held(1);
    scene_kill(child);
    server_release();
    CHECK_EQUAL(read_next(fd, data, RECORD), 10);
}

/* In the middle of a read at the end. */
SCENE_TEST(who_shares_an_offset_goes_on_after_one_was_killed)
{
    disk_make("f", 10, 0);
    scene_run(reads_until_killed);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
