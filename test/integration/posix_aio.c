/*
 * POSIX AIO: requests, lists, notifications, waiting, errors; on files below the directory, and on
 * pipes and files of memory beside them, which are never the library's.
 *
 * usage: posix_aio DIRECTORY [fork]
 * `fork`: children of a process with requests in flight use AIO themselves; glibc's own fails
 * there.
 */
#include <aio.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "program.h"

enum { BLOCK = 8192, DEEP = 512, LIST = 24, PATIENCE = 20 };

static int file, memory, pipe_ends[2];
static char buffers[DEEP][BLOCK];
static struct aiocb controls[DEEP];

/* ---- one request ---- */

static struct aiocb request(int fd, void *buffer, size_t size, off_t offset)
{
    struct aiocb control;
    memset(&control, 0x5a, sizeof(control)); /* what glibc keeps inside need not be cleared */
    control.aio_fildes = fd;
    control.aio_reqprio = 0;
    control.aio_buf = buffer;
    control.aio_nbytes = size;
    control.aio_offset = offset;
    control.aio_lio_opcode = LIO_NOP;
    control.aio_sigevent.sigev_notify = SIGEV_NONE;
    return control;
}

static void block_request(int i, int fd, int opcode, uint64_t seed)
{
    controls[i] = request(fd, buffers[i], BLOCK, (off_t)i * BLOCK);
    controls[i].aio_lio_opcode = opcode;
    if (opcode == LIO_WRITE)
        fill(buffers[i], BLOCK, (uint64_t)i * BLOCK, seed);
    else
        memset(buffers[i], 0, BLOCK);
}

static int suspend_one(const struct aiocb *control, const struct timespec *timeout)
{
    return aio_suspend(&control, 1, timeout);
}

static ssize_t result_of(struct aiocb *control)
{
    while (aio_error(control) == EINPROGRESS)
        CHECK(suspend_one(control, NULL) == 0 || errno == EINTR);
    int error = aio_error(control);
    ssize_t result = aio_return(control);
    CHECK((error != 0) == (result == -1));
    errno = error;
    return result;
}

static void finish_blocks(int first, int count, uint64_t seed)
{
    for (int i = first; i < first + count; i++) {
        CHECK(result_of(&controls[i]) == BLOCK);
        CHECK(differs(buffers[i], BLOCK, (uint64_t)i * BLOCK, seed) < 0);
    }
}

static void pause_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&time, &time) < 0)
        CHECK(errno == EINTR);
}

/* Until the counter has come to `value`, for PATIENCE seconds. */
static void await(atomic_int *counter, int value)
{
    for (int i = 0; i < PATIENCE * 1000 && atomic_load(counter) < value; i++)
        pause_ms(1);
    CHECK(atomic_load(counter) == value);
}

/* ---- many requests, and how one finds out ---- */

static void test_deep(void)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        for (int i = 0; i < DEEP; i++) {
            block_request(i, file, LIO_WRITE, seed);
            CHECK(aio_write(&controls[i]) == 0);
        }
        finish_blocks(0, DEEP, seed);
        for (int i = 0; i < DEEP; i++) {
            block_request(i, file, LIO_READ, seed);
            CHECK(aio_read(&controls[i]) == 0);
        }
        finish_blocks(0, DEEP, seed);
    }
}

/* As fio does: aio_suspend() for any, then all that have ended. */
static void test_suspend_any(void)
{
    const struct aiocb *list[64];
    for (int i = 0; i < 64; i++) {
        block_request(i, file, LIO_READ, 2);
        CHECK(aio_read(&controls[i]) == 0);
        list[i] = &controls[i];
    }
    for (int left = 64; left > 0;) {
        CHECK(aio_suspend(list, 64, NULL) == 0);
        int ended = 0;
        for (int i = 0; i < 64; i++) {
            if (!list[i] || aio_error(list[i]) == EINPROGRESS)
                continue;
            CHECK(aio_return(&controls[i]) == BLOCK);
            CHECK(differs(buffers[i], BLOCK, (uint64_t)i * BLOCK, 2) < 0);
            list[i] = NULL;
            ended++;
        }
        CHECK(ended > 0);
        left -= ended;
    }
    CHECK(aio_suspend(list, 64, NULL) == 0); /* none at all, and nothing to wait for */
}

