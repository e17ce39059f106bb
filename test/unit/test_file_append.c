/* O_APPEND: what is written lands at the end of the file, whole, whoever else appends. */
#include <sys/resource.h>

#include "append_scene.h"
#include "file/flags.h"
#include "file/limits.h"
#include "file/pages.h"
#include "file/table.h"
#include "ledger/append.h"

/* ---- one process ---- */

ENGINE_TEST(appending_is_served)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_WRONLY | O_APPEND);
    append_there(fd, 50, 100, 2);
    append_there(fd, 3, 150, 3);
    CHECK_EQUAL(engine_size(fd), 153);
    CHECK_EQUAL(disk_size("f"), 153);
    CHECK_EQUAL(server_calls(NFS_PROC_WRITE), 2);
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

/* Where pages of the kernel are dropped the flags are O_DIRECT's for a moment. */
ENGINE_TEST(appending_that_a_child_sets_stays_while_its_parent_drops_pages)
{
    enum { ROUNDS = 4000 };
    disk_make("f", 100, 1);
    int status, fd = engine_adopt("f", O_RDWR);
    pid_t pid = engine_fork();
    if (pid == 0) {
        int lost = 0;
        for (int i = 0; i < ROUNDS; i++) {
            engine_set_flags(fd, O_APPEND);
            lost += !(fcntl(fd, F_GETFL) & O_APPEND);
            engine_set_flags(fd, 0);
        }
        _exit(lost > 0);
    }
    struct file_open *open = file_get(fd);
    open->inode->mount->kernel_nfs = true;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        file_pages_drop(open, fd, false);
        usleep(10); /* else the child waits for the lock, and not for ever */
    }
    open->inode->mount->kernel_nfs = false;
    file_put(open);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(fcntl(fd, F_GETFL) & (O_APPEND | O_DIRECT), 0);
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
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_DATA_SYNC]), 1);
    int all = engine_adopt("f", O_WRONLY | O_APPEND | O_SYNC);
    append_there(all, 50, 150, 2);
    CHECK_EQUAL(atomic_load(&scene.control->writes[NFS_FILE_SYNC]), 1);
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

ENGINE_TEST(a_limit_of_sizes_holds)
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
    int other = engine_adopt("f", O_RDWR); /* and for all others */
    CHECK_EQUAL(engine_write(other, data, 100, 50), 80);
    CHECK_EQUAL(engine_write(other, data, 1, 130), -EFBIG);
    CHECK_EQUAL(engine_size(fd), 130);
}

/* As of a request whose descriptor was closed meanwhile. */
ENGINE_TEST(a_number_that_is_another_files_by_now_does_not_make_a_write_append)
{
    disk_make("f", 100, 1);
    disk_make("g", 100, 1);
    int fd = engine_adopt("f", O_RDWR);
    struct file_open *open = file_get(fd);
    engine_close(fd);
    CHECK_EQUAL(engine_adopt("g", O_RDWR | O_APPEND), fd);
    ledger_append_changed();
    CHECK(!file_appends(open, fd, 0));
    file_put(open);
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
    server_do(FILE_SERVER_LOSE_POWER); /* what was taken is written again */
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

/* By somebody else the room is taken between the two. What the server has of it is told. */
ENGINE_TEST(a_disk_that_is_full_after_a_short_answer)
{
    uint8_t data[1000];
    data_fill(data, sizeof(data), 100, 2);
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    atomic_store(&scene.control->short_write, 300);
    atomic_store(&scene.control->full_after_short, 1);
    CHECK_EQUAL(engine_append(fd, data, sizeof(data)), 300);
    CHECK_EQUAL(engine_offset(fd), 400);
    atomic_store(&scene.control->short_write, 0);
    append_there(fd, 50, 400, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    disk_expect("f", 350, 100, 2);
    CHECK_EQUAL(disk_size("f"), 450);
}

/* The server has some of it, though the write failed. */
ENGINE_TEST(the_next_write_is_behind_what_the_server_has_of_one_that_failed)
{
    uint8_t data[1000] = {0};
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    atomic_store(&scene.control->short_write, 300);
    atomic_store(&scene.control->full_after_short, 2);
    CHECK_EQUAL(engine_append(fd, data, sizeof(data)), -ENOSPC);
    atomic_store(&scene.control->short_write, 0);
    CHECK_EQUAL(disk_size("f"), 400);
    append_there(fd, 50, 400, 2);
    CHECK_EQUAL(disk_size("f"), 450);
}

ENGINE_TEST(what_failed_leaves_no_hole)
{
    disk_make("f", 100, 1);
    int fd = engine_adopt("f", O_RDWR | O_APPEND);
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_IO);
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
    server_fail(NFS_PROC_WRITE, 1, NFS3ERR_IO);
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
    scene_configure("actimeo = 0;");
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
    unsigned asked = server_calls(NFS_PROC_GETATTR);
    for (int i = 0; i < 10; i++)
        append_there(fd, 50, 150 + i * 50, 2);
    CHECK(server_calls(NFS_PROC_GETATTR) <= asked + 1);
}

/* ---- asynchronous ---- */

ENGINE_TEST(asynchronous_writes_append)
{
    enum { COUNT = 8, LENGTH = 100 };
    disk_make("f", 100, 1);
    CHECK((lane = async_lane_new()) != NULL);
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
    CHECK((lane = async_lane_new()) != NULL);
    int fd = engine_adopt("f", O_RDWR), appending = engine_adopt("f", O_RDWR | O_APPEND);
    job_write(&jobs[0], fd, 100, 100, 2);
    submit(0, 1);
    append_there(appending, 100, 200, 2);
    wait_for_job(&jobs[0]);
    engine_expect(fd, 200, 100, 2);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
