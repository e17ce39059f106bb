/*
 * What the kernel's NFS client is told. The mount of these tests is a local directory, and is only
 * said to be one by NFS: all that is asked of the kernel is answered there, and does nothing.
 */
#include "async_scene.h"
#include "fd/stat.h"
#include "fd/truncate.h"
#include "file/pages.h"
#include "mount/mounts.h"
#include "traced.h"

/* ---- data that reaches the server is told, though nobody waits for it ---- */

static int adopt(const char *name, int flags)
{
    int fd = engine_adopt(name, flags);
    struct file_open *open = engine_begin(fd);
    open->inode->mount->kernel_nfs = true;
    engine_end(open);
    return fd;
}

/* Waits until it was, since the last of these. */
static void expect_told(int fd)
{
    struct file_open *open = engine_begin(fd);
    for (int i = 0; atomic_load(&open->inode->told_ns) == 0; i++) {
        CHECK(i < SCENE_LIMIT_S * 1000);
        usleep(1000);
    }
    atomic_store(&open->inode->told_ns, 0);
    engine_end(open);
}

ENGINE_TEST(direct_writes_and_those_of_a_size)
{
    disk_make("f", 100, 1);
    int fd = adopt("f", O_RDWR);
    engine_put(fd, 100, 0, 2);
    expect_told(fd);
    engine_put(fd, 100, 100, 2);
    expect_told(fd);
    struct file_open *open = engine_begin(fd);
    CHECK_EQUAL(fd_allocate(open, fd, 0, 0, 1000, true), 0);
    engine_end(open);
    expect_told(fd);
}

ENGINE_TEST(asynchronous_writes)
{
    int fd = lane_open(DISK);
    struct file_open *open = engine_begin(fd);
    open->inode->mount->kernel_nfs = true;
    engine_end(open);
    for (unsigned i = 0; i < 2; i++) {
        job_write(&jobs[i], fd, BLOCK, (off_t)i * BLOCK, 1);
        submit(i, 1);
        wait_for_job(&jobs[i]);
        CHECK_EQUAL(jobs[i].result, BLOCK);
        expect_told(fd);
    }
}

ENGINE_TEST(what_a_server_lost_and_gets_again)
{
    disk_make("f", 0, 0);
    int fd = adopt("f", O_RDWR);
    engine_put(fd, 100, 0, 1);
    expect_told(fd);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    expect_told(fd);
}

static void writes_behind(void)
{
    int fd = adopt("f", O_RDWR);
    engine_put(fd, 100, 0, 1);
    expect_told(fd); /* when it was sent, by itself */
    CHECK(server_calls(NFS_PROC_WRITE) > 0);
}

SCENE_TEST(what_was_written_behind)
{
    scene_configure("write_behind_max = 16777216;");
    disk_make("f", 0, 0);
    scene_run(writes_behind);
}

/* Those whose turn is to come. */
static unsigned count_listed(const struct mount_teller *teller)
{
    unsigned count = 0;
    pthread_mutex_lock(&file_tell_lock);
    for (const struct file_inode *inode = teller->arrived; inode; inode = inode->arrived_next)
        count++;
    for (const struct file_inode *inode = teller->round; inode; inode = inode->arrived_next)
        count++;
    pthread_mutex_unlock(&file_tell_lock);
    return count;
}

ENGINE_TEST(files_that_are_closed_before_their_turn_are_forgotten)
{
    enum { FILES = 20 };
    int fds[FILES];
    for (unsigned i = 0; i < FILES; i++) {
        char name[8];
        snprintf(name, sizeof(name), "f%u", i);
        disk_make(name, 0, 0);
        fds[i] = adopt(name, O_RDWR);
        engine_put(fds[i], 100, 0, 1);
    }
    for (unsigned i = 0; i < FILES; i++)
        CHECK_EQUAL(engine_close(fds[i]), 0);
    CHECK(count_listed(&mounts_at(0)->teller) <= 1); /* that is being told just now */
}

/* A child has no thread of its parent's, and its own where it needs one. */
ENGINE_TEST(a_child_that_writes)
{
    if (!TRACES)
        return; /* ThreadSanitizer forbids it to start threads */
    disk_make("f", 100, 1);
    int fd = adopt("f", O_RDWR);
    engine_put(fd, 100, 0, 2);
    pid_t pid = engine_fork();
    if (pid == 0) {
        struct file_open *open = engine_begin(fd);
        atomic_store(&open->inode->told_ns, 0);
        engine_end(open);
        engine_put(fd, 100, 0, 3);
        expect_told(fd);
        _exit(0);
    }
    scene_wait(pid);
    expect_told(fd);
}