/* Nobody waits, somebody just asks. */
static void test_poll(void)
{
    for (int i = 0; i < 16; i++) {
        block_request(i, file, LIO_READ, 2);
        CHECK(aio_read(&controls[i]) == 0);
    }
    for (int i = 15; i >= 0; i--) {
        for (int n = 0; n < PATIENCE * 1000 && aio_error(&controls[i]) == EINPROGRESS; n++)
            pause_ms(1);
        CHECK(aio_error(&controls[i]) == 0);
    }
    finish_blocks(0, 16, 2);
}

static void test_sizes(void)
{
    static char large[5 * 1024 * 1024 + 3], got[sizeof(large)];
    const off_t at = (off_t)DEEP * BLOCK;
    fill(large, sizeof(large), (uint64_t)at, 4);
    struct aiocb control = request(file, large, sizeof(large), at);
    CHECK(aio_write(&control) == 0);
    CHECK(result_of(&control) == (ssize_t)sizeof(large));
    /* Beyond the end: short. */
    control = request(file, got + 1, sizeof(got) - 1, at + 1);
    control.aio_nbytes += 1;
    control.aio_buf = got;
    CHECK(aio_read(&control) == 0);
    CHECK(result_of(&control) == (ssize_t)sizeof(got) - 1);
    CHECK(memcmp(got, large + 1, sizeof(got) - 1) == 0);
    control = request(file, got, BLOCK, at + (off_t)sizeof(large));
    CHECK(aio_read(&control) == 0);
    CHECK(result_of(&control) == 0);
    control = request(file, got, 0, 0);
    CHECK(aio_read(&control) == 0);
    CHECK(result_of(&control) == 0);
    /* Unaligned, in one call of the protocol. */
    control = request(file, got, 12345, at + 777);
    CHECK(aio_read(&control) == 0);
    CHECK(result_of(&control) == 12345);
    CHECK(differs(got, 12345, (uint64_t)at + 777, 4) < 0);
    CHECK(ftruncate(file, at) == 0);
}

/* What was queued before it has ended when aio_fsync() has. */
static void test_fsync(void)
{
    const int operations[] = {O_SYNC, O_DSYNC};
    for (int round = 0; round < 4; round++) {
        struct aiocb sync = request(file, NULL, 0, 0);
        for (int i = 0; i < 64; i++) {
            block_request(i, file, LIO_WRITE, 2);
            CHECK(aio_write(&controls[i]) == 0);
        }
        CHECK(aio_fsync(operations[round % 2], &sync) == 0);
        CHECK(result_of(&sync) == 0);
        for (int i = 0; i < 64; i++)
            CHECK(aio_error(&controls[i]) == 0);
        finish_blocks(0, 64, 2);
    }
    struct aiocb sync = request(file, NULL, 0, 0);
    CHECK(aio_fsync(O_SYNC, &sync) == 0);
    CHECK(result_of(&sync) == 0);
}

/* ---- notifications ---- */

static atomic_int signals, wrong_signals, threads, list_ends;
static atomic_int seen[DEEP];

static void on_signal(int number, siginfo_t *info, void *context)
{
    int i = info->si_value.sival_int;
    (void)number;
    (void)context;
    if (info->si_code != SI_ASYNCIO || info->si_pid != getpid() || i < 0 || i >= DEEP ||
        aio_error(&controls[i]) != 0 || atomic_fetch_add(&seen[i], 1) != 0)
        atomic_fetch_add(&wrong_signals, 1);
    atomic_fetch_add(&signals, 1);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(number, &action, NULL) == 0);
}

