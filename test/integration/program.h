/*
 * What the test programs of this directory share. Each takes a directory to work in (made if it is
 * not there) and exits with 0 when all was right, 77 when it cannot run, else 1 with a message on
 * standard error. They know nothing of the library: on any file system they must pass.
 */
#ifndef INTEGRATION_PROGRAM_H
#define INTEGRATION_PROGRAM_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Says what is wrong and ends the process, without the destructors that a fork would repeat. */
__attribute__((format(printf, 1, 2), noreturn, unused)) static void fail(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text) - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof(text) - 2)
        length = (int)sizeof(text) - 2;
    text[length] = '\n';
    if (write(STDERR_FILENO, text, (size_t)length + 1) < 0)
        _exit(2);
    _exit(1);
}

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        int check_errno_ = errno;                                                          \
        if (!(condition)) {                                                                \
            check_errno_ = errno ? errno : check_errno_;                                   \
            fail("%s:%d: %s: %s", __FILE__, __LINE__, #condition, strerror(check_errno_)); \
        }                                                                                  \
    } while (0)

/* The directory that the program was given. */
__attribute__((unused)) static const char *directory(int argc, char **argv)
{
    if (argc < 2)
        fail("usage: %s DIRECTORY", argv[0]);
    if (mkdir(argv[1], 0777) < 0 && errno != EEXIST)
        fail("%s: %s", argv[1], strerror(errno));
    return argv[1];
}

__attribute__((unused)) static const char *below(const char *path, const char *name)
{
    static __thread char text[PATH_MAX];
    if (snprintf(text, sizeof(text), "%s/%s", path, name) >= (int)sizeof(text))
        fail("%s/%s: too long", path, name);
    return text;
}

/* Bytes that tell where they belong: those of `offset` on, of the version `seed`. Never all zero.
 */
__attribute__((unused)) static void fill(void *buffer, size_t size, uint64_t offset, uint64_t seed)
{
    uint8_t *bytes = buffer;
    for (size_t i = 0; i < size; i++) {
        uint64_t at = offset + i;
        uint64_t x =
            (at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (seed + 1) * UINT64_C(0xbf58476d1ce4e5b9);
        x ^= x >> 29;
        bytes[i] = (uint8_t)(x >> 8 * (at % 8));
    }
}

/* The index of the first byte that fill() would not have written, or -1. */
__attribute__((unused)) static ssize_t differs(const void *buffer, size_t size, uint64_t offset,
                                               uint64_t seed)
{
    const uint8_t *bytes = buffer;
    for (size_t i = 0; i < size; i++) {
        uint8_t expected;
        fill(&expected, 1, offset + i, seed);
        if (bytes[i] != expected)
            return (ssize_t)i;
    }
    return -1;
}

/* Waits for a child, for so long; one that has not ended by then is killed, and that is false. */
__attribute__((unused)) static bool ends_within(pid_t child, int seconds, int *status)
{
    for (int ms = 0; ms < seconds * 1000; ms++) {
        if (waitpid(child, status, WNOHANG) == child)
            return true;
        usleep(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, status, 0);
    return false;
}

/* Stops a process; its threads, which take a moment to see it, have stopped when this returns. */
__attribute__((unused)) static void stop_process(pid_t process)
{
    char path[PATH_MAX], text[512];
    if (kill(process, SIGSTOP) < 0)
        fail("process %d: %s", (int)process, strerror(errno));
    snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
    DIR *threads = opendir(path);
    if (!threads)
        fail("%s: %s", path, strerror(errno));
    for (struct dirent *one; (one = readdir(threads));) {
        if (one->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)process, one->d_name);
        const char *state = NULL;
        for (int tries = 0; tries < 10000 && !(state && state[2] == 'T'); tries++) {
            int stat = open(path, O_RDONLY | O_CLOEXEC);
            ssize_t size = stat >= 0 ? read(stat, text, sizeof(text) - 1) : 0;
            close(stat);
            text[size > 0 ? size : 0] = '\0';
            state = strrchr(text, ')');
            usleep(1000);
        }
        if (!state || state[2] != 'T')
            fail("%s: it was not stopped", path);
    }
    closedir(threads);
}

/* A process that maps a file when it is told to, which makes it the kernel's, and holds it so. */
struct mapper {
    pid_t process;
    int go[2], done[2];
};
__attribute__((unused)) static void mapper_start(struct mapper *mapper, const char *path)
{
    char byte;
    CHECK(pipe(mapper->go) == 0 && pipe(mapper->done) == 0);
    mapper->process = fork();
    CHECK(mapper->process >= 0);
    if (mapper->process > 0)
        return;
    close(mapper->go[1]);
    CHECK(read(mapper->go[0], &byte, 1) == 1);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
    CHECK(write(mapper->done[1], "x", 1) == 1 && read(mapper->go[0], &byte, 1) == 0);
    _exit(0);
}
__attribute__((unused)) static void mapper_map(const struct mapper *mapper)
{
    char byte;
    CHECK(write(mapper->go[1], "x", 1) == 1 && read(mapper->done[0], &byte, 1) == 1);
}
__attribute__((unused)) static void mapper_end(const struct mapper *mapper)
{
    int status;
    for (int i = 0; i < 2; i++)
        CHECK(close(mapper->go[i]) == 0 && close(mapper->done[i]) == 0);
    CHECK(waitpid(mapper->process, &status, 0) == mapper->process && status == 0);
}

/* A small generator of random numbers (xorshift). *state must not be 0. */
__attribute__((unused)) static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