/* ---- the kernel's client does not answer ---- */

#ifdef __x86_64__
/* Is O_DIRECT set of it? */
static bool is_direct(int fd)
{
    return fcntl(fd, F_GETFL) & O_DIRECT;
}

static int open_other(const char *name, bool direct)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    int fd = open(path, O_RDWR | O_CREAT | (direct ? O_DIRECT : 0), 0644);
    CHECK(fd >= 0);
    return fd;
}

/* The thread is kept with the flag set. Meanwhile the descriptor becomes another file's. */
static void drops_in_vain(void)
{
    traced_begin();
    int fd = adopt("f", O_RDWR), copy = engine_dup(fd);
    struct file_open *open = engine_begin(fd);
    struct mount_teller *teller = &open->inode->mount->teller;
    file_pages_drop(open, fd, false);
    CHECK(atomic_load(&teller->silent));
    bool direct = is_direct(fd);      /* not every file system knows it */
    file_pages_drop(open, fd, false); /* which does not wait */
    CHECK(atomic_load(&open->inode->pages_old));
    engine_end(open);
    CHECK_EQUAL(engine_close(fd), 0);
    CHECK_EQUAL(dup2(open_other("other", direct), fd), fd);
    step_done(0);
    while (atomic_load(&teller->silent))
        usleep(1000);
    CHECK(!is_direct(copy));
    CHECK_EQUAL(is_direct(fd), direct);
}

/* Until the first process has ended, with 0. */
static void let_end(const struct traced *traced)
{
    int status;
    pid_t thread;
    while ((thread = waitpid(-traced->pid, &status, __WALL)) != traced->pid || WIFSTOPPED(status)) {
        CHECK(thread > 0);
        if (WIFSTOPPED(status))
            traced_go(thread, WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP
                                  ? 0
                                  : WSTOPSIG(status));
    }
    CHECK_EQUAL(status, 0);
}

SCENE_TEST(who_waits_gives_up_and_the_flag_is_taken_back_where_it_was_set)
{
    if (!TRACES || getenv("DIRECTNFS_TEST_SHORT"))
        return;
    disk_make("f", 100, 1);
    struct traced traced = traced_of(scene_start(drops_in_vain));
    traced_set_trap(&traced, (const void *)file_tell_begin_direct);
    traced_go(traced.pid, 0);
    pid_t thread = traced_wait(&traced, 1);
    CHECK(thread > 0);
    step_wait(0);
    traced_go(thread, 0);
    let_end(&traced);
    close(traced.memory);
}
/* The kernel has times that the host does not know of: telling these is put off, and a thread is
 * kept as it asks for them. Whoever waits for pages meanwhile waits for another thread. */
static void drops_while_a_thread_asks(void)
{
    traced_begin();
    int fd = adopt("f", O_RDWR);
    struct ledger_attributes attributes;
    struct file_open *open = engine_begin(fd);
    struct mount_teller *teller = &open->inode->mount->teller;
    CHECK_EQUAL(fd_attributes_of(open, false, &attributes), 0);
    CHECK_EQUAL(futimens(fd, (struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}), 0);
    teller->full_ns = UINT64_MAX;
    file_pages_drop(open, fd, true);
    step_wait(0);
    file_pages_drop(open, fd, false);
    bool silent = atomic_load(&teller->silent);
    engine_end(open);
    step_done(1);
    CHECK(!silent);
}

SCENE_TEST(who_waits_for_pages_does_not_wait_for_attributes_of_others)
{
    if (!TRACES || getenv("DIRECTNFS_TEST_SHORT"))
        return;
    disk_make("f", 100, 1);
    struct traced traced = traced_of(scene_start(drops_while_a_thread_asks));
    traced_set_trap(&traced, (const void *)file_tell_attributes);
    traced_go(traced.pid, 0);
    pid_t thread = traced_wait(&traced, 1);
    CHECK(thread > 0);
    step_done(0);
    step_wait(1);
    traced_go(thread, 0);
    let_end(&traced);
    close(traced.memory);
}
#endif

int main(void)
{
    return unit_run(NULL, NULL);
}
