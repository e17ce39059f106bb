/*
 * What the tests of the kernel's AIO share: they make every call through syscall(), through
 * libaio's functions as they are found by name, and as libaio itself has them. On a file of the
 * directory, and mixed with descriptors that are certainly the kernel's: a memory file, pipes.
 */
#ifndef INTEGRATION_LIBAIO_TEST_H
#define INTEGRATION_LIBAIO_TEST_H

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

/* ---- helpers ---- */

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
__attribute__((unused)) static long long once(aio_context_t context, struct iocb *iocb)
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

/* ---- the program ---- */

/* Runs the tests in every way there is; `more` with libaio's handle, or where names are found. */
static int all_ways(int argc, char **argv, void (*all_tests)(void), void (*more)(void *handle))
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
    if (libaio == NULL) /* Debian 13 and newer */
        libaio = dlopen("libaio.so.1t64", RTLD_NOW | RTLD_GLOBAL);
    if (libaio != NULL) {
        CHECK(find_calls(RTLD_DEFAULT, "by name"));
        all_tests();
        more(RTLD_DEFAULT);
        CHECK(find_calls(libaio, "libaio"));
        all_tests();
        more(libaio);
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

#endif
