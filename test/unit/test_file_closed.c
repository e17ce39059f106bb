/* Closed mounts: the kernel protects less than the nfstab asks for, so no file goes there. */
#include "durability_scene.h"

#include <sys/stat.h>

#include "fd/adopt.h"
#include "fd/closed.h"
#include "fd/user.h"
#include "fd/world.h"
#include "file/table.h"
#include "ledger/world.h"
#include "mount/mounts.h"
#include "mount/protection.h"

enum { BLOCK = 8192 };

/* As if the kernel's mount had no TLS, and the nfstab asked for it. */
static void close_mount(void)
{
    struct mount *mount = mounts_at(0);
    mount->closed = true;
    mount->lost = &mount->barred;
}

static int open_file(const char *name, int flags)
{
    char path[SCENE_PATH];
    scene_file_path(path, name);
    int fd = open(path, flags, 0644);
    CHECK(fd > STDERR_FILENO);
    return fd;
}

static void is_not_demoted(void)
{
    close_mount();
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BLOCK, 0, 1);
    CHECK_EQUAL(engine_demote(fd), -EIO);
    CHECK(file_is_managed(fd) && fd_is_closed(fd));
    engine_put(fd, BLOCK, 0, 2);
    engine_expect(fd, BLOCK, 0, 2);
    CHECK_EQUAL(engine_fsync(fd), 0);
    CHECK(file_is_managed(fd));
    CHECK_EQUAL(stats_own->counters.files_handed_over, 0);
}

SCENE_TEST(a_file_stays_with_the_engine)
{
    disk_make("f", BLOCK, 0);
    scene_run(is_not_demoted);
    disk_expect("f", BLOCK, 0, 2);
}

static void is_refused(void)
{
    close_mount();
    int fd = open_file("f", O_RDWR), link = open_file("g", O_RDWR);
    char path[SCENE_PATH];
    CHECK_EQUAL(fd_opened_for_kernel(fd, O_RDWR, "a test"), -EIO);
    CHECK_EQUAL(fd_opened_for_kernel(fd, O_RDONLY, "a test"), -EIO);
    scene_file_path(path, "g");
    CHECK_EQUAL(unlink(path), 0);
    CHECK_EQUAL(fd_opened(link, O_RDWR), -EIO); /* the server cannot be asked for it */
    CHECK(!file_is_managed(fd) && !file_is_managed(link) && !fd_is_closed(fd));
}

SCENE_TEST(what_the_engine_cannot_serve_is_refused)
{
    disk_make("f", BLOCK, 0);
    disk_make("g", BLOCK, 0);
    scene_run(is_refused);
}

static void is_a_stream(void)
{
    close_mount();
    int fd = open_file("f", O_RDWR);
    CHECK_EQUAL(fd_opened_for_stream(fd, O_RDWR, "stdio"), 0);
    CHECK(!file_is_managed(fd));
    int adopted = engine_adopt("g", O_RDWR);
    engine_put(adopted, BLOCK, 0, 1);
    CHECK_EQUAL(fd_demote_stream(adopted, "stdio"), 0);
    CHECK(!file_is_managed(adopted));
    disk_expect("g", BLOCK, 0, 1);
}

SCENE_TEST(streams_are_the_kernels_all_the_same)
{
    disk_make("f", BLOCK, 0);
    disk_make("g", BLOCK, 0);
    scene_run(is_a_stream);
}

static void leaves_to_the_kernel(void)
{
    char block[BLOCK] = "";
    close_mount();
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BLOCK, 0, 1);
    fd_leave_to_kernel("a test");
    CHECK(file_is_managed(fd));
    CHECK_EQUAL(engine_write(fd, block, BLOCK, 0), -EIO);
    CHECK_EQUAL(engine_read(fd, block, BLOCK, 0), -EIO);
    CHECK_EQUAL(fd_opened(open_file("f", O_RDWR), O_RDWR), -EIO);
    CHECK_EQUAL(engine_fsync(fd), 0); /* what was written is at the server */
}

SCENE_TEST(who_leaves_all_files_to_the_kernel_loses_them)
{
    disk_make("f", BLOCK, 0);
    scene_run(leaves_to_the_kernel);
    disk_expect("f", BLOCK, 0, 1);
}

static void demotes_another(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_demote(fd), 0);
    step_done(1);
    step_wait(2);
}

static void does_not_follow(void)
{
    char block[BLOCK] = "";
    close_mount();
    int fd = engine_adopt("f", O_RDWR);
    engine_put(fd, BLOCK, 0, 1);
    step_done(0);
    step_wait(1);
    CHECK_EQUAL(engine_write(fd, block, BLOCK, 0), -EIO);
    CHECK_EQUAL(engine_read(fd, block, BLOCK, 0), -EIO);
    CHECK(file_is_managed(fd));
    CHECK_EQUAL(fd_opened(open_file("f", O_RDWR), O_RDWR), -EIO);
    step_done(2);
}

/* Another process has another nfstab. */
SCENE_TEST(nobody_follows_another_process)
{
    disk_make("f", BLOCK, 0);
    pid_t closed = scene_start(does_not_follow);
    step_wait(0);
    pid_t other = scene_start(demotes_another);
    scene_wait(closed);
    scene_wait(other);
    disk_expect("f", BLOCK, 0, 1);
}

