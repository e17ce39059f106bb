/* Processes and threads in another network namespace than the connections were made in. */
#include <pthread.h>
#include <sched.h>

#include "file_scene.h"

enum { BYTES = 8192 };

#define ABROAD_TEST(name, tunables)              \
    static void name##_engine(void);             \
    SCENE_TEST(name)                             \
    {                                            \
        if (geteuid() != 0)                      \
            return; /* only root may go there */ \
        scene_configure(tunables);               \
        disk_make("f", BYTES, 1);                \
        scene_run(name##_engine);                \
    }                                            \
    static void name##_engine(void)

#define NOW    "write_behind_max = 0;"
#define BEHIND "write_behind_max = 16777216;"

static void go_abroad(void)
{
    CHECK_EQUAL(unshare(CLONE_NEWNET), 0);
}

static void run_child(void (*body)(int fd), int fd)
{
    pid_t pid = engine_fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        body(fd);
        sys_critical_enter();
        file_finish();
        _exit(0);
    }
    scene_wait(pid);
}

/* ---- a child ---- */

static void reads_and_writes(int fd)
{
    engine_expect(fd, BYTES, 0, 1);
    engine_put(fd, BYTES, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(!file_is_managed(fd));
}

ABROAD_TEST(a_child_goes_on_by_the_kernel, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_expect(fd, BYTES, 0, 1);
    go_abroad();
    run_child(reads_and_writes, fd);
    engine_expect(fd, BYTES, 0, 2);
    disk_expect("f", BYTES, 0, 2);
}

static void goes_and_writes(int fd)
{
    go_abroad();
    reads_and_writes(fd);
}

ABROAD_TEST(a_child_that_goes_itself_goes_on_by_the_kernel, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    run_child(goes_and_writes, fd);
    disk_expect("f", BYTES, 0, 2);
}

static void opens(int unused)
{
    (void)unused;
    int fd = engine_open("f", O_RDWR);
    CHECK(!file_is_managed(fd));
    engine_expect(fd, BYTES, 0, 2);
    engine_put(fd, BYTES, 0, 3);
}

ABROAD_TEST(a_child_opens_by_the_kernel_what_its_parent_has_not_sent, BEHIND)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    go_abroad();
    run_child(opens, fd);
    engine_expect(fd, BYTES, 0, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BYTES, 0, 3);
}

static void writes_over(int fd)
{
    engine_put(fd, BYTES, 0, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

ABROAD_TEST(what_a_child_writes_comes_after_what_its_parent_has_not_sent, BEHIND)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BYTES, 0, 2);
    go_abroad();
    run_child(writes_over, fd);
    CHECK_EQUAL(engine_fsync(fd), 0);
    engine_expect(fd, BYTES, 0, 3);
    disk_expect("f", BYTES, 0, 3);
}

static void fails(int fd)
{
    char byte = 0, path[SCENE_PATH];
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -EIO);
    CHECK_EQUAL(engine_write(fd, &byte, 1, 0), -EIO);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_close(fd), -EIO);
    scene_file_path(path, "f");
    fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    sys_critical_enter();
    CHECK_EQUAL(file_opened(fd, O_WRONLY), -EIO);
    sys_critical_leave();
}

static void closes(int fd)
{
    CHECK_EQUAL(engine_close(fd), 0);
}

ABROAD_TEST(a_child_fails_while_its_parent_cannot_send, BEHIND)
{
    int fd = engine_adopt("f", O_RDWR);
    server_hold(NFS3_PROC_WRITE);
    engine_put(fd, BYTES, 0, 2);
    go_abroad();
    run_child(closes, fd);
    run_child(fails, fd);
    server_release();
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", BYTES, 0, 2);
}

/* ---- the process itself, and one of its threads ---- */

ABROAD_TEST(connections_go_on, NOW)
{
    int fd = engine_adopt("f", O_RDWR);
    go_abroad();
    engine_put(fd, BYTES, 0, 2);
    engine_expect(fd, BYTES, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(file_is_managed(fd));
    server_do(FILE_SERVER_RESET);
    engine_put(fd, BYTES, 0, 3);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(!file_is_managed(fd));
    disk_expect("f", BYTES, 0, 3);
}

static void *uses_it_abroad(void *fd)
{
    go_abroad();
    CHECK_EQUAL(engine_open("f", O_RDONLY) >= 0, 1);
    engine_expect(*(int *)fd, BYTES, 0, 1);
    return NULL;
}

ABROAD_TEST(one_thread_leaves_the_others_their_connections, NOW)
{
    pthread_t thread;
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(pthread_create(&thread, NULL, uses_it_abroad, &fd), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    engine_put(fd, BYTES, 0, 2);
    CHECK(file_is_managed(fd));
    server_do(FILE_SERVER_RESET);
    engine_expect(fd, BYTES, 0, 2);
    CHECK(file_is_managed(fd));
}

int main(void)
{
    return unit_run(NULL, NULL);
}
