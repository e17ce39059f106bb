/* Which files the engine serves, how it finds them, and how they go back to the kernel. */
#include <pthread.h>

#include "file_scene.h"
#include "fd/adopt.h"
#include "fd/descriptors.h"
#include "file/table.h"

enum { SIZE = 10000 };

/* The kernel keeps "f", for this reason, and all works. */
static void kernel_keeps(const char *reason, int flags)
{
    int fd = engine_open("f", flags);
    CHECK(!file_is_managed(fd));
    if (strcmp(engine_reason("f"), reason) != 0) {
        fprintf(stderr, "reason is \"%s\", not \"%s\"\n", engine_reason("f"), reason);
        _exit(1);
    }
    if ((flags & O_ACCMODE) != O_WRONLY)
        engine_expect(fd, SIZE, 0, 1);
    CHECK_EQUAL(engine_close(fd), 0);
}

static void make_directory(const char *name)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    CHECK_EQUAL(mkdir(path, 0755), 0);
}

static void rename_file(const char *from, const char *to)
{
    char old[SCENE_PATH], new[SCENE_PATH];
    scene_file_path(old, from);
    scene_file_path(new, to);
    CHECK_EQUAL(rename(old, new), 0);
}

/* Opens, compares with the version and closes. */
static void served(const char *name, unsigned version)
{
    int fd = engine_adopt(name, O_RDONLY);
    unsigned before = server_calls(NFS_PROC_READ);
    engine_expect(fd, SIZE, 0, version);
    CHECK(server_calls(NFS_PROC_READ) > before);
    CHECK_EQUAL(engine_close(fd), 0);
}

/* ---- adoption ---- */

ENGINE_TEST(a_file_is_adopted_in_every_mode)
{
    disk_make("f", SIZE, 1);
    const int modes[] = {O_RDONLY, O_WRONLY, O_RDWR};
    for (unsigned i = 0; i < 3; i++) {
        int fd = engine_adopt("f", modes[i]);
        CHECK_EQUAL(engine_reason("f")[0], '\0');
        CHECK_EQUAL(engine_close(fd), 0);
        CHECK(!file_is_managed(fd));
    }
}

ENGINE_TEST(what_is_no_regular_file_of_a_mount_is_not_adopted)
{
    char path[SCENE_PATH];
    disk_make("f", SIZE, 1);
    make_directory("d");
    scene_file_path(path, "d");
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    sys_critical_enter();
    fd_opened(fd, O_RDONLY | O_DIRECTORY);
    sys_critical_leave();
    CHECK(!file_is_managed(fd));
    snprintf(path, sizeof(path), "%s/nfstab", scene.top);
    fd = engine_open(path, O_RDONLY); /* on the same device, beside the mount */
    CHECK(!file_is_managed(fd));
    snprintf(path, sizeof(path), "%s/exporter", scene.top); /* the mount's name is a prefix */
    CHECK_EQUAL(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/exporter/f", scene.top);
    fd = engine_open(path, O_RDWR | O_CREAT);
    CHECK(!file_is_managed(fd));
    CHECK_EQUAL(server_calls(NFS_PROC_LOOKUP), 0);
}

ENGINE_TEST(another_file_number)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->fileid_error, 1);
    kernel_keeps("not the same file on the server", O_RDONLY);
    atomic_store(&scene.control->fileid_error, 0);
    served("f", 1);
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->fileid_error, 1);
    kernel_keeps("not the same file on the server", O_RDWR);
    atomic_store(&scene.control->fileid_error, 0);
    kernel_keeps("not the same file on the server", O_RDONLY); /* it still may be written there */
}

ENGINE_TEST(another_change_time)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->ctime_error, 1);
    kernel_keeps("attributes differ on the server", O_RDWR);
    atomic_store(&scene.control->ctime_error, -1);
    kernel_keeps("attributes differ on the server", O_RDWR);
}

ENGINE_TEST(another_size)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->size_error, 1);
    kernel_keeps("attributes differ on the server", O_RDONLY);
}

ENGINE_TEST(no_attributes_in_the_reply_to_lookup)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->no_attributes, true);
    served("f", 1);
    atomic_store(&scene.control->fileid_error, 1);
    disk_make("g", SIZE, 1);
    int fd = engine_open("g", O_RDONLY);
    CHECK(!file_is_managed(fd));
}

