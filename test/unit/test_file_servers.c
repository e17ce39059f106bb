/* Two servers: what one of them does not answer is no matter for the files of the other. */
#include "append_scene.h"
#include "ledger/dirty.h"
#include "sys/thread.h"

static struct file_control *other; /* the second server's; the scene's own is the first */

static int start_other(pid_t *server)
{
    int ends[2];
    other = mmap(NULL, sizeof(*other), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(other != MAP_FAILED);
    other->rtmax = other->wtmax = 1 << 20;
    other->maxfilesize = INT64_MAX;
    other->access = UINT32_MAX;
    other->verifier = 0x8877665544332211;
    int listener = file_server_listener(&other->port);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *server = fork();
    if (*server == 0) {
        close(ends[0]);
        close(scene.commands);
        file_server_run(other, listener, ends[1]);
    }
    close(ends[1]);
    close(listener);
    return ends[0];
}

/* Of the first server is directory a, of the second b. */
static void with_two(void (*body)(void))
{
    static char table[1024];
    char path[SCENE_PATH];
    pid_t server;
    int commands = start_other(&server);
    const char *const names[] = {"a", "b"};
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", scene.top, names[i]);
        CHECK_EQUAL(mkdir(path, 0755), 0);
    }
    snprintf(table, sizeof(table),
             "server: first\npath: 127.0.0.1\nnfsport: %%u mntport: %%u\n"
             "export: %%s/a mount: %%s/a\n"
             "server: second\npath: 127.0.0.1\nnfsport: %u mntport: %u\n"
             "export: %%s/b mount: %%s/b\n",
             other->port, other->port);
    scene.nfstab = table;
    strcpy(scene.directory, scene.top);
    scene_configure("write_behind_max = 16777216;");
    disk_make("a/f", 0, 0);
    disk_make("b/f", 0, 0);
    scene_run(body);
    close(commands);
    CHECK_EQUAL(waitpid(server, NULL, 0), server);
}

#define SERVERS_TEST(name)           \
    static void name##_engine(void); \
    SCENE_TEST(name)                 \
    {                                \
        with_two(name##_engine);     \
    }                                \
    static void name##_engine(void)

static void wait_until_other_has(unsigned count)
{
    for (int i = 0; atomic_load(&other->calls[NFS_PROC_WRITE]) < count; i++) {
        CHECK(i < SCENE_LIMIT_S * 500); /* before the process is ended */
        usleep(1000);
    }
}

/* Whatever is sent to the first server is not answered. */
static int begin_waiting(void)
{
    int fd = engine_adopt("a/f", O_RDWR);
    server_hold(NFS_PROC_WRITE);
    engine_put(fd, PAGE_BYTES, 0, 1);
    server_wait_held(1);
    return fd;
}

static void end_waiting(int fd)
{
    server_release();
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("a/f", PAGE_BYTES, 0, 1);
}

SERVERS_TEST(a_server_that_does_not_answer_keeps_nothing_from_another)
{
    int fd = engine_adopt("b/f", O_RDWR), waits = begin_waiting();
    for (unsigned i = 0; i < 3; i++) {
        engine_put(fd, PAGE_BYTES, i * PAGE_BYTES, 1);
        wait_until_other_has(i + 1);
        disk_expect("b/f", PAGE_BYTES, i * PAGE_BYTES, 1);
    }
    CHECK_EQUAL(atomic_load(&scene.control->held), 1);
    end_waiting(waits);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

#ifndef __SANITIZE_THREAD__ /* allows no thread in the child */
/* The lists are the parent's; its child has none, until it opens a file. */
SERVERS_TEST(a_child_sends_to_each_server_what_it_writes_itself)
{
    int fd = engine_adopt("b/f", O_RDWR), waits = begin_waiting();
    engine_put(fd, PAGE_BYTES, 0, 1);
    pid_t child = engine_fork();
    if (child == 0) {
        int own = engine_adopt("b/f", O_RDWR);
        engine_put(own, PAGE_BYTES, 3 * PAGE_BYTES, 1); /* in a WRITE of its own */
        wait_until_other_has(2);
        CHECK_EQUAL(engine_close(own), 0);
        _exit(0);
    }
    scene_wait(child);
    disk_expect("b/f", PAGE_BYTES, 0, 1);
    disk_expect("b/f", PAGE_BYTES, 3 * PAGE_BYTES, 1);
    end_waiting(waits);
}

#endif

SERVERS_TEST(a_server_for_which_no_thread_can_be_started_is_written_to_at_once)
{
    int waits = begin_waiting();
    sys_thread_forbid();
    int fd = engine_adopt("b/f", O_RDWR);
    engine_put(fd, PAGE_BYTES, 0, 1);
    CHECK_EQUAL(atomic_load(&other->calls[NFS_PROC_WRITE]), 1);
    CHECK_EQUAL(ledger_uncommitted(), 2 * PAGE_BYTES);
    end_waiting(waits);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
