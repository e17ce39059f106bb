/*
 * A descriptor that goes over exec is served on the other side, with its offset; one with
 * FD_CLOEXEC is not there. By every call of the family, and by posix_spawn().
 */
#include <spawn.h>
#include <sys/wait.h>

#include "program.h"

enum { SIZE = 10000, PIECE = 500 };
extern char **environ;

/* The program that was executed: reads on from where the offset stands, and writes behind it. */
static int executed(char **argv)
{
    int fd = atoi(argv[2]), closed = atoi(argv[3]);
    off_t at = atoi(argv[4]);
    char got[PIECE];
    CHECK(lseek(fd, 0, SEEK_CUR) == at);
    CHECK(read(fd, got, PIECE) == PIECE);
    CHECK(differs(got, PIECE, (uint64_t)at, 1) < 0);
    fill(got, PIECE, (uint64_t)at, 2);
    CHECK(pwrite(fd, got, PIECE, at) == PIECE);
    errno = 0;
    CHECK(fcntl(closed, F_GETFD) == -1 && errno == EBADF);
    return 0;
}

static pid_t start(int how, char *self, char **arguments)
{
    pid_t child;
    if (how >= 7) {
        int error = how == 7 ? posix_spawn(&child, self, NULL, NULL, arguments, environ)
                             : posix_spawnp(&child, self, NULL, NULL, arguments, environ);
        CHECK(error == 0);
        return child;
    }
    child = how % 2 ? vfork() : fork();
    if (child != 0)
        return child;
    char **a = arguments;
    switch (how) {
    case 0:
        execv(self, a);
        break;
    case 1:
        execve(self, a, environ);
        break;
    case 2:
        execvp(self, a);
        break;
    case 3:
        execl(self, a[0], a[1], a[2], a[3], a[4], (char *)NULL);
        break;
    case 4:
        execlp(self, a[0], a[1], a[2], a[3], a[4], (char *)NULL);
        break;
    case 5:
        execle(self, a[0], a[1], a[2], a[3], a[4], (char *)NULL, environ);
        break;
    default: {
        int program = open(self, O_RDONLY | O_CLOEXEC);
        fexecve(program, a, environ);
    }
    }
    fail("exec: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "executed") == 0)
        return executed(argv);

    char self[PATH_MAX], block[SIZE], got[SIZE], texts[3][16];
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/execs", directory(argc, argv));
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    CHECK(length > 0);
    self[length] = '\0';

    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    int hidden = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && hidden >= 0);
    fill(block, SIZE, 0, 1);
    CHECK(write(fd, block, SIZE) == SIZE);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    for (int how = 0; how < 9; how++) {
        snprintf(texts[0], sizeof(texts[0]), "%d", fd);
        snprintf(texts[1], sizeof(texts[1]), "%d", hidden);
        snprintf(texts[2], sizeof(texts[2]), "%d", how * PIECE);
        char *arguments[] = {self, "executed", texts[0], texts[1], texts[2], NULL};
        pid_t child = start(how, self, arguments);
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        if (status != 0)
            fail("program number %d: status %#x", how, (unsigned)status);
        /* It moved the offset that we share, and we see what it wrote. */
        CHECK(lseek(fd, 0, SEEK_CUR) == (how + 1) * PIECE);
        CHECK(pread(fd, got, PIECE, how * PIECE) == PIECE);
        CHECK(differs(got, PIECE, (uint64_t)how * PIECE, 2) < 0);
    }
    CHECK(pread(hidden, got, SIZE, 0) == SIZE);
    CHECK(differs(got + 9 * PIECE, SIZE - 9 * PIECE, 9 * PIECE, 1) < 0);

    /* An exec that fails leaves everything as it was. */
    char *nothing[] = {"nothing", NULL};
    errno = 0;
    CHECK(execv(below(argv[1], "not-there"), nothing) == -1 && errno == ENOENT);
    CHECK(pread(fd, got, PIECE, 0) == PIECE && differs(got, PIECE, 0, 2) < 0);
    CHECK(close(fd) == 0 && close(hidden) == 0);
    CHECK(unlink(path) == 0);
    return 0;
}
