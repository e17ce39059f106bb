/*
 * The kernel's AIO: through libaio's functions as they are found by name, as libaio itself has
 * them, and through syscall(). On a file of the directory, and mixed with descriptors that are
 * certainly the kernel's: a memory file, pipes.
 */
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "program.h"

enum { BLOCK = 8192, BLOCKS = 256, FILE_SIZE = BLOCK * BLOCKS, DEPTH = 64, SEED = 3 };

/* Calls as libaio has them: they return -errno. */
struct calls {
    const char *name;
    int (*setup)(int, aio_context_t *);
    int (*destroy)(aio_context_t);
    int (*submit)(aio_context_t, long, struct iocb **);
    int (*getevents)(aio_context_t, long, long, struct io_event *, struct timespec *);
};

static struct calls calls;
static int file, memory; /* same content: fill(SEED) but for what a test wrote and undid */
static const char *dir;
static bool
    careful; /* a second argument: no pointers or calls that valgrind stumbles over itself */

static int result_of(long result)
{
    return result < 0 ? -errno : (int)result;
}
static int system_setup(int count, aio_context_t *context)
{
    return result_of(syscall(SYS_io_setup, count, context));
}
static int system_destroy(aio_context_t context)
{
    return result_of(syscall(SYS_io_destroy, context));
}
static int system_submit(aio_context_t context, long count, struct iocb **list)
{
    return result_of(syscall(SYS_io_submit, context, count, list));
}
static int system_getevents(aio_context_t context, long least, long most, struct io_event *events,
                            struct timespec *timeout)
{
    return result_of(syscall(SYS_io_getevents, context, least, most, events, timeout));
}

static bool find_calls(void *handle, const char *name)
{
    calls.name = name;
    *(void **)&calls.setup = dlsym(handle, "io_setup");
    *(void **)&calls.destroy = dlsym(handle, "io_destroy");
    *(void **)&calls.submit = dlsym(handle, "io_submit");
    *(void **)&calls.getevents = dlsym(handle, "io_getevents");
    return calls.setup && calls.destroy && calls.submit && calls.getevents;
}

/* ---- helpers -----------------------------------------------------------------------------------
 */

#define EQUAL(got, expected)                                                                     \
    do {                                                                                         \
        long long got_ = (long long)(got), expected_ = (long long)(expected);                    \
        if (got_ != expected_)                                                                   \
            fail("%s:%d (%s): %s is %lld, not %lld", __FILE__, __LINE__, calls.name, #got, got_, \
                 expected_);                                                                     \
    } while (0)

static aio_context_t context_new(int count)
{
    aio_context_t context = 0;
    EQUAL(calls.setup(count, &context), 0);
    return context;
}

static void iocb_set(struct iocb *iocb, int operation, int fd, const void *buffer, size_t size,
                     off_t offset)
{
    memset(iocb, 0, sizeof(*iocb));
    iocb->aio_lio_opcode = (uint16_t)operation;
    iocb->aio_fildes = (uint32_t)fd;
    iocb->aio_buf = (uint64_t)(uintptr_t)buffer;
    iocb->aio_nbytes = size;
    iocb->aio_offset = offset;
    iocb->aio_data = (uint64_t)(uintptr_t)iocb ^ 0x5a5a;
}

static int submit_one(aio_context_t context, struct iocb *iocb)
{
    return calls.submit(context, 1, &iocb);
}

static void event_is(const struct io_event *event, const struct iocb *iocb, long long result)
{
    EQUAL(event->obj, (uintptr_t)iocb);
    EQUAL(event->data, (uintptr_t)iocb ^ 0x5a5a);
    EQUAL(event->res, result);
    EQUAL(event->res2, 0);
}

