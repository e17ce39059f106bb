/*
 * Streams on descriptors that the library meets in unusual ways: opened before any constructor has
 * run, and replaced below the stream by dup2(). Both sides see each other's data, and after
 * fclose() the number may become anything.
 */
#include <sys/socket.h>

#include "program.h"

static FILE *early;
static char path[PATH_MAX];

/* Before the constructors of all libraries, preloaded ones included. */
static void open_early(int argc, char **argv, char **environment)
{
    (void)environment;
    if (argc < 2)
        return;
    snprintf(path, sizeof(path), "%s/early", argv[1]);
    early = fopen(path, "w+e");
}
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **,
                                                                      char **) = open_early;

/* What the stream writes is read through the descriptor, and the other way round. */
static void shared(FILE *stream, int fd)
{
    char got[100];
    CHECK(fd >= 0 && fseek(stream, 0, SEEK_SET) == 0);
    CHECK(fputs("by the stream", stream) >= 0 && fflush(stream) == 0);
    CHECK(pread(fd, got, sizeof(got), 0) == 13 && memcmp(got, "by the stream", 13) == 0);
    CHECK(pwrite(fd, "to", 2, 0) == 2);
    CHECK(fseek(stream, 0, SEEK_SET) == 0 && fgets(got, sizeof(got), stream) == got);
    CHECK(strcmp(got, "to the stream") == 0);
}

/* Closes the stream; nothing of its file clings to the number. */
static void closed(FILE *stream)
{
    char byte;
    int number = fileno(stream), pair[2];
    CHECK(fclose(stream) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(pair[0] == number || pair[1] == number);
    CHECK(write(pair[0], "x", 1) == 1 && read(pair[1], &byte, 1) == 1 && byte == 'x');
    CHECK(write(pair[1], "y", 1) == 1 && read(pair[0], &byte, 1) == 1 && byte == 'y');
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
}

int main(int argc, char **argv)
{
    const char *work = directory(argc, argv);
    if (early == NULL) /* the directory was not there */
        CHECK((early = fopen(below(work, "early"), "w+e")) != NULL);
    int fd = open(below(work, "early"), O_RDWR);
    shared(early, fd);
    closed(early);
    CHECK(close(fd) == 0);

    FILE *log = fopen("/dev/null", "w+e");
    CHECK(log != NULL);
    fd = open(below(work, "log"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && pwrite(fd, "before", 6, 0) == 6);
    CHECK(dup2(fd, fileno(log)) == fileno(log));
    shared(log, fd);
    closed(log);
    CHECK(close(fd) == 0);

    /* A descriptor without a stream is served, also one whose number had a stream. */
    char got[100];
    fd = open(below(work, "plain"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && pwrite(fd, "plain", 5, 0) == 5 && dup2(fd, fd + 3) == fd + 3);
    CHECK(pread(fd + 3, got, sizeof(got), 0) == 5 && memcmp(got, "plain", 5) == 0);
    CHECK(close(fd) == 0 && close(fd + 3) == 0);
    return unlink(below(work, "early")) || unlink(below(work, "log")) ||
           unlink(below(work, "plain"));
}
