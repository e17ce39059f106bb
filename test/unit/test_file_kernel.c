/* What the kernel writes is not undone by data that the ledger had before. */
#include "durability_scene.h"
#include "fd/offset.h"
#include "fd/truncate.h"
#include "file/table.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"

enum { KEPT = 8192 };

/* A server that restarted makes the ledger write again what it has. */
static void expect_kernels_data(int fd)
{
    server_do(FILE_SERVER_NEW_VERIFIER);
    CHECK_EQUAL(file_is_managed(fd) ? engine_fsync(fd) : engine_kernel_fsync(fd), 0);
    disk_expect("f", KEPT, 0, 2);
}

static void kernel_put(int fd)
{
    uint8_t data[KEPT];
    data_fill(data, sizeof(data), 0, 2);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(pwrite(fd, data, sizeof(data), 0), sizeof(data));
}

static bool kernel_writes_it(int fd)
{
    struct file_open *open = file_get(fd);
    bool result = ledger_world_is_kernel(&open->inode->entry);
    file_put(open);
    return result;
}

/* ---- handing over ---- */

ENGINE_TEST(data_that_cannot_be_committed_does_not_follow)
{
    int fd = written_anew();
    server_fail(NFS_PROC_COMMIT, 1000, NFS3ERR_IO);
    CHECK_EQUAL(engine_demote(fd), -EIO);
    server_fail(NFS_PROC_COMMIT, 0, 0);
    kernel_put(fd);
    CHECK_EQUAL(engine_kernel_fsync(fd), -EIO); /* once: data was lost */
    expect_kernels_data(fd);
}

static void loses_data_and_leaves(void)
{
    int fd = written();
    server_fail(NFS_PROC_COMMIT, 1000, NFS3ERR_IO);
    CHECK_EQUAL(engine_demote(fd), -EIO);
}

static void syncs_later(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_fsync(fd), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

/* As PostgreSQL's checkpointer does, which opens the file when a backend has written it. */
SCENE_TEST(a_loss_is_told_to_who_opens_the_file_later_if_nobody_was_told)
{
    disk_make("f", 0, 0);
    scene_run(loses_data_and_leaves);
    server_fail(NFS_PROC_COMMIT, 0, 0);
    scene_run(syncs_later);
}

static void writes_while_another_hands_over(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(0);
    engine_put(fd, KEPT, 0, 1); /* held by the server */
    step_done(2);
    step_wait(3);
    expect_kernels_data(fd);
}

static void hands_over_while_another_writes(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(1);
    CHECK_EQUAL(engine_demote(fd), 0);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    step_wait(2);
    kernel_put(fd);
    step_done(3);
}

static void waits_for_the_kernel(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_done(4);
    while (!kernel_writes_it(fd))
        usleep(1000);
}

SCENE_TEST(a_write_in_flight_of_another_process_does_not_follow)
{
    disk_make("f", KEPT, 0);
    pid_t witness = scene_start(waits_for_the_kernel);
    step_wait(4);
    pid_t started[2];
    scene_start_behind(writes_while_another_hands_over, hands_over_while_another_writes, started);
    scene_wait(witness);
    server_release();
    scene_wait(started[0]);
    scene_wait(started[1]);
}

static void *writes_elsewhere(void *fd)
{
    engine_put(*(int *)fd, 100, 1 << 20, 3);
    return NULL;
}

static void *hands_over(void *fd)
{
    CHECK_EQUAL(engine_demote(*(int *)fd), 0);
    return NULL;
}

/* One thread hands the file over; it waits for the write of another, which the server holds. */
static void hand_over_begin(pthread_t threads[2], int *fd)
{
    struct file_open *open = file_get(*fd);
    server_hold(NFS_PROC_WRITE);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, writes_elsewhere, fd), 0);
    server_wait_held(1);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, hands_over, fd), 0);
    while (!atomic_load(&open->inode->demoted))
        usleep(1000);
    file_put(open);
}

