/* Descriptors of ours are known whatever number the kernel gives them: src/sys/fd.c. */

#include "sys/sys.h"

/* The kernel, whose limits a test may not be allowed to raise. */
static int given; /* the number that it gives next */
static unsigned closed;

static int kernel_fcntl(int fd, int command, long argument)
{
    (void)argument;
    return command == F_DUPFD_CLOEXEC ? given : fd >= 0 ? 0 : -EBADF;
}

static int kernel_close(int fd)
{
    closed++;
    return fd >= 0 ? 0 : -EBADF;
}

#define sys_fcntl kernel_fcntl
#define sys_close kernel_close
#include "sys/fd.c"
#include "unit.h"

static int protect(int number)
{
    given = number;
    return sys_fd_protect(3);
}

static void known(int number)
{
    assert_int_equal(protect(number), number);
    assert_true(sys_fd_is_ours(number));
    assert_false(sys_fd_is_ours(number - 1));
    assert_false(sys_fd_is_ours(number + 1));
    assert_int_equal(sys_fd_next_ours(0), number);
    assert_int_equal(sys_fd_next_ours(number), number);
    assert_int_equal(sys_fd_next_ours(number + 1), -1);
    closed = 0;
    sys_fd_close(number);
    assert_int_equal(closed, 1);
    assert_false(sys_fd_is_ours(number));
    assert_int_equal(sys_fd_next_ours(0), -1);
}

UNIT_TEST(where_they_mostly_lie)
{
    known(3936);
    known(65535);
}

UNIT_TEST(where_the_application_has_65536_and_more)
{
    known(65536);
    known(1048575);
}

UNIT_TEST(where_the_administrator_allows_millions)
{
    known(1 << 20);
    known((1 << 30) + 64);
    known(INT32_MAX - 1);
}

UNIT_TEST(one_after_the_other)
{
    static const int numbers[] = {3936, 3999, 4000, 65535, 65536, 200000, 200063, 900000000};
    const int count = sizeof(numbers) / sizeof(numbers[0]);
    for (int i = 0; i < count; i++)
        protect(numbers[i]);
    int fd = -1;
    for (int i = 0; i < count; i++) {
        fd = sys_fd_next_ours(fd + 1);
        assert_int_equal(fd, numbers[i]);
    }
    assert_int_equal(sys_fd_next_ours(fd + 1), -1);
    for (int i = 0; i < count; i++)
        sys_fd_close(numbers[i]);
    assert_int_equal(sys_fd_next_ours(0), -1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