/* Nobody asks, nobody waits: the main thread sleeps. */
static void test_signal(void)
{
    handle(SIGRTMIN + 1, on_signal, SA_RESTART);
    memset(seen, 0, sizeof(seen));
    signals = wrong_signals = 0;
    for (int i = 0; i < 100; i++) {
        block_request(i, file, LIO_READ, 2);
        controls[i].aio_sigevent.sigev_notify = SIGEV_SIGNAL;
        controls[i].aio_sigevent.sigev_signo = SIGRTMIN + 1;
        controls[i].aio_sigevent.sigev_value.sival_int = i;
        CHECK(aio_read(&controls[i]) == 0);
    }
    await(&signals, 100);
    CHECK(wrong_signals == 0);
    finish_blocks(0, 100, 2);

    /* Blocked, and fetched. */
    sigset_t set;
    siginfo_t info;
    struct timespec patience = {PATIENCE, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    block_request(0, file, LIO_WRITE, 2);
    controls[0].aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    controls[0].aio_sigevent.sigev_signo = SIGRTMIN + 2;
    controls[0].aio_sigevent.sigev_value.sival_ptr = &controls[0];
    CHECK(aio_write(&controls[0]) == 0);
    CHECK(sigtimedwait(&set, &info, &patience) == SIGRTMIN + 2);
    CHECK(info.si_code == SI_ASYNCIO && info.si_value.sival_ptr == &controls[0]);
    CHECK(aio_error(&controls[0]) == 0);
    finish_blocks(0, 1, 2);
}

static void in_thread(union sigval value)
{
    struct aiocb *control = value.sival_ptr;
    sigset_t mask, none;
    sigemptyset(&none);
    CHECK(control >= controls && control < controls + DEEP);
    CHECK(aio_error(control) == 0 && aio_return(control) == BLOCK);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    CHECK(sigismember(&mask, SIGRTMIN + 2) == 0);
    /* A thread as any other. */
    char got[512];
    CHECK(pread(file, got, sizeof(got), control->aio_offset) == (ssize_t)sizeof(got));
    CHECK(differs(got, sizeof(got), (uint64_t)control->aio_offset, 2) < 0);
    atomic_fetch_add(&threads, 1);
}

static void test_thread(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    threads = 0;
    for (int i = 0; i < 64; i++) {
        block_request(i, file, i % 3 ? LIO_READ : LIO_WRITE, 2);
        controls[i].aio_sigevent.sigev_notify = SIGEV_THREAD;
        controls[i].aio_sigevent.sigev_notify_function = in_thread;
        controls[i].aio_sigevent.sigev_notify_attributes = i % 2 ? &attributes : NULL;
        controls[i].aio_sigevent.sigev_value.sival_ptr = &controls[i];
        CHECK((i % 3 ? aio_read : aio_write)(&controls[i]) == 0);
    }
    await(&threads, 64);
    finish_blocks(0, 64, 2);

    struct aiocb sync = request(file, NULL, 0, 0);
    block_request(0, file, LIO_WRITE, 2);
    CHECK(aio_write(&controls[0]) == 0);
    sync.aio_sigevent.sigev_notify = SIGEV_THREAD;
    sync.aio_sigevent.sigev_notify_function = in_thread;
    sync.aio_sigevent.sigev_notify_attributes = NULL;
    sync.aio_sigevent.sigev_value.sival_ptr = &controls[0];
    CHECK(aio_fsync(O_DSYNC, &sync) == 0);
    await(&threads, 65);
    CHECK(result_of(&sync) == 0);
    pthread_attr_destroy(&attributes);
}

/* ---- lists ---- */

static void make_list(struct aiocb **list, int fd, int opcode)
{
    for (int i = 0; i < LIST; i++) {
        block_request(i, fd, opcode, 2);
        list[i] = &controls[i];
    }
}

static void on_list_end(union sigval value)
{
    struct aiocb **list = value.sival_ptr;
    for (int i = 0; i < LIST; i++)
        CHECK(!list[i] || list[i]->aio_lio_opcode == LIO_NOP || aio_error(list[i]) == 0);
    atomic_fetch_add(&list_ends, 1);
}

static struct sigevent list_thread(struct aiocb **list)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD,
                             .sigev_notify_function = on_list_end,
                             .sigev_value.sival_ptr = list};
    return event;
}

