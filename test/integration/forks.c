/*
 * A storm of children that all read and write one file at once, each its own part, while threads of
 * the parent go on with theirs. Afterwards the parent finds what every child wrote.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "program.h"

enum { CHILDREN = 200, THREADS = 3, PART = 16384, ROUNDS = 4 };

static int fd;
static atomic_bool over;

static void work(int part, int round)
{
    static __thread char block[PART], got[PART];
    off_t at = (off_t)part * PART;
    size_t half = PART / 2;
    fill(block, PART, (uint64_t)at, (uint64_t)round);
    CHECK(pwrite(fd, block, half, at) == (ssize_t)half);
    CHECK(pwrite(fd, block + half, half, at + (off_t)half) == (ssize_t)half);
    CHECK(pread(fd, got, PART, at) == PART);
    ssize_t where = differs(got, PART, (uint64_t)at, (uint64_t)round);
    if (where >= 0)
        fail("part %d, round %d: wrong byte at %zd", part, round, where);
}

static void *parent_thread(void *argument)
{
    for (int round = 0; !atomic_load(&over); round++)
        work(CHILDREN + (int)(intptr_t)argument, round % 100);
    return NULL;
}

/* The ways to make a child. */
static pid_t make_child(int i)
{
    switch (i % 3) {
    case 0:
        return fork();
    case 1:
        return _Fork();
    default:
        return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    }
}

/* ---- children of a parent whose other threads were in malloc() ---- */

static void *allocates(void *seed)
{
    static __thread void *kept[256];
    unsigned random = (unsigned)(intptr_t)seed;
    while (!atomic_load(&over)) {
        unsigned i = (unsigned)rand_r(&random) % 256;
        free(kept[i]);
        kept[i] = malloc(2000 + (unsigned)rand_r(&random) % 60000);
    }
    return NULL;
}

/* What is async-signal-safe. */
static void child_opens(const char *path)
{
    int own = open(path, O_RDWR);
    CHECK(own >= 0 && pwrite(own, "x", 1, 0) == 1 && fsync(own) == 0 && close(own) == 0);
    _exit(0);
}

static void children_of_who_allocates(const char *path)
{
    enum { SOME = 90, PATIENCE_S = 20 };
    pthread_t threads[2];
    atomic_store(&over, false);
    CHECK(mallopt(M_ARENA_MAX, 1) == 1);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, allocates, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < SOME; i++) {
        int status;
        pid_t child = make_child(i);
        CHECK(child >= 0);
        if (child == 0)
            child_opens(path);
        bool ended = ends_within(child, PATIENCE_S, &status);
        if (!ended || status != 0)
            fail("a child of way %d %s", i % 3, ended ? "failed" : "hangs");
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    const char *path = below(directory(argc, argv), "forks");
    static char got[PART];
    pthread_t threads[THREADS];
    pid_t children[CHILDREN];

    CHECK((fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666)) >= 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, parent_thread, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        CHECK((children[i] = make_child(i)) >= 0);
        if (children[i] == 0) {
            for (int round = 0; round < ROUNDS; round++)
                work(i, round);
            if (i % 5 == 0)
                CHECK(fsync(fd) == 0);
            CHECK(close(fd) == 0);
            _exit(0);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail("child %d: status %#x", i, (unsigned)status);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);

    CHECK(fsync(fd) == 0);
    CHECK(lseek(fd, 0, SEEK_END) >= (off_t)CHILDREN * PART);
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(pread(fd, got, PART, (off_t)i * PART) == PART);
        if (differs(got, PART, (uint64_t)i * PART, ROUNDS - 1) >= 0)
            fail("what child %d wrote is not there", i);
    }
    /* A child moves the offset that it shares with its parent. */
    CHECK(lseek(fd, PART, SEEK_SET) == PART);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(read(fd, got, 100) == 100 && differs(got, 100, PART, ROUNDS - 1) < 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == PART + 100);
    children_of_who_allocates(path);
    CHECK(close(fd) == 0);
    CHECK(unlink(path) == 0);
    return 0;
}
