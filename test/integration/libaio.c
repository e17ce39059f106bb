/* The kernel's AIO: what is read and written, errors, contexts and processes. */
#include "libaio_test.h"

/* ---- reading and writing ---- */

struct slot {
    struct iocb iocb;
    bool busy;
    off_t offset;
    size_t size;
    unsigned char buffer[2 * BLOCK];
};

/* Writes what belongs there, or reads and compares, at random places, at every depth. */
static void random_work(unsigned depth, int rounds)
{
    static struct slot slots[DEPTH];
    struct iocb *list[DEPTH];
    struct io_event events[DEPTH];
    uint64_t random = depth * 1000003 + 17;
    aio_context_t context = context_new((int)depth);
    unsigned in_flight = 0;
    memset(slots, 0, sizeof(slots));
    for (int round = 0; round < rounds || in_flight > 0; round++) {
        unsigned fresh = 0;
        for (unsigned i = 0; i < depth && round < rounds; i++) {
            struct slot *slot = &slots[i];
            if (slot->busy || next_random(&random) % 4 == 0)
                continue;
            slot->busy = true;
            slot->size = 1 + next_random(&random) % sizeof(slot->buffer);
            slot->offset = (off_t)(next_random(&random) % (FILE_SIZE - slot->size));
            bool write = next_random(&random) % 2;
            int fd = next_random(&random) % 3 ? file : memory;
            if (write)
                fill(slot->buffer, slot->size, (uint64_t)slot->offset, SEED);
            else
                memset(slot->buffer, 0, slot->size);
            iocb_set(&slot->iocb, write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD, fd, slot->buffer,
                     slot->size, slot->offset);
            list[fresh++] = &slot->iocb;
        }
        if (fresh > 0)
            EQUAL(calls.submit(context, fresh, list), fresh);
        in_flight += fresh;
        if (in_flight == 0)
            continue;
        unsigned least = 1 + (unsigned)next_random(&random) % in_flight;
        int got = calls.getevents(context, least, DEPTH, events, NULL);
        if (got < (int)least)
            fail("%s: io_getevents() returned %d of at least %u", calls.name, got, least);
        for (int i = 0; i < got; i++) {
            struct slot *slot = (struct slot *)(uintptr_t)events[i].obj;
            CHECK(slot->busy);
            event_is(&events[i], &slot->iocb, (long long)slot->size);
            content_is(slot->buffer, slot->size, slot->offset);
            slot->busy = false;
        }
        in_flight -= (unsigned)got;
    }
    EQUAL(calls.destroy(context), 0);
}

/* Neither the vectors nor the iocb have to outlive io_submit(). */
static void vectors(void)
{
    static unsigned char buffer[FILE_SIZE];
    struct io_event event;
    aio_context_t context = context_new(4);
    for (int count = 1; count <= 40; count += 3) {
        for (int write = 0; write < 2; write++) {
            struct iovec *iov = malloc((size_t)count * sizeof(*iov));
            struct iocb iocb;
            size_t total = 0;
            CHECK(iov != NULL);
            for (int i = 0; i < count; i++) {
                iov[i] = (struct iovec){buffer + total, (size_t)(i * 37 % 500)};
                total += iov[i].iov_len;
            }
            if (write)
                fill(buffer, total, BLOCK, SEED);
            else
                memset(buffer, 0, total);
            iocb_set(&iocb, write ? IOCB_CMD_PWRITEV : IOCB_CMD_PREADV, file, iov, (size_t)count,
                     BLOCK);
            EQUAL(submit_one(context, &iocb), 1);
            memset(iov, 0xff, (size_t)count * sizeof(*iov));
            free(iov);
            struct iocb old = iocb;
            memset(&iocb, 0xff, sizeof(iocb));
            EQUAL(calls.getevents(context, 1, 1, &event, NULL), 1);
            EQUAL(event.obj, (uintptr_t)&iocb);
            EQUAL(event.data, old.aio_data);
            EQUAL(event.res, total);
            content_is(buffer, total, BLOCK);
        }
    }
    EQUAL(calls.destroy(context), 0);
}

static void large(void)
{
    static unsigned char buffer[FILE_SIZE];
    struct iocb iocb;
    aio_context_t context = context_new(1);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, sizeof(buffer), 0);
    EQUAL(once(context, &iocb), sizeof(buffer));
    content_is(buffer, sizeof(buffer), 0);
    iocb_set(&iocb, IOCB_CMD_PWRITE, file, buffer, sizeof(buffer), 0);
    EQUAL(once(context, &iocb), sizeof(buffer));
    EQUAL(calls.destroy(context), 0);
}