/* One request, to its end. */
static long long once(aio_context_t context, struct iocb *iocb)
{
    struct io_event event;
    EQUAL(submit_one(context, iocb), 1);
    EQUAL(calls.getevents(context, 1, 1, &event, NULL), 1);
    event_is(&event, iocb, event.res);
    return event.res;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void content_is(const void *buffer, size_t size, off_t offset)
{
    ssize_t at = differs(buffer, size, (uint64_t)offset, SEED);
    if (at >= 0)
        fail("%s: wrong byte at %lld", calls.name, (long long)offset + at);
}

/* ---- reading and writing -----------------------------------------------------------------------
 */

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

/* ---- errors ------------------------------------------------------------------------------------
 */

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

/* ---- waiting -----------------------------------------------------------------------------------
 */

static void timeouts(void)
{
    unsigned char buffers[4][BLOCK];
    struct iocb iocbs[4], waiting, *list[5];
    struct io_event events[8];
    aio_context_t context = context_new(8);
    struct timespec short_time = {0, 50000000};
    double start = seconds();
    EQUAL(calls.getevents(context, 1, 8, events, &short_time), 0);
    CHECK(seconds() - start >= 0.05);

    for (int i = 0; i < 4; i++) {
        iocb_set(&iocbs[i], IOCB_CMD_PREAD, i % 2 ? memory : file, buffers[i], BLOCK, BLOCK * i);
        list[i] = &iocbs[i];
    }
    EQUAL(calls.submit(context, 4, list), 4);
    start = seconds();
    EQUAL(calls.getevents(context, 5, 8, events, &short_time), 4);
    CHECK(seconds() - start >= 0.05);
    for (int i = 0; i < 4; i++)
        content_is(buffers[i], BLOCK, BLOCK * i);

    /* Again, with a poll in flight that does not end. */
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    iocb_set(&waiting, IOCB_CMD_POLL, pipes[0], (void *)POLLIN, 0, 0);
    list[4] = &waiting;
    EQUAL(calls.submit(context, 5, list), 5);
    start = seconds();
    EQUAL(calls.getevents(context, 5, 8, events, &short_time), 4);
    CHECK(seconds() - start >= 0.05);
    EQUAL(calls.getevents(context, 1, 8, events, &short_time), 0);
    CHECK(write(pipes[1], "x", 1) == 1);
    EQUAL(calls.getevents(context, 1, 8, events, NULL), 1);
    EQUAL(events[0].obj, (uintptr_t)&waiting);
    CHECK(events[0].res & POLLIN);
    /* With a poll in flight one by one. */
    char byte;
    CHECK(read(pipes[0], &byte, 1) == 1);
    EQUAL(calls.submit(context, 5, list), 5);
    for (int i = 0; i < 4; i++) {
        EQUAL(calls.getevents(context, 1, 1, events, NULL), 1);
        CHECK(events[0].obj != (uintptr_t)&waiting);
    }
    EQUAL(calls.destroy(context), 0); /* the poll is still in flight */
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static atomic_int handled;
static void handler(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void interrupts(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    struct itimerval soon = {{0, 0}, {0, 30000}};
    struct io_event events[4];
    struct iocb waiting;
    aio_context_t context = context_new(4);
    int pipes[2];
    CHECK(sigaction(SIGALRM, &action, &before) == 0 && pipe(pipes) == 0);
    atomic_store(&handled, 0);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    EQUAL(calls.getevents(context, 1, 4, events, NULL), -EINTR);
    EQUAL(atomic_load(&handled), 1);
    iocb_set(&waiting, IOCB_CMD_POLL, pipes[0], (void *)POLLIN, 0, 0);
    EQUAL(submit_one(context, &waiting), 1);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    EQUAL(calls.getevents(context, 1, 4, events, NULL), -EINTR);
    EQUAL(atomic_load(&handled), 2);

    /* With a mask that lets a signal through that is pending and blocked otherwise. */
    struct {
        const sigset_t *mask;
        size_t size;
    } set;
    sigset_t blocked, old, now;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &blocked, &old) == 0);
    CHECK(raise(SIGALRM) == 0);
    EQUAL(atomic_load(&handled), 2);
    set.mask = &old;
    set.size = 8;
    EQUAL(result_of(syscall(SYS_io_pgetevents, context, 1, 4, events, NULL, &set)), -EINTR);
    EQUAL(atomic_load(&handled), 3);
    CHECK(sigprocmask(SIG_SETMASK, &old, &now) == 0 && sigismember(&now, SIGALRM) == 1);
    set.mask = NULL;
    struct timespec none = {0, 0};
    EQUAL(result_of(syscall(SYS_io_pgetevents, context, 1, 4, events, &none, &set)), 0);
    unsigned char buffer[BLOCK];
    struct iocb read;
    iocb_set(&read, IOCB_CMD_PREAD, file, buffer, BLOCK, 0);
    EQUAL(submit_one(context, &read), 1);
    set.mask = &old;
    EQUAL(result_of(syscall(SYS_io_pgetevents, context, 1, 4, events, NULL, &set)), 1);
    event_is(&events[0], &read, BLOCK);
    CHECK(sigaction(SIGALRM, &before, NULL) == 0);
    EQUAL(calls.destroy(context), 0);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

/* Many submit, many reap, and nothing is lost or seen twice. */
enum { SUBMITTERS = 4, REAPERS = 3, EACH = 400 };
static aio_context_t shared;
static atomic_int reaped, room;
static bool mixed;

struct shared_request {
    struct iocb iocb;
    off_t offset;
    atomic_int seen;
    unsigned char buffer[BLOCK];
};
static struct shared_request *requests;

static void *submitter(void *argument)
{
    int me = (int)(intptr_t)argument;
    uint64_t random = (uint64_t)me + 77;
    for (int i = 0; i < EACH; i++) {
        struct shared_request *request = &requests[me * EACH + i];
        while (atomic_fetch_sub(&room, 1) <= 0) {
            atomic_fetch_add(&room, 1);
            usleep(100);
        }
        request->offset = (off_t)(next_random(&random) % BLOCKS * BLOCK);
        iocb_set(&request->iocb, IOCB_CMD_PREAD, mixed && i % 3 == 0 ? memory : file,
                 request->buffer, BLOCK, request->offset);
        EQUAL(submit_one(shared, &request->iocb), 1);
        if (i % 50 == 0)
            usleep(2000); /* so that everybody sleeps now and then */
    }
    return NULL;
}

static void *reaper(void *argument)
{
    struct io_event events[8];
    (void)argument;
    while (atomic_load(&reaped) < SUBMITTERS * EACH) {
        struct timespec limit = {0, 20000000};
        int got = calls.getevents(shared, 1, 8, events, &limit);
        if (got < 0)
            fail("%s: io_getevents() in a thread: %s", calls.name, strerror(-got));
        for (int i = 0; i < got; i++) {
            struct shared_request *request = (struct shared_request *)(uintptr_t)events[i].obj;
            event_is(&events[i], &request->iocb, BLOCK);
            content_is(request->buffer, BLOCK, request->offset);
            EQUAL(atomic_fetch_add(&request->seen, 1), 0);
            atomic_fetch_add(&reaped, 1);
            atomic_fetch_add(&room, 1);
        }
    }
    return NULL;
}

static void threads(bool both)
{
    pthread_t submitting[SUBMITTERS], reaping[REAPERS];
    shared = context_new(DEPTH);
    requests = calloc(SUBMITTERS * EACH, sizeof(*requests));
    CHECK(requests != NULL);
    mixed = both;
    atomic_store(&reaped, 0);
    atomic_store(&room, DEPTH);
    for (intptr_t i = 0; i < REAPERS; i++)
        CHECK(pthread_create(&reaping[i], NULL, reaper, NULL) == 0);
    usleep(10000);
    for (intptr_t i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_create(&submitting[i], NULL, submitter, (void *)i) == 0);
    for (int i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_join(submitting[i], NULL) == 0);
    for (int i = 0; i < REAPERS; i++)
        CHECK(pthread_join(reaping[i], NULL) == 0);
    EQUAL(atomic_load(&reaped), SUBMITTERS * EACH);
    EQUAL(calls.destroy(shared), 0);
    free(requests);
}

/* A thread that waits without end is woken by whatever is submitted later. */
static atomic_int woken;
static void *endless(void *argument)
{
    struct io_event event;
    int *got = argument;
    *got = calls.getevents(shared, 1, 1, &event, NULL);
    atomic_fetch_add(&woken, 1);
    return NULL;
}

static void woken_soon(int count)
{
    double start = seconds();
    while (atomic_load(&woken) < count) {
        if (seconds() - start > 5)
            fail("%s: a waiting thread was not woken", calls.name);
        usleep(1000);
    }
}

static void sleepers(bool kernel_first)
{
    pthread_t waiting[3];
    int got[3] = {0}, pipes[2];
    unsigned char buffer[BLOCK];
    struct iocb iocb, poll_iocb;
    shared = context_new(8);
    atomic_store(&woken, 0);
    CHECK(pipe(pipes) == 0);
    iocb_set(&poll_iocb, IOCB_CMD_POLL, pipes[0], (void *)POLLIN, 0, 0);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, 0);
    if (kernel_first)
        EQUAL(submit_one(shared, &poll_iocb), 1);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&waiting[i], NULL, endless, &got[i]) == 0);
    usleep(20000);
    EQUAL(submit_one(shared, &iocb), 1);
    woken_soon(1);
    if (!kernel_first)
        EQUAL(submit_one(shared, &poll_iocb), 1);
    usleep(20000);
    EQUAL(submit_one(shared, &iocb), 1);
    woken_soon(2);
    CHECK(write(pipes[1], "x", 1) == 1);
    woken_soon(3);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(waiting[i], NULL) == 0);
        EQUAL(got[i], 1);
    }
    EQUAL(calls.destroy(shared), 0);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

