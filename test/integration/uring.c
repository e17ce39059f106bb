/*
 * Requests of io_uring, as programs make them through liburing: on a file of the directory, and in
 * the same ring on descriptors that are certainly the kernel's.
 */
#include <linux/openat2.h>

#include "uring.h"

/* ---- single requests ---- */

static void case_read_write(void)
{
    ring_begin(8);
    PREPARE(1, read, file, buffer(0), BLOCK, 3 * BLOCK);
    submit(1);
    expect(1, BLOCK);
    same(buffer(0), BLOCK, 3 * BLOCK, SEED);
    fill(buffer(1), BLOCK, 3 * BLOCK, SEED + 1);
    PREPARE(2, write, file, buffer(1), BLOCK, 3 * BLOCK);
    submit(1);
    expect(2, BLOCK);
    CHECK(pread(file, buffer(2), BLOCK, 3 * BLOCK) == BLOCK);
    same(buffer(2), BLOCK, 3 * BLOCK, SEED + 1);
    CHECK(pwrite(file, buffer(0), BLOCK, 3 * BLOCK) == BLOCK);
    /* Nothing is asked for, nothing comes. */
    submit(0);
    struct io_uring_cqe *cqe;
    CHECK(io_uring_peek_cqe(&ring, &cqe) == -EAGAIN);
    ring_end();
}

static void case_vectors(void)
{
    struct iovec *vectors = calloc(40, sizeof(*vectors));
    ring_begin(8);
    for (unsigned count = 1; count <= 40; count += 13) {
        for (unsigned i = 0; i < count; i++)
            vectors[i] = (struct iovec){buffer(0) + i * 100, 100};
        fill(buffer(0), count * 100, 777, SEED);
        PREPARE(1, writev, file, vectors, count, 777);
        submit(1);
        memset(vectors, 0xff, 40 * sizeof(*vectors)); /* the kernel has it by now, too */
        expect(1, (int)count * 100);
        memset(buffer(0), 0, BLOCK);
        for (unsigned i = 0; i < count; i++)
            vectors[i] = (struct iovec){buffer(0) + i * 100, 100};
        PREPARE(2, readv, file, vectors, count, 777);
        submit(1);
        memset(vectors, 0xff, 40 * sizeof(*vectors));
        expect(2, (int)count * 100);
        same(buffer(0), count * 100, 777, SEED);
    }
    ring_end();
    free(vectors);
}

static void case_sync(void)
{
    ring_begin(8);
    PREPARE(1, fsync, file, 0);
    PREPARE(2, fsync, file, IORING_FSYNC_DATASYNC);
    PREPARE(3, sync_file_range, file, BLOCK, 0, SYNC_FILE_RANGE_WRITE);
    PREPARE(4, fadvise, file, 0, BLOCK, POSIX_FADV_WILLNEED);
    submit(4);
    unsigned seen = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t data;
        CHECK(reap(&data) == 0);
        seen |= 1U << data;
    }
    CHECK(seen == 0x1e);
    /* IORING_OP_FTRUNCATE, with a field that must be 0. */
    struct io_uring_sqe *next = sqe(5);
    next->opcode = 55;
    next->fd = file;
    next->len = 4;
    submit(1);
    expect(5, -EINVAL);
    struct stat status;
    CHECK(fstat(file, &status) == 0 && status.st_size == FILE_SIZE);
    ring_end();
}