static void test_list(void)
{
    struct aiocb *list[LIST];
    make_list(list, file, LIO_WRITE);
    CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == 0);
    for (int i = 0; i < LIST; i++)
        CHECK(aio_error(list[i]) == 0);
    finish_blocks(0, LIST, 2);

    make_list(list, file, LIO_READ);
    list[1] = NULL;
    controls[2].aio_lio_opcode = LIO_NOP;
    CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == 0);
    finish_blocks(3, LIST - 3, 2);

    make_list(list, file, LIO_READ);
    CHECK(lio_listio(LIO_NOWAIT, list, LIST, NULL) == 0);
    finish_blocks(0, LIST, 2);

    /* Told as a whole, and some one by one. */
    make_list(list, file, LIO_READ);
    struct sigevent event = list_thread(list);
    threads = list_ends = 0;
    for (int i = 0; i < LIST; i += 2) {
        controls[i].aio_sigevent.sigev_notify = SIGEV_THREAD;
        controls[i].aio_sigevent.sigev_notify_function = in_thread;
        controls[i].aio_sigevent.sigev_notify_attributes = NULL;
        controls[i].aio_sigevent.sigev_value.sival_ptr = &controls[i];
    }
    CHECK(lio_listio(LIO_NOWAIT, list, LIST, &event) == 0);
    await(&list_ends, 1);
    await(&threads, LIST / 2);
    finish_blocks(0, LIST, 2);

    make_list(list, file, LIO_WRITE);
    memset(seen, 0, sizeof(seen));
    signals = wrong_signals = 0;
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    event.sigev_value.sival_int = LIST - 1;
    CHECK(lio_listio(LIO_NOWAIT, list, LIST, &event) == 0);
    await(&signals, 1);
    CHECK(wrong_signals == 0);
    for (int i = 0; i < LIST; i++)
        CHECK(aio_error(list[i]) == 0);
    finish_blocks(0, LIST, 2);

    /* One fails: the others do not. */
    make_list(list, file, LIO_READ);
    controls[5].aio_fildes = -1;
    controls[7].aio_offset = -1;
    errno = 0;
    CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == -1 && errno == EIO);
    CHECK(aio_error(list[5]) == EBADF && aio_error(list[7]) == EINVAL);
    finish_blocks(8, LIST - 8, 2);
    CHECK(lio_listio(12345, list, LIST, NULL) == -1 && errno == EINVAL);
}

/* ---- both worlds ---- */

static struct aiocb pipe_request(char *byte)
{
    struct aiocb control = request(pipe_ends[0], byte, 1, 0);
    control.aio_lio_opcode = LIO_READ;
    return control;
}

static void feed_pipe(void)
{
    CHECK(write(pipe_ends[1], "x", 1) == 1);
}

static void *feed_later(void *argument)
{
    (void)argument;
    pause_ms(50);
    feed_pipe();
    return NULL;
}

static pthread_t feeder(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, feed_later, NULL) == 0);
    return thread;
}

static void test_suspend_both(void)
{
    struct timespec soon = {0, 20000000}, now = {0, 0};
    for (int round = 0; round < 50; round++) {
        char byte = 0;
        struct aiocb waiting = pipe_request(&byte);
        const struct aiocb *list[LIST + 2] = {&waiting};
        CHECK(aio_read(&waiting) == 0);
        CHECK(suspend_one(&waiting, &now) == -1 && errno == EAGAIN);
        for (int i = 0; i < LIST; i++) {
            block_request(i, i % 2 ? file : memory, LIO_READ, 2);
            CHECK(aio_read(&controls[i]) == 0);
            list[i + 2] = &controls[i];
        }
        for (int left = LIST; left > 0;) {
            CHECK(aio_suspend(list, LIST + 2, NULL) == 0);
            CHECK(aio_error(&waiting) == EINPROGRESS);
            int ended = 0;
            for (int i = 2; i < LIST + 2; i++) {
                if (list[i] && aio_error(list[i]) != EINPROGRESS) {
                    list[i] = NULL;
                    ended++;
                }
            }
            CHECK(ended > 0);
            left -= ended;
        }
        finish_blocks(0, LIST, 2);
        if (round < 2)
            CHECK(aio_suspend(list, LIST + 2, &soon) == -1 && errno == EAGAIN);
        /* Ours go on, and then theirs ends. */
        block_request(0, file, LIO_READ, 2);
        CHECK(aio_read(&controls[0]) == 0);
        feed_pipe();
        const struct aiocb *two[] = {&waiting, &controls[0]};
        CHECK(aio_suspend(two, 2, NULL) == 0);
        CHECK(aio_error(two[0]) != EINPROGRESS || aio_error(two[1]) != EINPROGRESS);
        CHECK(result_of(&waiting) == 1 && byte == 'x');
        finish_blocks(0, 1, 2);
    }
}

