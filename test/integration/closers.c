/*
 * Programs that close what they do not know: close_range, closefrom, loops over all numbers and
 * over /proc/self/fd, dup2 onto high numbers. I/O on the files that stay, or are opened again,
 * goes on.
 */
#include <dirent.h>
#include <mqueue.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "program.h"

enum { SIZE = 20000 };
static const char *path;

/* Opens the file and proves that it can be written and read. */
static int working(uint64_t seed)
{
    static char block[SIZE], got[SIZE];
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    CHECK(fd >= 0);
    fill(block, SIZE, 0, seed);
    CHECK(pwrite(fd, block, SIZE, 0) == SIZE);
    CHECK(pread(fd, got, SIZE, 0) == SIZE && memcmp(block, got, SIZE) == 0);
    return fd;
}

static void still_working(int fd, uint64_t seed)
{
    char got[100];
    CHECK(pread(fd, got, sizeof(got), 777) == (ssize_t)sizeof(got));
    CHECK(differs(got, sizeof(got), 777, seed) < 0);
}

static void closed(int fd)
{
    char byte;
    errno = 0;
    CHECK(pread(fd, &byte, 1, 0) == -1 && errno == EBADF);
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    /* The number may become anything: nothing of the file clings to it. */
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    CHECK(write(pipes[1], "xy", 2) == 2);
    CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'x');
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static void close_all_of_proc(void)
{
    DIR *list = opendir("/proc/self/fd");
    struct dirent *entry;
    CHECK(list != NULL);
    while ((entry = readdir(list)) != NULL) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd > 2 && fd != dirfd(list))
            close(fd);
    }
    CHECK(closedir(list) == 0);
}

static void close_ranges(int numbers)
{
    int fd = working(1);
    CHECK(close_range(3, ~0U, 0) == 0);
    closed(fd);
    fd = working(2);
    int spare = dup(fd);
    CHECK(spare > fd && close_range((unsigned)spare, (unsigned)spare + 100, 0) == 0);
    still_working(fd, 2);
    closed(spare);
    CHECK(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0);
    still_working(fd, 2);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    errno = 0;
    CHECK(close_range(9, 3, 0) == -1 && errno == EINVAL);
    CHECK(close_range(3, 9, 1 << 20) == -1 && errno == EINVAL);

    closefrom(3);
    closed(fd);
    fd = working(3);
    CHECK(syscall(SYS_close_range, 3, ~0U, 0) == 0);
    closed(fd);
    fd = working(4);
    close_all_of_proc();
    closed(fd);
    fd = working(5);
    for (int i = 3; i < numbers; i++)
        close(i);
    closed(fd);
}

/* Closed inside libc, where nobody sees it: the number may become another file. */
static void close_inside_libc(void)
{
    char block[100];
    for (int i = 0; i < 2; i++) {
        int zero = open("/dev/zero", O_RDONLY);
        int fd = working(6);
        CHECK(mq_close(fd) == 0 && (i ? open("/dev/zero", O_RDONLY) : dup(zero)) == fd);
        CHECK(read(fd, block, sizeof(block)) == (ssize_t)sizeof(block) && block[50] == 0);
        CHECK(close(fd) == 0 && close(zero) == 0);
    }
}

/* dup2 onto every number there is; those that are refused are not ours to take. */
static void take_all_numbers(int fd, int numbers)
{
    int refused = 0;
    for (int i = fd + 1; i < numbers; i++) {
        int result = dup2(fd, i);
        if (result != i) {
            refused++;
            continue;
        }
        if (i % 500 == 0)
            still_working(i, 6);
        if (i % 2)
            CHECK(close(i) == 0);
    }
    if (refused > 200)
        fail("%d numbers were refused", refused);
    CHECK(close_range((unsigned)fd + 1, ~0U, 0) == 0);
    still_working(fd, 6);
}

/* Another file put in the place of one that was written, and back. */
static void exchange(int fd)
{
    char block[100];
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(zero >= 0 && dup2(zero, fd) == fd);
    CHECK(read(fd, block, sizeof(block)) == (ssize_t)sizeof(block) && block[50] == 0);
    int again = open(path, O_RDWR);
    CHECK(again >= 0 && dup3(again, fd, O_CLOEXEC) == fd);
    still_working(fd, 6);
    errno = 0;
    CHECK(dup2(-1, fd) == -1 && errno == EBADF);
    CHECK(dup3(fd, fd, 0) == -1 && errno == EINVAL);
    CHECK(dup2(fd, fd) == fd);
    still_working(fd, 6);
    CHECK(close(fd) == 0 && close(again) == 0 && close(zero) == 0);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/closers", directory(argc, argv));
    path = name;
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur > 20000) {
        limit.rlim_cur = 20000;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }

    close_ranges((int)limit.rlim_cur);
    close_inside_libc();
    int fd = working(6);
    take_all_numbers(fd, (int)limit.rlim_cur);
    exchange(fd);
    CHECK(close(working(7)) == 0);
    CHECK(unlink(path) == 0);
    return 0;
}