ENGINE_TEST(access_refused)
{
    disk_make("f", SIZE, 1);
    atomic_store(&scene.control->access, NFS_ACCESS_READ);
    kernel_keeps("server refuses access", O_RDWR);
    kernel_keeps("server refuses access", O_WRONLY);
    disk_make("h", SIZE, 1);
    served("h", 1);
    atomic_store(&scene.control->access, NFS_ACCESS_MODIFY);
    disk_make("g", SIZE, 1);
    CHECK(!file_is_managed(engine_open("g", O_RDONLY)));
    CHECK(!file_is_managed(engine_open("g", O_WRONLY))); /* it may not extend it */
}

ENGINE_TEST(a_demoted_file_stays_with_the_kernel)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_demote(fd), 0);
    kernel_keeps("test", O_RDWR);
    CHECK_EQUAL(engine_close(fd), 0);
    kernel_keeps("test", O_RDONLY);
}

ENGINE_TEST(a_server_that_is_down_leaves_files_to_the_kernel)
{
    disk_make("f", SIZE, 1);
    server_do(FILE_SERVER_STOP);
    kernel_keeps("server not reachable", O_RDWR);
    kernel_keeps("server not reachable", O_RDWR);
}

static void opens_where_another_directory_is_mounted(void)
{
    char path[SCENE_PATH];
    snprintf(path, sizeof(path), "%s/other/f", scene.top);
    int fd = engine_open(path, O_RDWR);
    CHECK(!file_is_managed(fd));
    CHECK(strcmp(engine_reason(path), "mount is not the export") == 0);
}

ENGINE_TEST(a_server_that_restarts_at_the_first_contact)
{
    disk_make("f", 100, 1);
    atomic_store(&scene.control->mount_resets, 3);
    CHECK(file_is_managed(engine_adopt("f", O_RDWR)));
}

SCENE_TEST(a_mount_that_is_not_the_export)
{
    char path[SCENE_PATH];
    snprintf(path, sizeof(path), "%s/other", scene.top);
    CHECK_EQUAL(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/other/f", scene.top);
    disk_make(path, SIZE, 1);
    disk_make("f", SIZE, 1);
    scene.nfstab = "server: s\npath: 127.0.0.1\nnfsport: %u mntport: %u\n"
                   "export: %s/export mount: %s/other\n";
    scene_environment();
    scene_run(opens_where_another_directory_is_mounted);
}

/* ---- paths ---- */

ENGINE_TEST(directories_are_looked_up_once)
{
    make_directory("a");
    make_directory("a/b");
    make_directory("a/b/c");
    disk_make("a/b/c/f", SIZE, 1);
    disk_make("a/b/c/g", SIZE, 2);
    disk_make("a/b/h", SIZE, 3);
    served("a/b/c/f", 1);
    CHECK_EQUAL(server_calls(NFS_PROC_LOOKUP), 4);
    served("a/b/c/g", 2);
    CHECK_EQUAL(server_calls(NFS_PROC_LOOKUP), 5);
    served("a/b/h", 3);
    CHECK_EQUAL(server_calls(NFS_PROC_LOOKUP), 6);
}

ENGINE_TEST(renamed_directories)
{
    make_directory("a");
    disk_make("a/f", SIZE, 1);
    served("a/f", 1);
    rename_file("a", "b");
    make_directory("a");
    disk_make("a/f", SIZE, 2);
    served("a/f", 2); /* the cached handle is that of b */
    served("b/f", 1);
    rename_file("a", "c");
    rename_file("b", "a");
    rename_file("c", "b");
    disk_make("a/new", SIZE, 3); /* in the directory whose name the cache has for the other one */
    served("a/new", 3);
    served("a/f", 1);
    served("b/f", 2);
}

ENGINE_TEST(a_removed_directory)
{
    char path[SCENE_PATH];
    make_directory("a");
    disk_make("a/f", SIZE, 1);
    served("a/f", 1);
    scene_file_path(path, "a/f");
    CHECK_EQUAL(unlink(path), 0);
    scene_file_path(path, "a");
    CHECK_EQUAL(rmdir(path), 0);
    make_directory("a");
    disk_make("a/f", SIZE, 2);
    served("a/f", 2); /* the cached handle is stale */
}

ENGINE_TEST(a_renamed_file_that_is_open)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    rename_file("f", "g");
    disk_make("f", SIZE, 2);
    engine_expect(fd, SIZE, 0, 1);
    engine_put(fd, 100, 0, 3);
    served("f", 2);
    int again = engine_adopt("g", O_RDWR);
    engine_expect(again, 100, 0, 3);
    CHECK_EQUAL(engine_fsync(again), 0);
    disk_expect("g", 100, 0, 3);
}