static void test_list_both(void)
{
    struct aiocb *list[LIST], waiting;
    char byte = 0;
    for (int opcode = LIO_WRITE;; opcode = LIO_READ) {
        for (int i = 0; i < LIST; i++) {
            block_request(i, i % 2 ? file : memory, opcode, 2);
            list[i] = &controls[i];
        }
        CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == 0);
        for (int i = 0; i < LIST; i++)
            CHECK(aio_error(list[i]) == 0);
        finish_blocks(0, LIST, 2);
        if (opcode == LIO_READ)
            break;
    }

    /* The list ends with its last part. */
    make_list(list, file, LIO_READ);
    waiting = pipe_request(&byte);
    list[3] = &waiting;
    pthread_t thread = feeder();
    CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == 0);
    CHECK(byte == 'x' && aio_return(&waiting) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    finish_blocks(4, LIST - 4, 2);

    for (int kind = 0; kind < 2; kind++) {
        make_list(list, file, LIO_READ);
        byte = 0;
        waiting = pipe_request(&byte);
        list[3] = &waiting;
        struct sigevent event = list_thread(list);
        if (kind == 1)
            event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
        list_ends = signals = 0;
        memset(seen, 0, sizeof(seen));
        CHECK(lio_listio(LIO_NOWAIT, list, LIST, &event) == 0);
        finish_blocks(4, LIST - 4, 2);
        pause_ms(20);
        CHECK(list_ends == 0 && signals == 0);
        feed_pipe();
        await(kind == 0 ? &list_ends : &signals, 1);
        CHECK(result_of(&waiting) == 1);
    }
}

/* ---- aio_cancel() ---- */

static void test_cancel(void)
{
    int other = dup(memory);
    CHECK(other >= 0);
    CHECK(aio_cancel(file, NULL) == AIO_ALLDONE);
    for (int i = 0; i < 64; i++) {
        block_request(i, file, LIO_WRITE, 2);
        CHECK(aio_write(&controls[i]) == 0);
    }
    struct aiocb sync = request(file, NULL, 0, 0);
    CHECK(aio_fsync(O_SYNC, &sync) == 0);
    int one = aio_cancel(file, &controls[63]);
    CHECK(one == AIO_CANCELED || one == AIO_NOTCANCELED || one == AIO_ALLDONE);
    CHECK(aio_cancel(other, &controls[62]) == -1 && errno == EINVAL);
    int all = aio_cancel(file, NULL);
    CHECK(all == AIO_CANCELED || all == AIO_NOTCANCELED || all == AIO_ALLDONE);
    for (int i = 0; i < 64; i++) {
        ssize_t result = result_of(&controls[i]);
        CHECK(result == BLOCK || (result == -1 && errno == ECANCELED));
        CHECK(result == BLOCK || all != AIO_ALLDONE || one == AIO_CANCELED);
    }
    ssize_t result = result_of(&sync);
    CHECK(result == 0 || (result == -1 && errno == ECANCELED));
    CHECK(aio_cancel(file, NULL) == AIO_ALLDONE);
    CHECK(aio_cancel(file, &controls[0]) == AIO_ALLDONE);
    CHECK(close(other) == 0);
    CHECK(aio_cancel(other, NULL) == -1 && errno == EBADF);

    /* glibc's: the second waits behind the first. */
    char bytes[2];
    struct aiocb first = pipe_request(&bytes[0]), second = pipe_request(&bytes[1]);
    CHECK(aio_read(&first) == 0 && aio_read(&second) == 0);
    CHECK(aio_cancel(pipe_ends[0], &second) == AIO_CANCELED);
    CHECK(aio_error(&second) == ECANCELED);
    feed_pipe();
    CHECK(result_of(&first) == 1);
    /* What was cancelled is written now. */
    struct aiocb *list[DEEP];
    for (int i = 0; i < 64; i++) {
        block_request(i, file, LIO_WRITE, 2);
        list[i] = &controls[i];
    }
    CHECK(lio_listio(LIO_WAIT, list, 64, NULL) == 0);
}

/* ---- errors ---- */

/* An error may be told at once, or with the request. */
static int error_of(int (*submit)(struct aiocb *), struct aiocb *control)
{
    if (submit(control) < 0)
        return errno;
    CHECK(result_of(control) == -1);
    return errno;
}