/* ---- ends --------------------------------------------------------------------------------------
 */

static void destroy_in_flight(void)
{
    static unsigned char buffers[DEPTH][BLOCK], copies[DEPTH][BLOCK];
    static struct iocb iocbs[DEPTH];
    struct iocb *list[DEPTH];
    for (int turn = 0; turn < 8; turn++) {
        aio_context_t context = context_new(DEPTH);
        memset(buffers, 0, sizeof(buffers));
        for (int i = 0; i < DEPTH; i++) {
            iocb_set(&iocbs[i], IOCB_CMD_PREAD, i % 5 ? file : memory, buffers[i], BLOCK,
                     BLOCK * (i + turn));
            list[i] = &iocbs[i];
        }
        EQUAL(calls.submit(context, DEPTH, list), DEPTH);
        EQUAL(calls.destroy(context), 0);
        memcpy(copies, buffers, sizeof(copies));
        for (int i = 0; i < DEPTH; i++)
            content_is(copies[i], BLOCK, BLOCK * (i + turn));
    }
    /* A thread that waits in a context that is ended returns. */
    pthread_t waiting;
    int got = 0;
    shared = context_new(DEPTH);
    CHECK(pthread_create(&waiting, NULL, endless, &got) == 0);
    usleep(20000);
    EQUAL(calls.destroy(shared), 0);
    CHECK(pthread_join(waiting, NULL) == 0);
    EQUAL(got, -EINVAL);
}