ENGINE_TEST(names_of_255_bytes)
{
    char name[512];
    memset(name, 'n', 511);
    name[255] = '/';
    name[511] = '\0';
    name[255] = '\0';
    make_directory(name);
    name[255] = '/';
    disk_make(name, SIZE, 1);
    served(name, 1);
}

ENGINE_TEST(symbolic_links_into_the_mount)
{
    char link[SCENE_PATH], target[SCENE_PATH];
    make_directory("a");
    disk_make("a/f", SIZE, 1);
    snprintf(link, sizeof(link), "%s/link", scene.top);
    scene_file_path(target, "a/f");
    CHECK_EQUAL(symlink(target, link), 0);
    served(link, 1);
}

static void serves_through_the_link(void)
{
    char path[SCENE_PATH];
    snprintf(path, sizeof(path), "%s/link/f", scene.top);
    served(path, 1);
    served("f", 1);
}

SCENE_TEST(a_mount_that_is_named_by_a_symbolic_link)
{
    char path[SCENE_PATH];
    disk_make("f", SIZE, 1);
    snprintf(path, sizeof(path), "%s/link", scene.top);
    CHECK_EQUAL(symlink(scene.directory, path), 0);
    scene.nfstab = "server: s\npath: 127.0.0.1\nnfsport: %u mntport: %u\n"
                   "export: %s/export mount: %s/link\n";
    scene_environment();
    scene_run(serves_through_the_link);
}

static void serves_both(void)
{
    served("f", 1);
    CHECK_EQUAL(server_calls(NFS_PROC_LOOKUP), 1);
    served("inner/f", 2);
    CHECK_EQUAL(server_calls(NFS_PROC_LOOKUP), 2); /* from the inner root: no LOOKUP of `inner` */
    served("inner_not/f", 3);
    CHECK_EQUAL(server_calls(NFS_PROC_LOOKUP), 4);
}

SCENE_TEST(the_deepest_of_nested_mounts_wins)
{
    disk_make("f", SIZE, 1);
    make_directory("inner");
    make_directory("inner_not");
    disk_make("inner/f", SIZE, 2);
    disk_make("inner_not/f", SIZE, 3);
    scene.nfstab = "server: s\npath: 127.0.0.1\nnfsport: %u mntport: %u\n"
                   "export: %s/export mount: %s/export\n"
                   "export: %s/export/inner mount: %s/export/inner\n";
    scene_environment();
    scene_run(serves_both);
}

/* ---- back to the kernel ---- */

ENGINE_TEST(demotion_commits_first)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR), copy = engine_dup(fd), other = engine_adopt("f", O_RDONLY);
    engine_put(fd, SIZE, 100, 2);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_demote(copy), 0);
    CHECK(!file_is_managed(fd) && !file_is_managed(copy) && !file_is_managed(other));
    server_do(FILE_SERVER_LOSE_POWER);
    engine_expect(fd, SIZE, 100, 2);
    CHECK_EQUAL(engine_size(other), SIZE + 100);
}

ENGINE_TEST(demotion_reports_what_is_lost)
{
    disk_make("f", SIZE, 1);
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 100, 2);
    server_do(FILE_SERVER_LOSE_POWER);
    server_fail(NFS_PROC_WRITE, 1000, NFS3ERR_IO);
    CHECK_EQUAL(engine_demote(fd), -EIO);
    CHECK(!file_is_managed(fd));
}

static void writes_uncommitted(void)
{
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, SIZE, 0, 2);
    step_done(0);
    step_wait(1);
    server_do(FILE_SERVER_LOSE_POWER);
    CHECK_EQUAL(engine_fsync(fd), 0);
}

static void demotes(void)
{
    int fd = engine_adopt("f", O_RDWR);
    step_wait(0);
    CHECK_EQUAL(engine_demote(fd), 0);
    engine_expect(fd, SIZE, 0, 2);
    uint8_t data[100];
    data_fill(data, sizeof(data), 0, 3);
    CHECK_EQUAL(pwrite(fd, data, sizeof(data), 0), sizeof(data));
    CHECK_EQUAL(ftruncate(fd, SIZE + 1), 0);
    step_done(1);
}