static void test_errors(const char *path)
{
    int reader = open(path, O_RDONLY), writer = open(path, O_WRONLY);
    CHECK(reader >= 0 && writer >= 0);
    struct aiocb control = request(reader, buffers[0], BLOCK, 0);
    CHECK(error_of(aio_write, &control) == EBADF);
    CHECK(aio_fsync(O_SYNC, &control) == 0 ? result_of(&control) == 0 : errno == EBADF);
    control = request(writer, buffers[0], BLOCK, 0);
    CHECK(error_of(aio_read, &control) == EBADF);
    control = request(file, buffers[0], BLOCK, -1);
    CHECK(error_of(aio_read, &control) == EINVAL);
    CHECK(error_of(aio_write, &control) == EINVAL);
    control = request(file, buffers[0], (size_t)-1, 0);
    CHECK(error_of(aio_read, &control) == EFAULT);
    control = request(file, buffers[0], BLOCK, 0);
    control.aio_reqprio = -1;
    CHECK(error_of(aio_read, &control) == EINVAL);
    control = request(file, buffers[0], BLOCK, 0);
    CHECK(aio_fsync(4711, &control) == -1 && errno == EINVAL);
    CHECK(close(reader) == 0 && close(writer) == 0);
    control = request(reader, buffers[0], BLOCK, 0);
    CHECK(error_of(aio_read, &control) == EBADF);
    CHECK(aio_fsync(O_SYNC, &control) == -1 && errno == EBADF);
}

/* Closed with requests in flight: each is done or refused, and what was done is there. */
static void test_close(const char *path)
{
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    for (int i = 0; i < 32; i++) {
        block_request(i, fd, LIO_WRITE, 2);
        CHECK(aio_write(&controls[i]) == 0);
    }
    CHECK(close(fd) == 0);
    for (int i = 0; i < 32; i++) {
        char got[BLOCK];
        ssize_t result = result_of(&controls[i]);
        CHECK(result == BLOCK || (result == -1 && errno == EBADF));
        CHECK(pread(file, got, BLOCK, (off_t)i * BLOCK) == BLOCK);
        CHECK(differs(got, BLOCK, (uint64_t)i * BLOCK, 2) < 0);
    }
}

/* ---- signals while waiting ---- */

static sigjmp_buf out;
static volatile sig_atomic_t jumping;
static atomic_int ticks;

static void on_tick(int number)
{
    (void)number;
    atomic_fetch_add(&ticks, 1);
    if (jumping) {
        jumping = 0;
        siglongjmp(out, 1);
    }
}

static void timer(long microseconds)
{
    struct itimerval interval = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
}

static void handle_ticks(void)
{
    struct sigaction action = {.sa_handler = on_tick};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
}

static void test_jumps(void)
{
    static volatile int round;
    handle_ticks();
    timer(4000);
    for (round = 0; round < 300; round++) {
        for (int i = 0; i < 64; i++) {
            block_request(i, file, LIO_READ, 2);
            CHECK(aio_read(&controls[i]) == 0);
        }
        if (sigsetjmp(out, 1) == 0) {
            jumping = 1;
            for (int i = 0; i < 64; i++)
                CHECK(suspend_one(&controls[i], NULL) == 0 || errno == EINTR);
        }
        jumping = 0;
        finish_blocks(0, 64, 2);
    }
    timer(0);
}

static void test_interrupted(void)
{
    handle_ticks();
    char byte = 0;
    struct aiocb waiting = pipe_request(&byte);
    const struct aiocb *both[] = {&waiting, &controls[0]};
    CHECK(aio_read(&waiting) == 0);
    timer(4000);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 32; i++) {
            block_request(i, file, LIO_READ, 2);
            CHECK(aio_read(&controls[i]) == 0);
        }
        if (round % 2)
            CHECK(aio_suspend(both, 2, NULL) == 0 || errno == EINTR);
        else
            CHECK(suspend_one(&controls[31], NULL) == 0 || errno == EINTR);
        finish_blocks(0, 32, 2);
    }
    /* Interrupted, when nothing else happens. */
    errno = 0;
    CHECK(suspend_one(&waiting, NULL) == -1 && errno == EINTR);
    timer(0);
    CHECK(atomic_load(&ticks) > 0);
    feed_pipe();
    CHECK(result_of(&waiting) == 1);
}

/* ---- threads ---- */