static void close_in_flight(void)
{
    static unsigned char buffers[DEPTH][BLOCK];
    static struct iocb iocbs[DEPTH];
    struct iocb *list[DEPTH];
    struct io_event events[DEPTH];
    aio_context_t context = context_new(DEPTH);
    for (int turn = 0; turn < 10; turn++) {
        int fd = open(below(dir, "libaio"), O_RDWR);
        CHECK(fd >= 0);
        for (int i = 0; i < DEPTH; i++) {
            bool write = i % 2;
            if (write)
                fill(buffers[i], BLOCK, (uint64_t)BLOCK * (uint64_t)i, SEED);
            iocb_set(&iocbs[i], write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD, fd, buffers[i], BLOCK,
                     BLOCK * i);
            list[i] = &iocbs[i];
        }
        EQUAL(calls.submit(context, DEPTH, list), DEPTH);
        CHECK(close(fd) == 0);
        EQUAL(calls.getevents(context, DEPTH, DEPTH, events, NULL), DEPTH);
        for (int i = 0; i < DEPTH; i++) {
            EQUAL(events[i].res, BLOCK);
            content_is(buffers[i], BLOCK, BLOCK * i);
        }
    }
    EQUAL(calls.destroy(context), 0);
}

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

/* Announced by an eventfd; reaped from the ring in memory as some programs do, without a call. */
static void announced(void)
{
    struct ring {
        unsigned id, nr, head, tail, magic, compatible, incompatible, header;
        struct io_event events[];
    };
    unsigned char buffer[BLOCK];
    struct iocb iocb;
    char path[PATH_MAX];
    uint64_t value = 0;
    aio_context_t context = context_new(4);
    int wake = eventfd(0, 0);
    snprintf(path, sizeof(path), "%s/announced", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(wake >= 0 && fd >= 0);
    for (int i = 0; i < 4; i++) {
        fill(buffer, BLOCK, (uint64_t)BLOCK * (uint64_t)(i / 2), SEED);
        iocb_set(&iocb, i % 2 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, fd, buffer, BLOCK,
                 BLOCK * (i / 2));
        iocb.aio_flags = IOCB_FLAG_RESFD;
        iocb.aio_resfd = (uint32_t)wake;
        EQUAL(submit_one(context, &iocb), 1);
        CHECK(read(wake, &value, sizeof(value)) == sizeof(value) && value == 1);
        struct ring *ring = (struct ring *)context;
        CHECK(ring->head != ring->tail);
        event_is(&ring->events[ring->head], &iocb, BLOCK);
        ring->head = (ring->head + 1) % ring->nr;
        content_is(buffer, BLOCK, BLOCK * (i / 2));
    }
    CHECK(close(fd) == 0 && close(wake) == 0 && unlink(path) == 0);
    EQUAL(calls.destroy(context), 0);
}

/* A file that goes to the kernel (mmap does it) with requests in flight. */
static void demoted_in_flight(void)
{
    static unsigned char buffers[DEPTH][BLOCK];
    static struct iocb iocbs[DEPTH];
    struct iocb *list[DEPTH];
    struct io_event events[DEPTH];
    char path[PATH_MAX];
    aio_context_t context = context_new(DEPTH);
    snprintf(path, sizeof(path), "%s/demoted", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && ftruncate(fd, BLOCK * DEPTH) == 0);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < DEPTH; i++) {
            fill(buffers[i], BLOCK, (uint64_t)BLOCK * (uint64_t)i, SEED);
            iocb_set(&iocbs[i], IOCB_CMD_PWRITE, fd, buffers[i], BLOCK, BLOCK * i);
            list[i] = &iocbs[i];
        }
        EQUAL(calls.submit(context, DEPTH, list), DEPTH);
        unsigned char *map = mmap(NULL, BLOCK * DEPTH, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(map != MAP_FAILED);
        EQUAL(calls.getevents(context, DEPTH, DEPTH, events, NULL), DEPTH);
        for (int i = 0; i < DEPTH; i++)
            EQUAL(events[i].res, BLOCK);
        content_is(map, BLOCK * DEPTH, 0);
        CHECK(munmap(map, BLOCK * DEPTH) == 0);
    }
    CHECK(close(fd) == 0 && unlink(path) == 0);
    EQUAL(calls.destroy(context), 0);
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
        interrupts();
    }
    bad_buffers();
    polls();
    cancel();
    full();
    timeouts();
    threads(false);
    threads(true);
    sleepers(false);
    sleepers(true);
    destroy_in_flight();
    close_in_flight();
    forks();
    contexts();
    announced();
    demoted_in_flight();
}