static void has_another_descriptor(void)
{
    close_mount();
    int fd = engine_adopt("f", O_RDWR), other = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(fd_demote_stream(fd, "stdio"), -EIO);
    CHECK(file_is_managed(fd) && file_is_managed(other));
    CHECK_EQUAL(fd_opened_for_stream(open_file("f", O_RDWR), O_RDWR, "stdio"), -EIO);
    CHECK(file_is_managed(fd) && file_is_managed(other));
    engine_put(other, BLOCK, 0, 1);
}

/* It would go along. */
SCENE_TEST(a_stream_does_not_take_other_descriptors_along)
{
    disk_make("f", BLOCK, 0);
    scene_run(has_another_descriptor);
    disk_expect("f", BLOCK, 0, 1);
}

static void is_elsewhere(void)
{
    struct mount *mount = mounts_at(0);
    close_mount();
    strcat(mount->path, "/below");
    mount->path_length = strlen(mount->path);
    CHECK_EQUAL(fd_opened(open_file("f", O_RDWR), O_RDWR), -EIO);
    CHECK_EQUAL(fd_opened_for_stream(open_file("f", O_RDWR), O_RDWR, "stdio"), -EIO);
    mount->closed = false;
    CHECK_EQUAL(fd_opened(open_file("f", O_RDWR), O_RDWR), 0);
}

SCENE_TEST(another_place_of_the_same_file_system_is_refused)
{
    disk_make("f", BLOCK, 0);
    scene_run(is_elsewhere);
}

static void opens_again_and_again(void)
{
    struct stat status;
    close_mount();
    step_wait(0);
    int fd = open_file("f", O_RDWR);
    CHECK_EQUAL(fd_opened(fd, O_RDWR), -EIO);
    CHECK_EQUAL(fstat(fd, &status), 0);
    step_done(1);
    step_wait(2);
    CHECK(!ledger_world_is_pinned(status.st_dev, status.st_ino));
    CHECK(file_is_managed(engine_adopt("f", O_RDWR)));
}

static void has_it_for_a_while(void)
{
    int fd = engine_adopt("f", O_RDWR);
    CHECK_EQUAL(engine_demote(fd), 0);
    step_done(0);
    step_wait(1);
}

SCENE_TEST(an_open_that_is_refused_does_not_keep_the_file_there)
{
    disk_make("f", BLOCK, 0);
    pid_t closed = scene_start(opens_again_and_again);
    pid_t other = scene_start(has_it_for_a_while);
    scene_wait(other);
    step_done(2);
    scene_wait(closed);
}

/* ---- what the kernel's mount covers ---- */

UNIT_TEST(what_the_kernels_mount_covers)
{
    static const struct {
        enum conf_security security;
        bool tls;
        enum conf_security asked;
        enum conf_tls asked_tls;
        bool covers;
    } cases[] = {
        {CONF_SECURITY_SYS, false, CONF_SECURITY_SYS, CONF_TLS_NO, true},
        {CONF_SECURITY_SYS, false, CONF_SECURITY_SYS, CONF_TLS_PREFER, true},
        {CONF_SECURITY_SYS, false, CONF_SECURITY_SYS, CONF_TLS_REQUIRE, false},
        {CONF_SECURITY_SYS, true, CONF_SECURITY_SYS, CONF_TLS_REQUIRE, true},
        {CONF_SECURITY_SYS, true, CONF_SECURITY_KRB5, CONF_TLS_NO, false},
        {CONF_SECURITY_SYS, false, CONF_SECURITY_KRB5, CONF_TLS_NO, false},
        {CONF_SECURITY_KRB5, false, CONF_SECURITY_KRB5I, CONF_TLS_NO, false},
        {CONF_SECURITY_KRB5I, false, CONF_SECURITY_KRB5P, CONF_TLS_NO, false},
        {CONF_SECURITY_KRB5P, false, CONF_SECURITY_KRB5, CONF_TLS_NO, true},
        {CONF_SECURITY_KRB5P, false, CONF_SECURITY_KRB5P, CONF_TLS_REQUIRE, true},
        {CONF_SECURITY_KRB5I, false, CONF_SECURITY_KRB5I, CONF_TLS_REQUIRE, false},
        {CONF_SECURITY_KRB5, true, CONF_SECURITY_KRB5P, CONF_TLS_REQUIRE, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reach_kernel_mount kernel = {
            .protection = {.security = cases[i].security, .tls = cases[i].tls}};
        assert_int_equal(reach_kernel_covers(&kernel, cases[i].asked, cases[i].asked_tls),
                         cases[i].covers);
        assert_int_equal(reach_security(CONF_SECURITY_AUTO, &kernel), cases[i].security);
        assert_int_equal(reach_tls(CONF_TLS_AUTO, &kernel),
                         cases[i].tls ? CONF_TLS_REQUIRE : CONF_TLS_NO);
    }
    const struct reach_kernel_mount none = {.speaks = NULL};
    assert_int_equal(reach_security(CONF_SECURITY_AUTO, &none), CONF_SECURITY_SYS);
    assert_int_equal(reach_tls(CONF_TLS_AUTO, &none), CONF_TLS_NO);
    assert_string_equal(reach_protection_text(CONF_SECURITY_KRB5I, true), "krb5i+tls");
}

int main(void)
{
    return unit_run(NULL, NULL);
}
