/*
 * Sixteen threads on one file: positioned I/O in disjoint stripes with verification, on a
 * descriptor of their own or a shared one; then read() of all on one descriptor, where every record
 * must be seen exactly once; then write(), where none may overwrite another.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "program.h"

enum {
    THREADS = 16,
    STRIPE = 128 * 1024,
    ROUNDS = 60,
    LARGEST = 24 * 1024,
    RECORD = 512,
    RECORDS = 4096
};

static const char *path;
static int shared;
static atomic_uchar seen[RECORDS];

static void *stripes(void *argument)
{
    int me = (int)(intptr_t)argument;
    uint64_t random = (uint64_t)me * 7919 + 12345;
    off_t start = (off_t)me * STRIPE;
    char *block = malloc(LARGEST);
    int fd = me % 2 ? shared : open(path, O_RDWR);
    CHECK(block != NULL && fd >= 0);
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = 1 + next_random(&random) % LARGEST;
        off_t at = start + (off_t)(next_random(&random) % (STRIPE - size));
        if (next_random(&random) % 2) {
            fill(block, size, (uint64_t)at, 5);
            struct iovec halves[2] = {{block, size / 3}, {block + size / 3, size - size / 3}};
            ssize_t done = round % 2 ? pwrite(fd, block, size, at) : pwritev(fd, halves, 2, at);
            CHECK(done == (ssize_t)size);
        } else {
            CHECK(pread(fd, block, size, at) == (ssize_t)size);
            ssize_t where = differs(block, size, (uint64_t)at, 5);
            if (where >= 0)
                fail("thread %d: wrong byte at %lld", me, (long long)at + where);
        }
        if (round % 16 == 15)
            CHECK(fdatasync(fd) == 0);
    }
    if (fd != shared)
        CHECK(close(fd) == 0);
    free(block);
    return NULL;
}

static void *readers(void *argument)
{
    (void)argument;
    char record[RECORD];
    ssize_t got;
    while ((got = read(shared, record, RECORD)) == RECORD) {
        uint32_t index;
        memcpy(&index, record, sizeof(index));
        if (index >= RECORDS || atomic_fetch_add(&seen[index], 1) != 0)
            fail("record %u was read twice", index);
        if (differs(record + 4, RECORD - 4, (uint64_t)index * RECORD, 6) >= 0)
            fail("record %u is torn", index);
    }
    CHECK(got == 0);
    return NULL;
}

static void *writers(void *argument)
{
    int me = (int)(intptr_t)argument;
    char record[RECORD];
    for (uint32_t i = 0; i < RECORDS / THREADS; i++) {
        uint32_t index = (uint32_t)me * (RECORDS / THREADS) + i;
        memcpy(record, &index, sizeof(index));
        fill(record + 4, RECORD - 4, (uint64_t)index * RECORD, 6);
        CHECK(write(shared, record, RECORD) == RECORD);
    }
    return NULL;
}

static void all(void *(*function)(void *))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, function, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* The first file of the process, in a thread with little stack: of it libc itself needs some. */
static void *first_file(void *unused)
{
    char block[4096] = "first";
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, block, sizeof(block), 0) == sizeof(block));
    CHECK(pread(fd, block, sizeof(block), 0) == sizeof(block));
    CHECK(ftruncate(fd, 10) == 0 && fsync(fd) == 0);
    CHECK(close(fd) == 0);
    return unused;
}

static void on_a_small_stack(void *(*function)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 65536) == 0);
    CHECK(pthread_create(&thread, &attributes, function, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/threads", directory(argc, argv));
    path = name;
    static char stripe[STRIPE];
    on_a_small_stack(first_file);
    CHECK((shared = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666)) >= 0);
    for (int i = 0; i < THREADS; i++) {
        fill(stripe, STRIPE, (uint64_t)i * STRIPE, 5);
        CHECK(write(shared, stripe, STRIPE) == STRIPE);
    }
    all(stripes);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pread(shared, stripe, STRIPE, (off_t)i * STRIPE) == STRIPE);
        CHECK(differs(stripe, STRIPE, (uint64_t)i * STRIPE, 5) < 0);
    }
    CHECK(ftruncate(shared, 0) == 0);
    CHECK(lseek(shared, 0, SEEK_SET) == 0);
    all(writers);
    CHECK(lseek(shared, 0, SEEK_CUR) == (off_t)RECORD * RECORDS);
    CHECK(lseek(shared, 0, SEEK_END) == (off_t)RECORD * RECORDS);
    CHECK(lseek(shared, 0, SEEK_SET) == 0);
    all(readers);
    for (uint32_t i = 0; i < RECORDS; i++)
        if (atomic_load(&seen[i]) != 1)
            fail("record %u is lost", i);
    CHECK(close(shared) == 0);
    CHECK(unlink(path) == 0);
    return 0;
}