/* The server goes on, when others that wait have had time for what is wrong; all threads end. */
static void hand_over_end(pthread_t *threads, unsigned count)
{
    usleep(20000);
    server_release();
    for (unsigned i = 0; i < count; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void *writes_meanwhile(void *fd)
{
    uint8_t data[KEPT];
    data_fill(data, sizeof(data), 0, 2);
    CHECK_EQUAL(engine_write(*(int *)fd, data, sizeof(data), 0), sizeof(data));
    CHECK_EQUAL(ledger_uncommitted(), 0); /* it came after */
    return NULL;
}

ENGINE_TEST(a_call_of_another_thread_waits_until_the_file_is_handed_over)
{
    pthread_t threads[3];
    int fd = written_anew();
    hand_over_begin(threads, &fd);
    CHECK_EQUAL(pthread_create(&threads[2], NULL, writes_meanwhile, &fd), 0);
    hand_over_end(threads, 3);
    expect_kernels_data(fd);
}

static void *reads_a_part(void *fd)
{
    engine_expect(*(int *)fd, 100, 0, 1);
    return NULL;
}

/* Else it could give old bytes to who has already seen newer ones of the kernel's world. */
ENGINE_TEST(a_file_is_not_handed_over_before_the_reads_of_others_end)
{
    pthread_t threads[2];
    int fd = written_anew();
    struct file_open *open = file_get(fd);
    server_hold(NFS_PROC_READ);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, reads_a_part, &fd), 0);
    server_wait_held(1);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, hands_over, &fd), 0);
    while (!atomic_load(&open->inode->demoted))
        usleep(1000);
    usleep(100000); /* time for what is wrong */
    CHECK(atomic_load(&open->inode->demoting));
    hand_over_end(threads, 2);
    CHECK(!atomic_load(&open->inode->demoting));
    file_put(open);
    CHECK(!file_is_managed(fd));
    disk_expect("f", SIZE, 0, 1);
}

ENGINE_TEST(a_child_that_is_forked_meanwhile_goes_the_same_way)
{
    pthread_t threads[2];
    int fd = written_anew();
    hand_over_begin(threads, &fd);
    pid_t child = engine_fork();
    if (child == 0) {
        step_done(0);
        engine_put(fd, KEPT, 0, 2);
        CHECK(!file_is_managed(fd));
        _exit(0);
    }
    step_wait(0);
    hand_over_end(threads, 2);
    scene_wait(child);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    expect_kernels_data(fd);
}

/* Such a file is forgotten on its way. */
ENGINE_TEST(a_child_that_is_forked_meanwhile_does_not_wait_for_a_removed_file)
{
    pthread_t threads[2];
    char path[SCENE_PATH], byte;
    int fd = written_anew();
    scene_file_path(path, "f");
    CHECK_EQUAL(unlink(path), 0);
    hand_over_begin(threads, &fd);
    pid_t child = engine_fork();
    if (child == 0) {
        alarm(600);
        step_done(0);
        engine_read(fd, &byte, 1, 0);
        _exit(0);
    }
    step_wait(0);
    hand_over_end(threads, 2);
    scene_wait(child);
}

enum { WRITERS = 8, STREAMED = 512 };

/* write(2), as the face does it. */
static ssize_t stream_put(int fd, unsigned version)
{
    uint8_t data[STREAMED];
    struct iovec vector = {data, sizeof(data)};
    memset(data, (int)version, sizeof(data));
    struct file_open *open = engine_begin(fd);
    ssize_t result = open ? fd_writev(open, fd, &vector, 1, 0) : FILE_KERNEL;
    engine_end(open);
    return result == FILE_KERNEL ? write(fd, data, sizeof(data)) : result;
}

static void *streams_meanwhile(void *argument)
{
    static _Atomic unsigned version;
    CHECK_EQUAL(stream_put(*(int *)argument, atomic_fetch_add(&version, 1) + 1), STREAMED);
    return NULL;
}

ENGINE_TEST(calls_that_share_an_offset_keep_their_places)
{
    pthread_t threads[2], writers[WRITERS];
    uint8_t data[STREAMED];
    bool seen[WRITERS + 1] = {true};
    int fd = written_anew();
    CHECK_EQUAL(lseek(fd, KEPT, SEEK_SET), KEPT);
    hand_over_begin(threads, &fd);
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQUAL(pthread_create(&writers[i], NULL, streams_meanwhile, &fd), 0);
    while (lseek(fd, 0, SEEK_CUR) < KEPT + WRITERS * STREAMED)
        usleep(1000);
    server_release();
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQUAL(pthread_join(writers[i], NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < WRITERS; i++) {
        CHECK_EQUAL(pread(fd, data, sizeof(data), KEPT + i * STREAMED), sizeof(data));
        CHECK(data[0] <= WRITERS && !seen[data[0]]);
        seen[data[0]] = true;
    }
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), KEPT + WRITERS * STREAMED);
}

