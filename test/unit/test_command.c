/* The command that belongs to a library: src/run/command.c. */
#include <sys/stat.h>

#include "host_test.h"
#include "run/command.h"

static char library[128], beside[128];

static void put_file(const char *path, mode_t mode)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static bool is_found(void)
{
    char command[PATH_MAX];
    return run_command_of(library, command);
}

static void put_both(void)
{
    snprintf(library, sizeof(library), "%s/lib.so", test_directory);
    snprintf(beside, sizeof(beside), "%s/directnfs", test_directory);
    unlink(library);
    unlink(beside);
    put_file(library, 0755);
    put_file(beside, 0755);
}

UNIT_TEST(it_is_beside_the_library)
{
    put_both();
    assert_true(is_found());
    assert_int_equal(unlink(beside), 0);
    assert_false(is_found());
}

UNIT_TEST(one_that_all_may_write_to_is_not_trusted)
{
    put_both();
    assert_int_equal(chmod(beside, 0757), 0);
    assert_false(is_found());
}

UNIT_TEST(nor_is_a_directory)
{
    put_both();
    assert_int_equal(unlink(beside), 0);
    assert_int_equal(mkdir(beside, 0755), 0);
    assert_false(is_found());
    assert_int_equal(rmdir(beside), 0);
}

static int is_found_by_another(void *unused)
{
    (void)unused;
    must(setresuid(2000, 2000, 2000) == 0);
    return is_found();
}

UNIT_TEST(who_is_not_root_trusts_the_owner_of_the_library_and_root_trusts_only_root)
{
    if (geteuid() != 0)
        skip();
    put_both();
    assert_int_equal(chmod(test_directory, 0755), 0);
    assert_int_equal(run_child(is_found_by_another, NULL), 1); /* it is root's */
    assert_int_equal(chown(beside, 1000, 1000), 0);
    assert_false(is_found());
    assert_int_equal(run_child(is_found_by_another, NULL), 0);
    assert_int_equal(chown(library, 1000, 1000), 0);
    assert_false(is_found());
    assert_int_equal(run_child(is_found_by_another, NULL), 1);
    assert_int_equal(chown(library, 0, 0), 0);
    assert_int_equal(chown(beside, 2000, 2000), 0);
    assert_int_equal(run_child(is_found_by_another, NULL), 1); /* it is his own */
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