static void end_of_file(void)
{
    unsigned char buffer[BLOCK];
    struct iocb iocb;
    aio_context_t context = context_new(1);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, FILE_SIZE - 100);
    EQUAL(once(context, &iocb), 100);
    content_is(buffer, 100, FILE_SIZE - 100);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, FILE_SIZE);
    EQUAL(once(context, &iocb), 0);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, FILE_SIZE + 12345);
    EQUAL(once(context, &iocb), 0);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, 0, 0);
    EQUAL(once(context, &iocb), 0);
    iocb_set(&iocb, IOCB_CMD_PWRITE, file, buffer, 0, 0);
    EQUAL(once(context, &iocb), 0);
    EQUAL(calls.destroy(context), 0);
}

static void sync_operations(void)
{
    struct iocb iocb;
    aio_context_t context = context_new(1);
    for (int operation = IOCB_CMD_FSYNC; operation <= IOCB_CMD_FDSYNC; operation++) {
        iocb_set(&iocb, operation, file, NULL, 0, 0);
        EQUAL(once(context, &iocb), 0);
        iocb_set(&iocb, operation, file, NULL, 0, 1);
        EQUAL(submit_one(context, &iocb), -EINVAL);
    }
    EQUAL(calls.destroy(context), 0);
}

/* ---- errors ---- */

static void bad_iocbs(void)
{
    unsigned char buffer[512];
    struct iocb iocb, good;
    aio_context_t context = context_new(8);
    int reader = open(below(dir, "libaio"), O_RDONLY);
    int writer = open(below(dir, "libaio"), O_WRONLY);
    CHECK(reader >= 0 && writer >= 0);

    iocb_set(&iocb, IOCB_CMD_PREAD, -1, buffer, 512, 0);
    EQUAL(submit_one(context, &iocb), -EBADF);
    iocb_set(&iocb, IOCB_CMD_PREAD, 999999, buffer, 512, 0);
    EQUAL(submit_one(context, &iocb), -EBADF);
    iocb_set(&iocb, IOCB_CMD_PWRITE, reader, buffer, 512, 0);
    EQUAL(submit_one(context, &iocb), -EBADF);
    iocb_set(&iocb, IOCB_CMD_PREAD, writer, buffer, 512, 0);
    EQUAL(submit_one(context, &iocb), -EBADF);
    for (int operation = 0; operation < 300; operation++) {
        bool known = operation <= IOCB_CMD_FDSYNC || operation == IOCB_CMD_POLL ||
                     operation == IOCB_CMD_PREADV || operation == IOCB_CMD_PWRITEV;
        iocb_set(&iocb, operation, file, buffer, 512, 0);
        if (!known)
            EQUAL(submit_one(context, &iocb), -EINVAL);
    }
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, (size_t)-1, 0);
    EQUAL(submit_one(context, &iocb), -EINVAL);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, 512, -1);
    EQUAL(submit_one(context, &iocb), -EINVAL);
    iocb_set(&iocb, IOCB_CMD_PWRITE, file, buffer, 512, INT64_MAX - 10);
    EQUAL(submit_one(context, &iocb), -EINVAL);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, (void *)(uintptr_t)0xffff800000000000u, 512, 0);
    EQUAL(submit_one(context, &iocb), -EFAULT);
    iocb_set(&iocb, IOCB_CMD_PREADV, file, NULL, 1, 0);
    EQUAL(submit_one(context, &iocb), -EFAULT);
    iocb_set(&iocb, IOCB_CMD_PREADV, file, buffer, IOV_MAX + 1, 0);
    EQUAL(submit_one(context, &iocb), -EINVAL);
    struct iovec negative = {buffer, (size_t)-1};
    iocb_set(&iocb, IOCB_CMD_PREADV, file, &negative, 1, 0);
    EQUAL(submit_one(context, &iocb), -EINVAL);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, 512, 0);
    iocb.aio_reserved2 = 1;
    EQUAL(submit_one(context, &iocb), -EINVAL);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, 512, 0);
    iocb.aio_rw_flags = 0x40000000;
    EQUAL(submit_one(context, &iocb), -EOPNOTSUPP);
    EQUAL(submit_one(context, NULL), -EFAULT);

    /* Those before the bad one are accepted, and nothing else. */
    struct io_event events[4];
    struct timespec none = {0, 0};
    iocb_set(&good, IOCB_CMD_PREAD, file, buffer, 512, 0);
    iocb_set(&iocb, IOCB_CMD_PREAD, -1, buffer, 512, 0);
    int fds[] = {file, memory};
    for (int i = 0; i < 2; i++) {
        struct iocb *list[] = {&good, &iocb, &good};
        good.aio_fildes = (uint32_t)fds[i];
        EQUAL(calls.submit(context, 3, list), 1);
        EQUAL(calls.getevents(context, 1, 4, events, NULL), 1);
        event_is(&events[0], &good, 512);
        list[1] = NULL;
        EQUAL(calls.submit(context, 3, list), 1);
        EQUAL(calls.getevents(context, 1, 4, events, NULL), 1);
        EQUAL(calls.getevents(context, 0, 4, events, &none), 0);
    }
    CHECK(close(reader) == 0 && close(writer) == 0);
    EQUAL(calls.destroy(context), 0);
}

