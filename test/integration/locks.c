/*
 * Who gets a lock sees what others changed under it, another host for instance: here a program
 * without the library.
 */
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "program.h"

static int by_fcntl(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &lock);
}

static int by_open_file_description(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLKW, &lock);
}

static int by_flock(int fd)
{
    return flock(fd, LOCK_EX);
}

static int by_number(int fd)
{
    return (int)syscall(SYS_flock, fd, LOCK_EX);
}

static int by_lockf(int fd)
{
    return lockf(fd, F_TLOCK, 0);
}

static int by_lockf64(int fd)
{
    return lockf64(fd, F_LOCK, 0);
}

static void append_elsewhere(const char *path)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unsetenv("LD_PRELOAD");
        execlp("sh", "sh", "-c", "printf 'more.' >>\"$0\"", path, NULL);
        _exit(127);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void sees(const char *path, int (*get)(int fd))
{
    struct stat status;
    char text[10];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && write(fd, "some", 4) == 4);
    CHECK(lseek(fd, 0, SEEK_END) == 4);
    append_elsewhere(path);
    CHECK(get(fd) == 0);
    CHECK(lseek(fd, 0, SEEK_END) == 9);
    CHECK(fstat(fd, &status) == 0 && status.st_size == 9);
    CHECK(pread(fd, text, sizeof(text), 0) == 9 && memcmp(text, "somemore.", 9) == 0);
    CHECK(close(fd) == 0);
    CHECK(unlink(path) == 0);
}

/* truncate(2) by name has no descriptor whose close would end the locks of the process. */
static void truncated_by_name(const char *path, bool mapped)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666), status;
    CHECK(fd >= 0 && write(fd, "locked", 6) == 6);
    CHECK(!mapped || mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
    CHECK(by_fcntl(fd) == 0);
    CHECK(truncate(path, 4) == 0 && lseek(fd, 0, SEEK_END) == 4);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(by_fcntl(fd) == -1 && (errno == EACCES || errno == EAGAIN) ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(close(fd) == 0 && unlink(path) == 0);
}

int main(int argc, char **argv)
{
    int (*const ways[])(int) = {by_fcntl,  by_open_file_description, by_flock, by_number, by_lockf,
                                by_lockf64};
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/locks", directory(argc, argv));
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        sees(path, ways[i]);
    truncated_by_name(path, false);
    truncated_by_name(path, true);
    return 0;
}