static void *streams_and_fails(void *fd)
{
    CHECK_EQUAL(stream_put(*(int *)fd, 1), -ENOSPC);
    return NULL;
}

static void *streams_behind(void *fd)
{
    CHECK_EQUAL(stream_put(*(int *)fd, 2), STREAMED);
    return NULL;
}

ENGINE_TEST(what_was_written_behind_a_call_that_failed_is_not_written_over)
{
    pthread_t threads[2];
    uint8_t data[STREAMED];
    int fd = written_anew();
    CHECK_EQUAL(lseek(fd, KEPT, SEEK_SET), KEPT);
    server_hold(NFS_PROC_WRITE);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_NOSPC);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, streams_and_fails, &fd), 0);
    server_wait_held(1);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, streams_behind, &fd), 0);
    server_wait_held(2);
    server_release();
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_EQUAL(stream_put(fd, 3), STREAMED);
    CHECK_EQUAL(engine_read(fd, data, sizeof(data), KEPT + STREAMED), sizeof(data));
    CHECK_EQUAL(data[0], 2);
}

/* ---- descriptors that are not adopted ---- */

static void writes_before_another_opens(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, KEPT, 0, 1);
    step_done(0);
    step_wait(1);
    expect_kernels_data(fd);
    atomic_store(&scene.control->writes[NFS_UNSTABLE], 0);
    engine_put(fd, 100, KEPT, 4);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_UNSTABLE]), 0);
}

static void opens_what_is_not_adopted(void)
{
    int fd = engine_open("f", O_RDWR);
    kernel_put(fd);
    step_done(1);
}

/* The second process that opens the file cannot adopt it: it gets no access, or no proof. */
static void the_kernel_writes(uint32_t access, int fileid_error)
{
    disk_make("f", KEPT, 0);
    pid_t writer = scene_start(writes_before_another_opens);
    step_wait(0);
    atomic_store(&scene.control->access, access);
    atomic_store(&scene.control->fileid_error, fileid_error);
    scene_configure("actimeo = 0.0;"); /* what the first was told may be out of date */
    scene_run(opens_what_is_not_adopted);
    atomic_store(&scene.control->fileid_error, 0);
    scene_wait(writer);
}

SCENE_TEST(the_kernel_writes_a_file_to_which_the_server_refuses_access)
{
    the_kernel_writes(0, 0);
}

SCENE_TEST(the_kernel_writes_a_file_that_is_not_proven)
{
    the_kernel_writes(UINT32_MAX, 1);
}

/* ---- by name, without a descriptor ---- */

static int truncate_path(const char *name, off_t size)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    sys_critical_enter();
    int result = fd_truncate_path(path, size);
    sys_critical_leave();
    return result == FILE_KERNEL && truncate(path, size) == 0 ? 0 : result;
}

ENGINE_TEST(a_file_that_is_cut_by_name_stays_cut)
{
    int fd = written_anew();
    CHECK_EQUAL(truncate_path("f", KEPT), 0);
    CHECK_EQUAL(engine_size(fd), KEPT);
    server_do(FILE_SERVER_NEW_VERIFIER);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK_EQUAL(disk_size("f"), KEPT);
    disk_expect("f", KEPT, 0, 1);
    CHECK_EQUAL(engine_size(fd), KEPT);
    CHECK_EQUAL(truncate_path("f", -1), -EINVAL);
    engine_put(fd, SIZE, 0, 1);
    CHECK_EQUAL(truncate_path("f", 2 * SIZE), 0);
    CHECK_EQUAL(engine_size(fd), 2 * SIZE);
}

ENGINE_TEST(by_name_only_files_that_the_host_knows_are_cut)
{
    char path[SCENE_PATH];
    disk_make("f", SIZE, 0);
    disk_make("other", SIZE, 0);
    scene_file_path(path, "f");
    CHECK_EQUAL(fd_truncate_path(path, 0), -EMFILE); /* not even the registry is open */
    engine_adopt("f", O_RDONLY);
    scene_file_path(path, "other");
    CHECK_EQUAL(fd_truncate_path(path, 0), FILE_KERNEL);
    CHECK_EQUAL(fd_truncate_path(scene.directory, 0), FILE_KERNEL);
    CHECK_EQUAL(fd_truncate_path("", 0), FILE_KERNEL);
    CHECK_EQUAL(disk_size("f"), SIZE);
    CHECK_EQUAL(disk_size("other"), SIZE);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
