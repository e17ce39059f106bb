/*
 * What the programs that test io_uring share: a ring, a file of the directory, and a memory file,
 * which is certainly the kernel's, with the same content.
 *
 *     PROGRAM DIRECTORY [CASE...]
 */
#ifndef INTEGRATION_URING_H
#define INTEGRATION_URING_H

#include <liburing.h>
#include <sys/mman.h>

#include "program.h"

enum { BLOCK = 8192, BLOCKS = 256, FILE_SIZE = BLOCK * BLOCKS, SEED = 5 };

static const char *dir;
static int file, memory; /* both hold fill(SEED), but for what a case writes and undoes */
static struct io_uring ring;
static char *buffers; /* 128 blocks */

static char *buffer(unsigned index)
{
    return buffers + (size_t)index * BLOCK;
}

static void ring_begin(unsigned entries)
{
    CHECK(io_uring_queue_init(entries, &ring, 0) == 0);
}

static void ring_end(void)
{
    CHECK(io_uring_cq_ready(&ring) == 0);
    io_uring_queue_exit(&ring);
}

static struct io_uring_sqe *sqe(uint64_t data)
{
    struct io_uring_sqe *next = io_uring_get_sqe(&ring);
    CHECK(next != NULL);
    memset(next, 0, sizeof(*next));
    next->user_data = data;
    return next;
}

/* The preparing functions clear user_data in newer versions of liburing. */
#define PREPARE(data, function, ...)                        \
    ({                                                      \
        struct io_uring_sqe *prepared_ = sqe(data);         \
        io_uring_prep_##function(prepared_, ##__VA_ARGS__); \
        prepared_->user_data = (data);                      \
        prepared_;                                          \
    })

static void submit(int expected)
{
    int result = io_uring_submit(&ring);
    if (result != expected)
        fail("io_uring_submit() = %d, expected %d", result, expected);
}

/* The next completion, in whatever order. */
static int reap(uint64_t *data)
{
    struct io_uring_cqe *cqe;
    int result;
    do
        result = io_uring_wait_cqe(&ring, &cqe);
    while (result == -EINTR);
    if (result != 0)
        fail("io_uring_wait_cqe() = %d", result);
    if (data)
        *data = cqe->user_data;
    result = cqe->res;
    io_uring_cqe_seen(&ring, cqe);
    return result;
}

__attribute__((unused)) static void expect(uint64_t data, int expected)
{
    uint64_t got;
    int result = reap(&got);
    if (got != data || result != expected)
        fail("completion of %llu is %d, expected that of %llu: %d", (unsigned long long)got, result,
             (unsigned long long)data, expected);
}

__attribute__((unused)) static void same(const void *bytes, size_t size, uint64_t offset, uint64_t seed)
{
    ssize_t at = differs(bytes, size, offset, seed);
    if (at >= 0)
        fail("byte %zd of %zu, for offset %llu, is wrong", at, size, (unsigned long long)offset);
}

struct ring_case {
    const char *name;
    void (*run)(void);
};
#define CASE(name)         \
    {                      \
#name, case_##name \
    }

static int run_cases(const struct ring_case *cases, size_t count, int argc, char **argv)
{
    dir = directory(argc, argv);
    int supported = io_uring_queue_init(4, &ring, 0);
    if (supported == -ENOSYS || supported == -EPERM)
        return 77;
    CHECK(supported == 0);
    io_uring_queue_exit(&ring);

    buffers = mmap(NULL, 128 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(buffers != MAP_FAILED);
    file = open(below(dir, "file"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    memory = memfd_create("memory", MFD_CLOEXEC);
    CHECK(file >= 0 && memory >= 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        fill(buffer(0), BLOCK, (uint64_t)i * BLOCK, SEED);
        CHECK(pwrite(file, buffer(0), BLOCK, (off_t)i * BLOCK) == BLOCK);
        CHECK(pwrite(memory, buffer(0), BLOCK, (off_t)i * BLOCK) == BLOCK);
    }
    for (size_t i = 0; i < count; i++) {
        bool wanted = argc == 2;
        for (int j = 2; j < argc; j++)
            wanted |= strcmp(argv[j], cases[i].name) == 0;
        if (!wanted)
            continue;
        printf("%s\n", cases[i].name);
        fflush(stdout);
        cases[i].run();
    }
    CHECK(close(file) == 0 && unlink(below(dir, "file")) == 0);
    return 0;
}

#endif
