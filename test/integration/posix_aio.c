/*
 * POSIX AIO: requests, notifications, lists, cancelling, errors.
 */
#include "posix_aio_test.h"

/* ---- many requests, and how one finds out ---- */

static void test_deep(void)
{
    for (uint64_t seed = 1; seed <= SEED; seed++) {
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
        block_request(i, file, LIO_READ, SEED);
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
            CHECK(differs(buffers[i], BLOCK, (uint64_t)i * BLOCK, SEED) < 0);
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
        block_request(i, file, LIO_READ, SEED);
        CHECK(aio_read(&controls[i]) == 0);
    }
    for (int i = 15; i >= 0; i--) {
        for (int n = 0; n < PATIENCE * 1000 && aio_error(&controls[i]) == EINPROGRESS; n++)
            pause_ms(1);
        CHECK(aio_error(&controls[i]) == 0);
    }
    finish_blocks(0, 16, SEED);
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
            block_request(i, file, LIO_WRITE, SEED);
            CHECK(aio_write(&controls[i]) == 0);
        }
        CHECK(aio_fsync(operations[round % 2], &sync) == 0);
        CHECK(result_of(&sync) == 0);
        for (int i = 0; i < 64; i++)
            CHECK(aio_error(&controls[i]) == 0);
        finish_blocks(0, 64, SEED);
    }
    struct aiocb sync = request(file, NULL, 0, 0);
    CHECK(aio_fsync(O_SYNC, &sync) == 0);
    CHECK(result_of(&sync) == 0);
}

/* ---- notifications ---- */

/* Nobody asks, nobody waits: the main thread sleeps. */
static void test_signal(void)
{
    memset(seen, 0, sizeof(seen));
    signals = wrong_signals = 0;
    for (int i = 0; i < 100; i++) {
        block_request(i, file, LIO_READ, SEED);
        controls[i].aio_sigevent.sigev_notify = SIGEV_SIGNAL;
        controls[i].aio_sigevent.sigev_signo = SIGRTMIN + 1;
        controls[i].aio_sigevent.sigev_value.sival_int = i;
        CHECK(aio_read(&controls[i]) == 0);
    }
    await(&signals, 100);
    CHECK(wrong_signals == 0);
    finish_blocks(0, 100, SEED);

    /* Blocked, and fetched. */
    sigset_t set;
    siginfo_t info;
    struct timespec patience = {PATIENCE, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    block_request(0, file, LIO_WRITE, SEED);
    controls[0].aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    controls[0].aio_sigevent.sigev_signo = SIGRTMIN + 2;
    controls[0].aio_sigevent.sigev_value.sival_ptr = &controls[0];
    CHECK(aio_write(&controls[0]) == 0);
    CHECK(sigtimedwait(&set, &info, &patience) == SIGRTMIN + 2);
    CHECK(info.si_code == SI_ASYNCIO && info.si_value.sival_ptr == &controls[0]);
    CHECK(aio_error(&controls[0]) == 0);
    finish_blocks(0, 1, SEED);
}

static void test_thread(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    threads = 0;
    for (int i = 0; i < 64; i++) {
        block_request(i, file, i % 3 ? LIO_READ : LIO_WRITE, SEED);
        controls[i].aio_sigevent.sigev_notify = SIGEV_THREAD;
        controls[i].aio_sigevent.sigev_notify_function = in_thread;
        controls[i].aio_sigevent.sigev_notify_attributes = i % 2 ? &attributes : NULL;
        controls[i].aio_sigevent.sigev_value.sival_ptr = &controls[i];
        CHECK((i % 3 ? aio_read : aio_write)(&controls[i]) == 0);
    }
    await(&threads, 64);
    finish_blocks(0, 64, SEED);

    struct aiocb sync = request(file, NULL, 0, 0);
    block_request(0, file, LIO_WRITE, SEED);
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

static void test_list(void)
{
    struct aiocb *list[LIST];
    make_list(list, file, LIO_WRITE);
    CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == 0);
    for (int i = 0; i < LIST; i++)
        CHECK(aio_error(list[i]) == 0);
    finish_blocks(0, LIST, SEED);

    make_list(list, file, LIO_READ);
    list[1] = NULL;
    controls[2].aio_lio_opcode = LIO_NOP;
    CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == 0);
    finish_blocks(3, LIST - 3, SEED);

    make_list(list, file, LIO_READ);
    CHECK(lio_listio(LIO_NOWAIT, list, LIST, NULL) == 0);
    finish_blocks(0, LIST, SEED);

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
    finish_blocks(0, LIST, SEED);

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
    finish_blocks(0, LIST, SEED);

    /* One fails: the others do not. */
    make_list(list, file, LIO_READ);
    controls[5].aio_fildes = -1;
    controls[7].aio_offset = -1;
    errno = 0;
    CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == -1 && errno == EIO);
    CHECK(aio_error(list[5]) == EBADF && aio_error(list[7]) == EINVAL);
    finish_blocks(8, LIST - 8, SEED);
    CHECK(lio_listio(12345, list, LIST, NULL) == -1 && errno == EINVAL);
}

/* ---- aio_cancel() ---- */

static void test_cancel(void)
{
    int other = dup(memory);
    CHECK(other >= 0);
    CHECK(aio_cancel(file, NULL) == AIO_ALLDONE);
    for (int i = 0; i < 64; i++) {
        block_request(i, file, LIO_WRITE, SEED);
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
        block_request(i, file, LIO_WRITE, SEED);
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
        block_request(i, fd, LIO_WRITE, SEED);
        CHECK(aio_write(&controls[i]) == 0);
    }
    CHECK(close(fd) == 0);
    for (int i = 0; i < 32; i++) {
        char got[BLOCK];
        ssize_t result = result_of(&controls[i]);
        CHECK(result == BLOCK || (result == -1 && errno == EBADF));
        CHECK(pread(file, got, BLOCK, (off_t)i * BLOCK) == BLOCK);
        CHECK(differs(got, BLOCK, (uint64_t)i * BLOCK, SEED) < 0);
    }
}

int main(int argc, char **argv)
{
    const char *path = open_files(argc, argv);
    test_deep();
    test_suspend_any();
    test_poll();
    test_sizes();
    test_fsync();
    test_signal();
    test_thread();
    test_list();
    test_cancel();
    test_errors(path);
    test_close(path);
    CHECK(close(file) == 0);
    return 0;
}