/* What another process wrote must not be written again over the kernel's newer write. */
SCENE_TEST(demotion_commits_for_other_processes_too)
{
    disk_make("f", SIZE, 1);
    pid_t writer = scene_start(writes_uncommitted);
    scene_run(demotes);
    scene_wait(writer);
    disk_expect("f", 100, 0, 3);
    disk_expect("f", SIZE - 100, 100, 2);
}

ENGINE_TEST(a_removed_file_that_is_open_is_the_kernels)
{
    char path[SCENE_PATH];
    disk_make("f", SIZE, 1);
    scene_file_path(path, "f");
    for (int i = 0; i < 4; i++) {
        disk_make("f", SIZE, 1);
        int fd = engine_adopt("f", O_RDWR);
        engine_put(fd, 100, SIZE, 1);
        CHECK_EQUAL(unlink(path), 0);
        if (i == 0)
            engine_expect(fd, SIZE + 100, 0, 1);
        else if (i == 1)
            engine_put(fd, 100, 0, 1);
        else if (i == 2)
            CHECK_EQUAL(engine_fsync(fd), 0);
        else
            CHECK_EQUAL(engine_truncate(fd, SIZE), 0);
        CHECK(!file_is_managed(fd));
        engine_expect(fd, SIZE, 0, 1);
        CHECK_EQUAL(engine_close(fd), 0);
        CHECK_EQUAL(ledger_uncommitted(), 0);
    }
    int fd;
    disk_make("f", SIZE, 1);
    fd = engine_adopt("f", O_RDWR);
    engine_put(fd, 100, SIZE, 1);
    CHECK_EQUAL(unlink(path), 0);
    CHECK_EQUAL(engine_close(fd), 0); /* its data is nobody's */
    CHECK_EQUAL(ledger_uncommitted(), 0);
}

ENGINE_TEST(duplicates_and_replaced_descriptors)
{
    disk_make("f", SIZE, 1);
    disk_make("g", SIZE, 2);
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("g", O_RDWR);
    engine_put(other, 100, 0, 3);
    sys_critical_enter(); /* dup2(fd, other) */
    CHECK_EQUAL(fd_closing(other), 0);
    CHECK_EQUAL(dup2(fd, other), other);
    file_duplicated(fd, other);
    sys_critical_leave();
    disk_expect("g", 100, 0, 3);
    CHECK_EQUAL(ledger_uncommitted(), 0);
    engine_expect(other, SIZE, 0, 1);
    CHECK_EQUAL(engine_close(fd), 0);
    engine_expect(other, SIZE, 0, 1);
    engine_put(other, 100, 0, 4);
    CHECK_EQUAL(engine_close(other), 0);
    disk_expect("f", 100, 0, 4);
    CHECK(!file_is_managed(other));
}

ENGINE_TEST(inherited_descriptors_are_adopted)
{
    char path[SCENE_PATH];
    disk_make("f", SIZE, 1);
    disk_make("g", SIZE, 1);
    scene_file_path(path, "f");
    int fd = open(path, O_RDWR);
    scene_file_path(path, "g");
    int appending = open(path, O_WRONLY | O_APPEND);
    fd_adopt_inherited();
    CHECK(file_is_managed(fd));
    CHECK(file_is_managed(appending));
    engine_expect(fd, SIZE, 0, 1);
}

ENGINE_TEST(a_descriptor_that_was_closed_unseen_is_given_up)
{
    struct stat status;
    disk_make("f", 100, 1);
    disk_make("g", 100, 1);
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(fstat(fd, &status), 0);
    close(fd);
    CHECK_EQUAL(engine_adopt("g", O_RDWR), fd);
    CHECK(file_inode_only(status.st_dev, status.st_ino) == NULL);
}

static void *opens_f(void *fd)
{
    *(int *)fd = engine_open("f", O_RDWR);
    return NULL;
}

/* The thread that leaves them looks at the descriptors that there are. */
ENGINE_TEST(a_file_that_is_opened_while_all_are_left_to_the_kernel)
{
    int fd;
    pthread_t thread;
    disk_make("f", 100, 1);
    disk_make("g", 100, 1);
    engine_adopt("g", O_RDWR);
    server_hold(NFS_PROC_LOOKUP);
    CHECK_EQUAL(pthread_create(&thread, NULL, opens_f, &fd), 0);
    server_wait_held(1);
    atomic_store(&mount_left_to_kernel, "for a test");
    server_release();
    pthread_join(thread, NULL);
    CHECK(!file_is_managed(fd));
    CHECK(strcmp(engine_reason("f"), "for a test") == 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
