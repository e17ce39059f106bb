/* A thousand duplicates, as PostgreSQL makes at its start: all serve, share the offset, and end. */
#include <sys/resource.h>

#include "program.h"

enum { COUNT = 1000, BLOCK = 64 };

int main(int argc, char **argv)
{
    const char *path = below(directory(argc, argv), "dups");
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur < COUNT + 200) {
        limit.rlim_cur = COUNT + 200;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
            return 77;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0);

    static int copies[COUNT];
    char block[BLOCK], got[BLOCK];
    for (int i = 0; i < COUNT; i++) {
        copies[i] = i % 3 == 0   ? dup(fd)
                    : i % 3 == 1 ? fcntl(i ? copies[i - 1] : fd, F_DUPFD, 3)
                                 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        CHECK(copies[i] >= 0);
        int flags = fcntl(copies[i], F_GETFD);
        CHECK(flags == (i % 3 == 2 ? FD_CLOEXEC : 0));
    }
    /* One offset for all: each writes the block behind the one before. */
    for (int i = 0; i < COUNT; i++) {
        fill(block, BLOCK, (uint64_t)i * BLOCK, 1);
        CHECK(write(copies[i], block, BLOCK) == BLOCK);
    }
    CHECK(lseek(fd, 0, SEEK_CUR) == COUNT * BLOCK);
    CHECK(lseek(copies[7], 0, SEEK_SET) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(read(copies[COUNT - 1 - i], got, BLOCK) == BLOCK);
        CHECK(differs(got, BLOCK, (uint64_t)i * BLOCK, 1) < 0);
    }
    /* Closing some leaves the others as they are. */
    for (int i = 0; i < COUNT; i += 2)
        CHECK(close(copies[i]) == 0);
    CHECK(close(fd) == 0);
    CHECK(pread(copies[1], got, BLOCK, 5 * BLOCK) == BLOCK &&
          differs(got, BLOCK, 5 * BLOCK, 1) < 0);
    errno = 0;
    CHECK(pread(copies[0], got, BLOCK, 0) == -1 && errno == EBADF);
    for (int i = 1; i < COUNT; i += 2)
        CHECK(close(copies[i]) == 0);
    errno = 0;
    CHECK(close(copies[1]) == -1 && errno == EBADF);

    /* Down to the last free number: running out is an error, and harms nothing. */
    CHECK((fd = open(path, O_RDWR)) >= 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = COUNT / 2 + 100;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int made = 0;
    while (made < COUNT && (copies[made] = dup(fd)) >= 0)
        made++;
    CHECK(made > COUNT / 2 && made < COUNT && errno == EMFILE);
    limit.rlim_cur = before;
    CHECK(pread(fd, got, BLOCK, 9 * BLOCK) == BLOCK && differs(got, BLOCK, 9 * BLOCK, 1) < 0);
    /* truncate() needs no descriptor. */
    CHECK(pwrite(fd, got, BLOCK, 10 * COUNT * BLOCK) == BLOCK);
    CHECK(truncate(path, 2 * BLOCK) == 0 && lseek(fd, 0, SEEK_END) == 2 * BLOCK);
    while (made > 0)
        CHECK(close(copies[--made]) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(truncate(path, BLOCK) == 0 && lseek(fd, 0, SEEK_END) == BLOCK);

    /* A number that had been managed may become anything. */
    int pipes[2];
    CHECK(close(fd) == 0);
    CHECK(pipe(pipes) == 0);
    CHECK(write(pipes[1], "x", 1) == 1 && read(pipes[0], got, BLOCK) == 1 && got[0] == 'x');
    CHECK(unlink(path) == 0);
    return 0;
}
