/*
 * Reads across the end of a file, by every interface and by many threads at once: what lies in
 * memory behind the bytes that a read returns stays as it was.
 */
#include <aio.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "program.h"

enum { THREADS = 8, ROUNDS = 40, DEPTH = 16, ASKED = 8192, SIZE = 3 * ASKED + 1001, POISON = 0xee };

/* One read; a buffer has a page more than is asked for. */
struct reading {
    off_t offset;
    uint8_t buffer[ASKED + 4096];
};

static const char *path;

static void begin(struct reading *reading, uint64_t *random)
{
    reading->offset = SIZE + 500 - (off_t)(next_random(random) % (2 * ASKED));
    memset(reading->buffer, POISON, sizeof(reading->buffer));
}

static void check(const struct reading *reading, ssize_t result, const char *how)
{
    off_t left = reading->offset < SIZE ? SIZE - reading->offset : 0;
    ssize_t expected = left < ASKED ? left : ASKED;
    if (result != expected)
        fail("%s at %lld: %zd bytes, not %zd", how, (long long)reading->offset, result, expected);
    if (differs(reading->buffer, (size_t)result, (uint64_t)reading->offset, 1) >= 0)
        fail("%s at %lld: wrong data", how, (long long)reading->offset);
    for (size_t i = (size_t)result; i < sizeof(reading->buffer); i++)
        if (reading->buffer[i] != POISON)
            fail("%s at %lld: %zd bytes, and byte %zu changed", how, (long long)reading->offset,
                 result, i);
}

static void synchronous(int fd, struct reading *reading, uint64_t *random)
{
    begin(reading, random);
    check(reading, pread(fd, reading->buffer, ASKED, reading->offset), "pread");
    struct iovec halves[2] = {{reading->buffer, 1003}, {reading->buffer + 1003, ASKED - 1003}};
    begin(reading, random);
    check(reading, preadv(fd, halves, 2, reading->offset), "preadv");
    begin(reading, random);
    CHECK(lseek(fd, reading->offset, SEEK_SET) == reading->offset);
    check(reading, read(fd, reading->buffer, ASKED), "read");
}

static void posix_aio(int fd, struct reading *readings, uint64_t *random)
{
    struct aiocb controls[DEPTH];
    memset(controls, 0, sizeof(controls));
    for (int i = 0; i < DEPTH; i++) {
        begin(&readings[i], random);
        controls[i].aio_fildes = fd;
        controls[i].aio_buf = readings[i].buffer;
        controls[i].aio_nbytes = ASKED;
        controls[i].aio_offset = readings[i].offset;
        CHECK(aio_read(&controls[i]) == 0);
    }
    for (int i = 0; i < DEPTH; i++) {
        const struct aiocb *list[] = {&controls[i]};
        while (aio_error(&controls[i]) == EINPROGRESS)
            CHECK(aio_suspend(list, 1, NULL) == 0 || errno == EINTR || errno == EAGAIN);
        check(&readings[i], aio_return(&controls[i]), "aio_read");
    }
}

static void kernel_aio(int fd, struct reading *readings, uint64_t *random)
{
    aio_context_t context = 0;
    struct iocb controls[DEPTH], *list[DEPTH];
    struct io_event events[DEPTH];
    memset(controls, 0, sizeof(controls));
    CHECK(syscall(SYS_io_setup, DEPTH, &context) == 0);
    for (int i = 0; i < DEPTH; i++) {
        begin(&readings[i], random);
        controls[i].aio_data = (uint64_t)i;
        controls[i].aio_lio_opcode = IOCB_CMD_PREAD;
        controls[i].aio_fildes = (uint32_t)fd;
        controls[i].aio_buf = (uint64_t)(uintptr_t)readings[i].buffer;
        controls[i].aio_nbytes = ASKED;
        controls[i].aio_offset = readings[i].offset;
        list[i] = &controls[i];
    }
    CHECK(syscall(SYS_io_submit, context, DEPTH, list) == DEPTH);
    CHECK(syscall(SYS_io_getevents, context, DEPTH, DEPTH, events, NULL) == DEPTH);
    for (int i = 0; i < DEPTH; i++)
        check(&readings[events[i].data], events[i].res, "IOCB_CMD_PREAD");
    CHECK(syscall(SYS_io_destroy, context) == 0);
}

static void uring(int fd, struct reading *readings, uint64_t *random)
{
    struct io_uring ring;
    struct io_uring_cqe *cqe;
    if (io_uring_queue_init(DEPTH, &ring, 0) < 0)
        return; /* forbidden here */
    for (int i = 0; i < DEPTH; i++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
        begin(&readings[i], random);
        io_uring_prep_read(sqe, fd, readings[i].buffer, ASKED, (uint64_t)readings[i].offset);
        io_uring_sqe_set_data(sqe, &readings[i]);
    }
    CHECK(io_uring_submit(&ring) == DEPTH);
    for (int i = 0; i < DEPTH; i++) {
        CHECK(io_uring_wait_cqe(&ring, &cqe) == 0);
        check(io_uring_cqe_get_data(cqe), cqe->res, "io_uring_prep_read");
        io_uring_cqe_seen(&ring, cqe);
    }
    io_uring_queue_exit(&ring);
}

static void *reader(void *argument)
{
    static void (*const ways[])(int, struct reading *, uint64_t *) = {synchronous, posix_aio,
                                                                      kernel_aio, uring};
    int me = (int)(intptr_t)argument, fd = open(path, O_RDONLY);
    uint64_t random = (uint64_t)me * 7919 + 12345;
    struct reading *readings = malloc(DEPTH * sizeof(*readings));
    CHECK(fd >= 0 && readings != NULL);
    for (int round = 0; round < ROUNDS; round++)
        ways[(me + round) % 4](fd, readings, &random);
    free(readings);
    CHECK(close(fd) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    static uint8_t data[SIZE];
    pthread_t threads[THREADS];
    snprintf(name, sizeof(name), "%s/ends", directory(argc, argv));
    path = name;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    fill(data, SIZE, 0, 1);
    CHECK(fd >= 0 && write(fd, data, SIZE) == SIZE && close(fd) == 0);
    reader(NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, reader, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(unlink(path) == 0);
    return 0;
}
