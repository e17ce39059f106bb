/*
 * The first thread ends, and the process with the last one of the program's, as exit(3):
 * asynchronous requests, for which the C library has threads of its own, do not keep it.
 */
#include <aio.h>
#include <pthread.h>
#include <sys/wait.h>

#include "program.h"

enum { BLOCK = 4096, BLOCKS = 16 };

static const char *path;
static int pipe_ends[2];

static void at_exit(void)
{
    if (write(pipe_ends[1], "x", 1) != 1)
        _exit(1);
}

static void *writes(void *unused)
{
    static char block[BLOCK];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0);
    for (int i = 0; i < BLOCKS; i++) {
        struct aiocb request = {.aio_fildes = fd,
                                .aio_buf = block,
                                .aio_nbytes = BLOCK,
                                .aio_offset = (off_t)i * BLOCK};
        const struct aiocb *list[] = {&request};
        CHECK(aio_write(&request) == 0);
        while (aio_error(&request) == EINPROGRESS)
            aio_suspend(list, 1, NULL);
        CHECK(aio_return(&request) == BLOCK);
        CHECK(pread(fd, block, BLOCK, 0) == BLOCK);
    }
    return unused;
}

static void without_first_thread(bool before)
{
    pthread_t thread;
    CHECK(atexit(at_exit) == 0);
    if (before)
        writes(NULL);
    CHECK(pthread_create(&thread, NULL, writes, NULL) == 0);
    pthread_exit(NULL);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX], byte;
    snprintf(name, sizeof(name), "%s/mainexit", directory(argc, argv));
    path = name;
    CHECK(pipe(pipe_ends) == 0);
    for (int before = 0; before < 2; before++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(600);
            without_first_thread(before);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        CHECK(read(pipe_ends[0], &byte, 1) == 1);
    }
    return 0;
}