/* At the end of the file, and beyond it. */
static void case_end_of_file(void)
{
    ring_begin(8);
    PREPARE(1, read, file, buffer(0), BLOCK, FILE_SIZE - 100);
    submit(1);
    expect(1, 100);
    same(buffer(0), 100, FILE_SIZE - 100, SEED);
    PREPARE(2, read, file, buffer(0), BLOCK, FILE_SIZE + 5);
    submit(1);
    expect(2, 0);
    PREPARE(3, read, file, buffer(0), 0, 0);
    submit(1);
    expect(3, 0);
    /* More than one call moves is cut. */
    void *large = mmap(NULL, UINT32_MAX, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(large != MAP_FAILED);
    PREPARE(4, read, file, large, UINT32_MAX, FILE_SIZE - 100);
    submit(1);
    expect(4, 100);
    struct iovec two[2] = {{large, 0x7ffff000}, {large, 0x7ffff000}};
    PREPARE(5, readv, file, two, 2, FILE_SIZE - 100);
    submit(1);
    expect(5, 100);
    same(large, 100, FILE_SIZE - 100, SEED);
    munmap(large, UINT32_MAX);
    ring_end();
}

/* An offset of -1 is the file's position, which moves. */
static void case_position(void)
{
    ring_begin(8);
    CHECK(lseek(file, 5000, SEEK_SET) == 5000);
    PREPARE(1, read, file, buffer(0), 1000, (uint64_t)-1);
    submit(1);
    expect(1, 1000);
    same(buffer(0), 1000, 5000, SEED);
    CHECK(lseek(file, 0, SEEK_CUR) == 6000);
    ring_end();
}

/* Wherever the request says, and at the offset, which is the end then. */
static void case_append(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", below(dir, "appended"));
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0666);
    CHECK(fd >= 0);
    ring_begin(8);
    for (unsigned i = 0; i < 4; i++) {
        memset(buffer(i), 'a' + (int)i, 100);
        PREPARE(i, write, fd, buffer(i), 100, 0);
        submit(1);
        expect(i, 100);
    }
    PREPARE(4, write, fd, buffer(0), 50, (uint64_t)-1);
    submit(1);
    expect(4, 50);
    CHECK(lseek(fd, 0, SEEK_CUR) == 450);
    CHECK(pread(fd, buffer(5), 500, 0) == 450);
    for (unsigned i = 0; i < 4; i++)
        CHECK(memcmp(buffer(5) + i * 100, buffer(i), 100) == 0);
    ring_end();
    CHECK(close(fd) == 0 && unlink(path) == 0);
}