enum { CROWD = 4, DEPTH = 16, ROUNDS = 30 };

static void *crowd_member(void *argument)
{
    uint64_t seed = 100 + (uint64_t)(uintptr_t)argument, random = seed;
    off_t base = (off_t)(DEEP + (int)(uintptr_t)argument * DEPTH) * BLOCK;
    static __thread char mine[DEPTH][BLOCK];
    struct aiocb own[DEPTH];
    const struct aiocb *list[DEPTH];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < DEPTH; i++) {
            off_t at = base + (off_t)i * BLOCK;
            bool writing = round % 2 == 0;
            if (writing)
                fill(mine[i], BLOCK, (uint64_t)at, seed + (uint64_t)round);
            else
                memset(mine[i], 0, BLOCK);
            own[i] = request(file, mine[i], BLOCK, at);
            list[i] = &own[i];
            CHECK((writing ? aio_write : aio_read)(&own[i]) == 0);
        }
        while (next_random(&random) % 4 != 0)
            CHECK(aio_suspend(list, DEPTH, NULL) == 0);
        for (int i = 0; i < DEPTH; i++) {
            CHECK(result_of(&own[i]) == BLOCK);
            CHECK(differs(mine[i], BLOCK, (uint64_t)own[i].aio_offset,
                          seed + (uint64_t)(round & ~1)) < 0);
        }
        struct aiocb sync = request(file, NULL, 0, 0);
        if (round % 10 == 0) {
            CHECK(aio_fsync(O_DSYNC, &sync) == 0);
            CHECK(result_of(&sync) == 0);
        }
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t crowd[CROWD];
    for (uintptr_t i = 0; i < CROWD; i++)
        CHECK(pthread_create(&crowd[i], NULL, crowd_member, (void *)i) == 0);
    for (int i = 0; i < CROWD; i++)
        CHECK(pthread_join(crowd[i], NULL) == 0);
}

/* ---- fork ---- */

/* A child has none of the parent's requests, and can make its own. */
static void test_fork(void)
{
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 64; i++) {
            block_request(i, file, LIO_READ, 2);
            CHECK(aio_read(&controls[i]) == 0);
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(PATIENCE);
            for (int i = 64; i < 96; i++) {
                block_request(i, file, LIO_READ, 2);
                CHECK(aio_read(&controls[i]) == 0);
            }
            finish_blocks(64, 32, 2);
            struct aiocb sync = request(file, NULL, 0, 0);
            CHECK(aio_fsync(O_SYNC, &sync) == 0);
            CHECK(result_of(&sync) == 0);
            threads = 0;
            controls[0] = request(file, buffers[0], BLOCK, 0);
            controls[0].aio_sigevent.sigev_notify = SIGEV_THREAD;
            controls[0].aio_sigevent.sigev_notify_function = in_thread;
            controls[0].aio_sigevent.sigev_notify_attributes = NULL;
            controls[0].aio_sigevent.sigev_value.sival_ptr = &controls[0];
            CHECK(aio_read(&controls[0]) == 0);
            await(&threads, 1);
            _exit(0);
        }
        finish_blocks(0, 64, 2);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void fill_memory(void)
{
    for (int i = 0; i < LIST; i++) {
        fill(buffers[i], BLOCK, (uint64_t)i * BLOCK, 2);
        CHECK(pwrite(memory, buffers[i], BLOCK, (off_t)i * BLOCK) == BLOCK);
    }
}

int main(int argc, char **argv)
{
    const char *path = below(directory(argc, argv), "posix_aio");
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memory = memfd_create("posix_aio", MFD_CLOEXEC);
    CHECK(file >= 0 && memory >= 0 && pipe(pipe_ends) == 0);
    fill_memory();
    test_deep();
    if (argc > 2 && strcmp(argv[2], "more") == 0) {
        test_jumps();
        test_fork();
        test_jumps();
        return 0;
    }
    test_suspend_any();
    test_poll();
    test_sizes();
    test_interrupted(); /* before anything was told of its end, and once more after */
    test_fsync();
    test_signal();
    test_thread();
    test_list();
    test_suspend_both();
    test_list_both();
    test_cancel();
    test_errors(path);
    test_close(path);
    test_interrupted();
    test_threads();
    CHECK(close(file) == 0);
    return 0;
}
