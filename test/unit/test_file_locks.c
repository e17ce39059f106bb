/* After a lock the file is as another host left it, whatever this one asks for at the same time. */
#include <pthread.h>

#include "append_scene.h"
#include "fd/life.h"
#include "fd/stat.h"

static void lock(int fd)
{
    struct file_open *open = engine_begin(fd);
    fd_locked(open);
    engine_end(open);
}

static void cut_disk(const char *name, off_t size)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    CHECK_EQUAL(truncate(path, size), 0);
}

static int shared_fd;

static void *writes_at(void *offset)
{
    engine_put(shared_fd, 50, (off_t)(uintptr_t)offset, 2);
    return NULL;
}

static void *asks(void *unused)
{
    (void)unused;
    struct file_open *open = engine_begin(shared_fd);
    unsigned before = server_calls(NFS_PROC_GETATTR);
    struct stat status;
    CHECK_EQUAL(fstat(shared_fd, &status), 0);
    CHECK_EQUAL(fd_stat(open, shared_fd, &status), 0);
    /* On a slow machine the ends of the writes may meet each question. */
    CHECK(status.st_size == 100 || server_calls(NFS_PROC_GETATTR) - before >= 3);
    engine_end(open);
    return NULL;
}

/* Another host cuts the file to 100 bytes and gives up its lock. Behind ours two calls overlap:
 * `first`, a `procedure`, and a write, or two. */
static void overlaps(uint32_t procedure, void *(*first)(void *))
{
    pthread_t one, two, three;
    shared_fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_size(shared_fd), 10000);
    step_done(0);
    step_wait(1);
    lock(shared_fd);
    server_hold(procedure);
    CHECK_EQUAL(pthread_create(&one, NULL, first, NULL), 0);
    server_wait_held(1);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(pthread_create(&two, NULL, writes_at, (void *)50), 0);
    server_wait_held(2);
    if (first == asks) {
        CHECK_EQUAL(pthread_create(&three, NULL, writes_at, NULL), 0);
        server_wait_held(3);
    }
    server_release();
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    if (first == asks)
        pthread_join(three, NULL);
    CHECK_EQUAL(engine_size(shared_fd), 100);
}

static void writes_two(void)
{
    overlaps(NFS_PROC_WRITE, writes_at);
}

static void asks_and_writes(void)
{
    overlaps(NFS_PROC_GETATTR, asks);
}

static void cut_by_another_host(void (*meanwhile)(void))
{
    scene_configure("actimeo = 60;");
    disk_make("f", 10000, 1);
    pid_t pid = scene_start(meanwhile);
    step_wait(0);
    cut_disk("f", 100);
    step_done(1);
    scene_wait(pid);
}

SCENE_TEST(after_a_lock_the_size_is_what_another_host_made_it)
{
    cut_by_another_host(writes_two);
}

SCENE_TEST(after_a_lock_a_question_that_a_write_meets_is_asked_again)
{
    cut_by_another_host(asks_and_writes);
}

/* ---- who began to open the file before the lock ---- */

static void on_signal(int number)
{
    (void)number;
    step_done(5);
    step_wait(6);
}

static void *opens_slowly(void *unused)
{
    (void)unused;
    engine_adopt("g", O_RDONLY);
    return NULL;
}

static void locks_while_it_opens(void)
{
    pthread_t one;
    signal(SIGUSR1, on_signal);
    shared_fd = engine_adopt("f", O_RDWR | O_APPEND);
    server_hold(NFS_PROC_LOOKUP);
    CHECK_EQUAL(pthread_create(&one, NULL, opens_slowly, NULL), 0);
    server_wait_held(1);
    pthread_kill(one, SIGUSR1);
    step_wait(5); /* it is not on a processor for a while, and its LOOKUP is answered */
    server_release();
    step_done(0); /* another process asks for the size, then another host appends and unlocks */
    step_wait(1);
    lock(shared_fd);
    step_done(6);
    pthread_join(one, NULL);
    append_there(shared_fd, 50, 150, 2);
}

static void asks_size(void)
{
    int fd = engine_adopt("f", O_RDONLY);
    lock(fd);
    CHECK_EQUAL(engine_size(fd), 100);
}

SCENE_TEST(an_open_that_took_long_does_not_undo_a_lock)
{
    char f[SCENE_PATH], g[SCENE_PATH];
    scene_configure("actimeo = 60;");
    disk_make("f", 100, 1);
    scene_file_path(f, "f");
    scene_file_path(g, "g");
    CHECK_EQUAL(link(f, g), 0);
    pid_t pid = scene_start(locks_while_it_opens);
    step_wait(0);
    scene_run(asks_size);
    int fd = open(f, O_WRONLY | O_APPEND);
    CHECK(fd >= 0);
    uint8_t data[50];
    data_fill(data, 50, 100, 3);
    CHECK_EQUAL(write(fd, data, 50), 50);
    close(fd);
    step_done(1);
    scene_wait(pid);
    disk_expect("f", 50, 100, 3);
    disk_expect("f", 50, 150, 2);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