static void case_open_close(void)
{
    ring_begin(8);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/opened", dir);
    PREPARE(1, openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    submit(1);
    int fd = reap(NULL);
    CHECK(fd >= 0);
    fill(buffer(0), BLOCK, 0, SEED);
    PREPARE(2, write, fd, buffer(0), BLOCK, 0);
    submit(1);
    expect(2, BLOCK);
    struct statx status;
    PREPARE(3, statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, &status);
    submit(1);
    expect(3, 0);
    CHECK(status.stx_size == BLOCK);
    PREPARE(4, close, fd);
    submit(1);
    expect(4, 0);
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    PREPARE(5, openat, AT_FDCWD, below(dir, "absent"), O_RDONLY, 0);
    submit(1);
    expect(5, -ENOENT);
    CHECK(unlink(path) == 0);
    ring_end();
}

/* The way to open, where there is no memory. */
static void case_openat2(void)
{
    ring_begin(8);
    struct open_how how = {.flags = O_RDONLY};
    PREPARE(1, openat2, AT_FDCWD, below(dir, "file"), &how);
    submit(1);
    int fd = reap(NULL);
    CHECK(fd >= 0 && close(fd) == 0);
    PREPARE(2, openat2, AT_FDCWD, below(dir, "file"), (struct open_how *)0x1234);
    submit(1);
    expect(2, -EFAULT);
    ring_end();
}

/* As another user than the one who asks. */
static void case_personality(void)
{
    if (geteuid() != 0)
        return;
    ring_begin(8);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/secret", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
    int root = io_uring_register_personality(&ring);
    CHECK(root > 0 && seteuid(65534) == 0);
    PREPARE(1, openat, AT_FDCWD, path, O_RDWR, 0);
    submit(1);
    expect(1, -EACCES);
    PREPARE(2, openat, AT_FDCWD, path, O_RDWR, 0)->personality = (unsigned short)root;
    submit(1);
    fd = reap(NULL);
    CHECK(fd >= 0 && close(fd) == 0);
    int nobody = io_uring_register_personality(&ring);
    CHECK(nobody > 0 && seteuid(0) == 0);
    PREPARE(3, openat, AT_FDCWD, path, O_RDWR, 0)->personality = (unsigned short)nobody;
    submit(1);
    expect(3, -EACCES);
    CHECK(unlink(path) == 0);
    ring_end();
}

static void case_errors(void)
{
    ring_begin(16);
    int closed = dup(file);
    close(closed);
    PREPARE(1, read, closed, buffer(0), BLOCK, 0);
    submit(1);
    expect(1, -EBADF);
    PREPARE(2, read, -5, buffer(0), BLOCK, 0);
    submit(1);
    expect(2, -EBADF);
    int read_only = open(below(dir, "file"), O_RDONLY | O_CLOEXEC);
    int write_only = open(below(dir, "file"), O_WRONLY | O_CLOEXEC);
    CHECK(read_only >= 0 && write_only >= 0);
    PREPARE(3, write, read_only, buffer(0), BLOCK, 0);
    submit(1);
    expect(3, -EBADF);
    PREPARE(4, read, write_only, buffer(0), BLOCK, 0);
    submit(1);
    expect(4, -EBADF);
    PREPARE(5, read, file, buffer(0), BLOCK, (uint64_t)-2);
    submit(1);
    expect(5, -EINVAL);
    PREPARE(6, readv, file, (struct iovec *)8, 1, 0);
    submit(1);
    expect(6, -EFAULT);
    PREPARE(7, readv, file, (struct iovec *)buffer(0), IOV_MAX + 1, 0);
    submit(1);
    expect(7, -EINVAL);
    struct iovec huge[2] = {{buffer(0), SSIZE_MAX}, {buffer(0), SSIZE_MAX}};
    PREPARE(8, readv, file, huge, 2, 0);
    submit(1);
    int result = reap(NULL);
    CHECK(result == -EINVAL || result == -EFAULT); /* there are two reasons */
    PREPARE(12, read, file, NULL, BLOCK, 0);
    submit(1);
    expect(12, -EFAULT);
    PREPARE(13, write, file, (void *)16, BLOCK, 0);
    submit(1);
    expect(13, -EFAULT);
    PREPARE(9, fsync, file, 0x100);
    submit(1);
    expect(9, -EINVAL);
    PREPARE(10, read, 0, buffer(0), BLOCK, 0)->flags |= IOSQE_FIXED_FILE;
    submit(1);
    expect(10, -EBADF);
    close(read_only);
    close(write_only);
    /* A file that is closed with a request in flight: the request keeps it. */
    int again = open(below(dir, "file"), O_RDONLY | O_CLOEXEC);
    PREPARE(11, read, again, buffer(0), BLOCK, BLOCK);
    submit(1);
    close(again);
    expect(11, BLOCK);
    same(buffer(0), BLOCK, BLOCK, SEED);
    ring_end();
}

/* A full queue: no more SQEs until they are submitted. */
static void case_full(void)
{
    ring_begin(4);
    for (unsigned i = 0; i < 4; i++)
        PREPARE(i, read, file, buffer(i), BLOCK, (uint64_t)i * BLOCK);
    CHECK(io_uring_get_sqe(&ring) == NULL);
    submit(4);
    for (unsigned i = 4; i < 8; i++)
        PREPARE(i, read, file, buffer(i), BLOCK, (uint64_t)i * BLOCK);
    submit(4);
    for (unsigned i = 8; i < 40; i++) { /* more than the completion queue holds */
        PREPARE(i, read, file, buffer(i), BLOCK, (uint64_t)i * BLOCK);
        submit(1);
    }
    uint64_t seen = 0;
    for (unsigned i = 0; i < 40; i++) {
        uint64_t data;
        CHECK(reap(&data) == BLOCK);
        seen |= UINT64_C(1) << data;
    }
    CHECK(seen == (UINT64_C(1) << 40) - 1);
    for (unsigned i = 0; i < 40; i++)
        same(buffer(i), BLOCK, (uint64_t)i * BLOCK, SEED);
    ring_end();
}

/* ---- chains ---- */

static void case_links(void)
{
    ring_begin(16);
    fill(buffer(0), BLOCK, 0, SEED);
    for (int round = 0; round < 5; round++) {
        PREPARE(1, write, file, buffer(0), BLOCK, 0)->flags |= IOSQE_IO_LINK;
        PREPARE(2, fsync, file, 0)->flags |= IOSQE_IO_LINK;
        PREPARE(3, read, file, buffer(1), BLOCK, 0);
        PREPARE(4, nop);
        submit(4);
        unsigned order = 0;
        for (int i = 0; i < 4; i++) {
            uint64_t data;
            int result = reap(&data);
            if (data == 4)
                continue;
            CHECK(data == ++order && result == (data == 2 ? 0 : BLOCK));
        }
        same(buffer(1), BLOCK, 0, SEED);
    }
    /* A short read breaks a chain, ... */
    PREPARE(1, read, file, buffer(0), BLOCK, FILE_SIZE - 1)->flags |= IOSQE_IO_LINK;
    PREPARE(2, read, file, buffer(1), BLOCK, 0)->flags |= IOSQE_IO_LINK;
    PREPARE(3, fsync, file, 0);
    submit(3);
    expect(1, 1);
    expect(2, -ECANCELED);
    expect(3, -ECANCELED);
    /* ... but not a hard one. */
    PREPARE(1, read, file, buffer(0), BLOCK, FILE_SIZE - 1)->flags |= IOSQE_IO_HARDLINK;
    PREPARE(2, read, file, buffer(1), BLOCK, 0);
    submit(2);
    expect(1, 1);
    expect(2, BLOCK);
    /* A timeout that is not needed. */
    struct __kernel_timespec limit = {.tv_sec = 10};
    PREPARE(1, read, file, buffer(0), BLOCK, 0)->flags |= IOSQE_IO_LINK;
    PREPARE(2, link_timeout, &limit, 0);
    submit(2);
    uint64_t data;
    int first = reap(&data), second = reap(NULL);
    CHECK(data == 1 ? first == BLOCK && second == -ECANCELED
                    : first == -ECANCELED && second == BLOCK);
    ring_end();
}

static void case_drain(void)
{
    ring_begin(64);
    for (unsigned i = 0; i < 16; i++)
        PREPARE(i, write, file, memcpy(buffer(i), buffer(i), 0), 0, 0);
    PREPARE(100, fsync, file, 0)->flags |= IOSQE_IO_DRAIN;
    submit(17);
    for (unsigned i = 0; i < 16; i++) {
        uint64_t data;
        CHECK(reap(&data) == 0 && data < 16);
    }
    expect(100, 0);
    /* A request of the kernel waits for those of the file. */
    for (unsigned i = 0; i < 16; i++)
        PREPARE(i, read, file, buffer(i), BLOCK, (uint64_t)i * BLOCK);
    PREPARE(100, nop)->flags |= IOSQE_IO_DRAIN;
    submit(17);
    for (unsigned i = 0; i < 16; i++) {
        uint64_t data;
        CHECK(reap(&data) == BLOCK && data < 16);
    }
    expect(100, 0);
    ring_end();
}

/* ---- registered files and buffers ---- */

static void case_registered(void)
{
    ring_begin(16);
    int other = open(below(dir, "file"), O_RDWR | O_CLOEXEC);
    CHECK(other >= 0);
    int files[4] = {file, memory, -1, other};
    struct iovec whole = {buffers, 16 * BLOCK};
    int registered = io_uring_register_buffers(&ring, &whole, 1);
    if (registered != 0)
        fail("io_uring_register_buffers() = %d", registered);
    CHECK(io_uring_register_files(&ring, files, 4) == 0);
    close(other); /* its slot lives on */
    static const int slots[3] = {0, 1, 3};
    for (unsigned i = 0; i < 3; i++) {
        PREPARE(i, read_fixed, slots[i], buffer(i), BLOCK, (uint64_t)(9 + i) * BLOCK, 0)->flags |=
            IOSQE_FIXED_FILE;
        PREPARE(10 + i, read, slots[i], buffer(4 + i), BLOCK, (uint64_t)(19 + i) * BLOCK)->flags |=
            IOSQE_FIXED_FILE;
    }
    submit(6);
    for (unsigned i = 0; i < 6; i++)
        CHECK(reap(NULL) == BLOCK);
    for (unsigned i = 0; i < 3; i++) {
        same(buffer(i), BLOCK, (uint64_t)(9 + i) * BLOCK, SEED);
        same(buffer(4 + i), BLOCK, (uint64_t)(19 + i) * BLOCK, SEED);
    }
    PREPARE(1, write_fixed, 3, buffer(0), BLOCK, 9 * BLOCK, 0)->flags |= IOSQE_FIXED_FILE;
    submit(1);
    expect(1, BLOCK);
    PREPARE(2, read, 2, buffer(0), BLOCK, 0)->flags |= IOSQE_FIXED_FILE; /* empty */
    submit(1);
    expect(2, -EBADF);
    /* Other files in the slots. */
    int swapped[2] = {memory, file};
    CHECK(io_uring_register_files_update(&ring, 0, swapped, 2) == 2);
    int pipes[2];
    CHECK(pipe2(pipes, O_CLOEXEC) == 0 && write(pipes[1], "pipe", 4) == 4);
    CHECK(io_uring_register_files_update(&ring, 3, pipes, 1) == 1);
    PREPARE(3, read, 3, buffer(0), BLOCK, 0)->flags |= IOSQE_FIXED_FILE;
    submit(1);
    expect(3, 4);
    CHECK(memcmp(buffer(0), "pipe", 4) == 0);
    PREPARE(4, read, 1, buffer(0), BLOCK, 7 * BLOCK)->flags |= IOSQE_FIXED_FILE;
    submit(1);
    expect(4, BLOCK);
    same(buffer(0), BLOCK, 7 * BLOCK, SEED);
    CHECK(io_uring_unregister_files(&ring) == 0);
    PREPARE(5, read, 1, buffer(0), BLOCK, 0)->flags |= IOSQE_FIXED_FILE;
    submit(1);
    expect(5, -EBADF);
    close(pipes[0]);
    close(pipes[1]);
    ring_end();
}

/* ---- both worlds in one ring ---- */

static void case_mixed(void)
{
    ring_begin(64);
    int pipes[2];
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    struct __kernel_timespec limit = {.tv_nsec = 50000000};
    for (int round = 0; round < 20; round++) {
        PREPARE(100, read, pipes[0], buffer(100), BLOCK, 0);
        PREPARE(101, timeout, &limit, 0, 0);
        for (unsigned i = 0; i < 16; i++)
            PREPARE(i, read, i % 2 ? file : memory, buffer(i), BLOCK,
                    (uint64_t)(round + i) * BLOCK);
        submit(18);
        unsigned seen = 0;
        while (seen != 0xffff) {
            uint64_t data;
            int result = reap(&data);
            if (data == 101) {
                CHECK(result == -ETIME);
                PREPARE(101, timeout, &limit, 0, 0);
                submit(1);
                continue;
            }
            CHECK(data < 16 && result == BLOCK);
            same(buffer((unsigned)data), BLOCK, (round + data) * BLOCK, SEED);
            seen |= 1U << data;
        }
        CHECK(write(pipes[1], "x", 1) == 1);
        unsigned rest = 2;
        while (rest > 0) {
            uint64_t data;
            int result = reap(&data);
            CHECK((data == 100 && result == 1) || (data == 101 && result == -ETIME));
            rest--;
        }
    }
    close(pipes[0]);
    close(pipes[1]);
    ring_end();
}

static const struct ring_case cases[] = {
    CASE(read_write), CASE(vectors),    CASE(sync),   CASE(end_of_file), CASE(position),
    CASE(append),     CASE(open_close), CASE(errors), CASE(full),        CASE(links),
    CASE(drain),      CASE(registered), CASE(mixed),  CASE(openat2),     CASE(personality),
};

int main(int argc, char **argv)
{
    return run_cases(cases, sizeof(cases) / sizeof(*cases), argc, argv);
}
