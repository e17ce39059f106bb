/*
 * A file is its handle: two files of the server with one number, as in subvolumes and snapshots,
 * are two files to the engine. Here they are "f" and "twin", one file of two names for the kernel.
 */
#include "durability_scene.h"
#include "fd/truncate.h"

static void make_twins(void)
{
    char f[SCENE_PATH], twin[SCENE_PATH];
    disk_make("f", SIZE, 0);
    scene_file_path(f, "f");
    scene_file_path(twin, "twin");
    CHECK_EQUAL(link(f, twin), 0);
    atomic_store(&scene.control->twins, true);
}

ENGINE_TEST(each_of_two_files_of_one_number_has_its_data)
{
    make_twins();
    int f = engine_adopt("f", O_RDWR), twin = engine_adopt("twin", O_RDWR);
    engine_put(f, SIZE, 0, 1);
    engine_put(twin, SIZE, 0, 2);
    int again = engine_adopt("twin", O_RDWR);
    engine_expect(f, SIZE, 0, 1);
    engine_expect(twin, SIZE, 0, 2);
    engine_expect(again, SIZE, 0, 2);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(twin), 0);
    CHECK_EQUAL(engine_fsync(f), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    engine_expect(twin, SIZE, 0, 2);
    disk_expect("f", SIZE, 0, 1);
}

static void writes_and_syncs(void)
{
    int fd = written();
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void opens_twin(void)
{
    engine_close(engine_adopt("twin", O_RDWR));
}

SCENE_TEST(data_of_a_file_is_kept_when_another_process_opens_one_of_the_same_number)
{
    make_twins();
    pid_t writer = scene_start(writes_and_syncs);
    step_wait(0);
    scene_run(opens_twin);
    server_do(FILE_SERVER_LOSE_POWER);
    step_done(1);
    scene_wait(writer);
    server_do(FILE_SERVER_LOSE_POWER);
    disk_expect("f", SIZE, 0, 1);
}

static void leaves_twin_written(void)
{
    engine_put(engine_adopt("twin", O_RDWR), SIZE, 0, 2);
    _exit(0);
}

static void expects_twin(void)
{
    int f = engine_adopt("f", O_RDWR), twin = engine_adopt("twin", O_RDWR);
    engine_expect(f, SIZE, 0, 0);
    engine_expect(twin, SIZE, 0, 2);
}

static void opens_f(void)
{
    engine_close(engine_adopt("f", O_RDWR));
}

SCENE_TEST(data_of_a_dead_process_goes_to_the_file_that_it_was_written_to)
{
    make_twins();
    scene_run(leaves_twin_written);
    server_do(FILE_SERVER_LOSE_POWER);
    scene_run(opens_f);
    server_do(FILE_SERVER_LOSE_POWER);
    scene_run(expects_twin);
    disk_expect("f", SIZE, 0, 0);
}

/* The kernel, which knows the number only, has done something to one of them. */
static void commits_both(void (*kernel)(void))
{
    make_twins();
    int f = engine_adopt("f", O_RDWR), twin = engine_adopt("twin", O_RDWR);
    engine_put(f, SIZE, 0, 1);
    engine_put(twin, SIZE, 0, 2);
    kernel();
    CHECK_EQUAL(server_calls(NFS_PROC_COMMIT), 2);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    server_do(FILE_SERVER_LOSE_POWER);
    engine_expect(f, SIZE, 0, 1);
    engine_expect(twin, SIZE, 0, 2);
}

static int kernel_opened(int flags)
{
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    int fd = open(path, flags | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void kernel_syncs(void)
{
    CHECK_EQUAL(engine_kernel_fsync(kernel_opened(O_RDWR)), 0);
}

ENGINE_TEST(fsync_by_the_kernel_vouches_for_all_files_of_the_number)
{
    commits_both(kernel_syncs);
}

static void kernel_truncates(void)
{
    sys_critical_enter();
    fd_truncated_by_kernel(kernel_opened(O_RDWR), SIZE);
    sys_critical_leave();
}

ENGINE_TEST(a_truncation_by_the_kernel_drops_data_of_no_other_file)
{
    commits_both(kernel_truncates);
}

static void kernel_truncates_by_name(void)
{
    char path[SCENE_PATH];
    scene_file_path(path, "f");
    sys_critical_enter();
    CHECK_EQUAL(fd_truncate_path(path, SIZE), 0);
    sys_critical_leave();
}

ENGINE_TEST(a_truncation_by_name_drops_data_of_no_other_file)
{
    commits_both(kernel_truncates_by_name);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