int main(int argc, char **argv)
{
    static unsigned char content[FILE_SIZE];
    dir = directory(argc, argv);
    careful = argc > 2;
    fill(content, sizeof(content), 0, SEED);
    CHECK((file = open(below(dir, "libaio"), O_RDWR | O_CREAT | O_TRUNC, 0666)) >= 0);
    CHECK((memory = memfd_create("libaio", 0)) >= 0);
    CHECK(pwrite(file, content, sizeof(content), 0) == FILE_SIZE);
    CHECK(pwrite(memory, content, sizeof(content), 0) == FILE_SIZE);

    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 1, &context) < 0 && errno == ENOSYS) {
        fprintf(stderr, "this kernel has no AIO\n");
        return 77;
    }
    CHECK(syscall(SYS_io_destroy, context) == 0);

    calls =
        (struct calls){"syscall", system_setup, system_destroy, system_submit, system_getevents};
    all_tests();
    void *libaio = dlopen("libaio.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (libaio != NULL) {
        CHECK(find_calls(RTLD_DEFAULT, "by name"));
        all_tests();
        queues(RTLD_DEFAULT);
        CHECK(find_calls(libaio, "libaio"));
        all_tests();
        queues(libaio);
    } else {
        fprintf(stderr, "libaio is not installed: its functions are not tested\n");
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(pread(file, content, BLOCK, (off_t)BLOCK * i) == BLOCK);
        content_is(content, BLOCK, (off_t)BLOCK * i);
    }
    CHECK(close(file) == 0 && unlink(below(dir, "libaio")) == 0);
    return 0;
}