/* libaio looks into the ring first, which ends the program if there is none. */
static void bad_calls(void)
{
    unsigned char buffer[512];
    struct iocb iocb, *list[] = {&iocb};
    struct io_event events[2];
    struct timespec none = {0, 0};
    aio_context_t context = context_new(8), other = context;
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, 512, 0);
    EQUAL(calls.setup(8, &other), -EINVAL);
    other = 0;
    EQUAL(calls.setup(0, &other), -EINVAL);
    EQUAL(calls.submit(context, 0, list), 0);
    EQUAL(calls.submit(context, 0, NULL), 0);
    EQUAL(calls.submit(context, -1, list), -EINVAL);
    EQUAL(calls.submit(context, 1, NULL), -EFAULT);
    EQUAL(calls.submit(0, 1, list), -EINVAL);
    EQUAL(calls.submit((aio_context_t)(uintptr_t)buffer, 1, list), -EINVAL);
    EQUAL(calls.getevents(0, 0, 1, events, NULL), -EINVAL);
    EQUAL(calls.getevents(context, -1, 1, events, NULL), -EINVAL);
    EQUAL(calls.getevents(context, 2, 1, events, NULL), -EINVAL);
    EQUAL(calls.getevents(context, 0, 0, events, &none), 0);
    EQUAL(calls.getevents(context, 0, 2, events, NULL), 0);
    EQUAL(calls.getevents(context, 0, 2, events, &none), 0);
    EQUAL(calls.destroy(context), 0);
    EQUAL(calls.destroy(context), -EINVAL);
    EQUAL(calls.submit(context, 1, list), -EINVAL);
    if (calls.submit == system_submit)
        EQUAL(calls.getevents(context, 0, 1, events, NULL), -EINVAL);
    EQUAL(calls.destroy(0), -EINVAL);
}

/* A buffer that is not there is an error of the request. */
static void bad_buffers(void)
{
    struct iocb iocb;
    aio_context_t context = context_new(2);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, NULL, BLOCK, 0);
    EQUAL(once(context, &iocb), -EFAULT);
    iocb_set(&iocb, IOCB_CMD_PWRITE, file, NULL, BLOCK, 0);
    EQUAL(once(context, &iocb), -EFAULT);
    unsigned char buffer[BLOCK];
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, 0);
    EQUAL(once(context, &iocb), BLOCK);
    content_is(buffer, BLOCK, 0);
    EQUAL(calls.destroy(context), 0);
}

static void polls(void)
{
    struct iocb iocb;
    aio_context_t context = context_new(2);
    iocb_set(&iocb, IOCB_CMD_POLL, file, (void *)(POLLIN | POLLOUT), 0, 0);
    EQUAL(once(context, &iocb), POLLIN | POLLOUT);
    EQUAL(calls.destroy(context), 0);
}

static void cancel(void)
{
    unsigned char buffer[BLOCK];
    struct iocb iocb;
    struct io_event event;
    aio_context_t context = context_new(2);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, 0);
    EQUAL(submit_one(context, &iocb), 1);
    EQUAL(result_of(syscall(SYS_io_cancel, context, &iocb, &event)), -EINVAL);
    EQUAL(calls.getevents(context, 1, 1, &event, NULL), 1);
    event_is(&event, &iocb, BLOCK);
    EQUAL(calls.destroy(context), 0);
}

/* More than the context has room for: EAGAIN, what was accepted is done, and then there is room. */
static void full(void)
{
    enum { MANY = 1 << 14 };
    static unsigned char buffer[512];
    struct iocb *iocbs = calloc(MANY, sizeof(*iocbs)), **list = malloc(MANY * sizeof(*list));
    struct io_event *events = malloc(MANY * sizeof(*events));
    CHECK(iocbs != NULL && list != NULL && events != NULL);
    aio_context_t context = context_new(1);
    for (int i = 0; i < MANY; i++) {
        iocb_set(&iocbs[i], IOCB_CMD_PREAD, file, buffer, 512, 512 * (i % 16));
        list[i] = &iocbs[i];
    }
    for (int turn = 0; turn < 3; turn++) {
        int accepted = 0, now;
        while ((now = calls.submit(context, MANY - accepted, list + accepted)) > 0)
            accepted += now;
        EQUAL(now, -EAGAIN);
        CHECK(accepted >= 1 && accepted < MANY);
        EQUAL(calls.getevents(context, accepted, MANY, events, NULL), accepted);
        for (int i = 0; i < accepted; i++) {
            struct iocb *iocb = (struct iocb *)(uintptr_t)events[i].obj;
            event_is(&events[i], iocb, 512);
            iocb->aio_data = ~iocb->aio_data; /* a second event of it would differ */
        }
        for (int i = 0; i < accepted; i++)
            iocbs[i].aio_data = ~iocbs[i].aio_data;
    }
    EQUAL(calls.destroy(context), 0);
    free(iocbs);
    free(list);
    free(events);
}

/* ---- contexts ---- */

/* A context is the parent's alone; the parent's requests are not disturbed. */
static void forks(void)
{
    static unsigned char buffers[DEPTH][BLOCK];
    static struct iocb iocbs[DEPTH];
    struct iocb *list[DEPTH];
    struct io_event events[DEPTH];
    aio_context_t context = context_new(DEPTH);
    for (int i = 0; i < DEPTH; i++) {
        iocb_set(&iocbs[i], IOCB_CMD_PREAD, file, buffers[i], BLOCK, BLOCK * i);
        list[i] = &iocbs[i];
    }
    EQUAL(calls.submit(context, DEPTH, list), DEPTH);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        EQUAL(calls.submit(context, 1, list), -EINVAL);
        if (calls.submit == system_submit)
            EQUAL(calls.getevents(context, 0, 1, events, NULL), -EINVAL);
        EQUAL(calls.destroy(context), -EINVAL);
        random_work(16, 20);
        _exit(0);
    }
    EQUAL(calls.getevents(context, DEPTH, DEPTH, events, NULL), DEPTH);
    for (int i = 0; i < DEPTH; i++) {
        EQUAL(events[i].res, BLOCK);
        content_is(buffers[i], BLOCK, BLOCK * i);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
    EQUAL(calls.destroy(context), 0);
}

static void contexts(void)
{
    unsigned char buffer[BLOCK];
    struct iocb iocb;
    for (int i = 0; i < 30; i++) {
        aio_context_t context = context_new(1 + i);
        iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, BLOCK * i);
        EQUAL(once(context, &iocb), BLOCK);
        content_is(buffer, BLOCK, BLOCK * i);
        EQUAL(calls.destroy(context), 0);
    }
}

static int callbacks;
static void called(aio_context_t context, struct iocb *iocb, long result, long second)
{
    (void)context;
    CHECK(iocb != NULL && result == BLOCK && second == 0);
    callbacks++;
}

static void queues(void *handle)
{
    int (*queue_init)(int, aio_context_t *);
    int (*queue_release)(aio_context_t), (*queue_run)(aio_context_t);
    int (*queue_wait)(aio_context_t, struct timespec *);
    *(void **)&queue_init = dlsym(handle, "io_queue_init");
    *(void **)&queue_release = dlsym(handle, "io_queue_release");
    *(void **)&queue_run = dlsym(handle, "io_queue_run");
    *(void **)&queue_wait = dlsym(handle, "io_queue_wait");
    CHECK(queue_init && queue_release && queue_run && queue_wait);
    unsigned char buffers[2][BLOCK];
    struct iocb iocbs[2], *list[] = {&iocbs[0], &iocbs[1]};
    aio_context_t context;
    EQUAL(queue_init(0, &context), -EINVAL);
    EQUAL(queue_init(4, &context), 0);
    for (int i = 0; i < 2; i++) {
        iocb_set(&iocbs[i], IOCB_CMD_PREAD, i ? memory : file, buffers[i], BLOCK, 0);
        iocbs[i].aio_data = (uint64_t)(uintptr_t)called;
    }
    callbacks = 0;
    EQUAL(calls.submit(context, 2, list), 2);
    for (double start = seconds(); callbacks < 2 && seconds() - start < 10;) {
        EQUAL(queue_run(context), 0);
        usleep(100);
    }
    EQUAL(callbacks, 2);
    EQUAL(queue_wait(context, &(struct timespec){0, 0}), 0);
    EQUAL(queue_release(context), 0);
}

static void all_tests(void)
{
    static const unsigned depths[] = {1, 2, 7, 32, DEPTH};
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
        random_work(depths[i], 60);
    vectors();
    large();
    end_of_file();
    sync_operations();
    if (!careful) {
        bad_iocbs();
        bad_calls();
    }
    bad_buffers();
    polls();
    cancel();
    full();
    forks();
    contexts();
}

int main(int argc, char **argv)
{
    return all_ways(argc, argv, all_tests, queues);
}
