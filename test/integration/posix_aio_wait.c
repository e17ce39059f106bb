/*
 * POSIX AIO: waiting, for requests of both worlds, interrupted by signals, and in threads.
 *
 * usage: posix_aio_wait DIRECTORY [more | number SERVER | cancelled SERVER]
 * With SERVER, the process of the server, it is stopped for a while. `more`: handlers jump out of
 * waiting, and children of a process with requests in flight use AIO themselves; glibc's own fails
 * there.
 */
#include <setjmp.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "posix_aio_test.h"

/* ---- both worlds ---- */

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
            block_request(i, i % 2 ? file : memory, LIO_READ, SEED);
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
        finish_blocks(0, LIST, SEED);
        if (round < 2)
            CHECK(aio_suspend(list, LIST + 2, &soon) == -1 && errno == EAGAIN);
        /* Ours go on, and then theirs ends. */
        block_request(0, file, LIO_READ, SEED);
        CHECK(aio_read(&controls[0]) == 0);
        feed_pipe();
        const struct aiocb *two[] = {&waiting, &controls[0]};
        CHECK(aio_suspend(two, 2, NULL) == 0);
        CHECK(aio_error(two[0]) != EINPROGRESS || aio_error(two[1]) != EINPROGRESS);
        CHECK(result_of(&waiting) == 1 && byte == 'x');
        finish_blocks(0, 1, SEED);
    }
}

static void test_list_both(void)
{
    struct aiocb *list[LIST], waiting;
    char byte = 0;
    for (int opcode = LIO_WRITE;; opcode = LIO_READ) {
        for (int i = 0; i < LIST; i++) {
            block_request(i, i % 2 ? file : memory, opcode, SEED);
            list[i] = &controls[i];
        }
        CHECK(lio_listio(LIO_WAIT, list, LIST, NULL) == 0);
        for (int i = 0; i < LIST; i++)
            CHECK(aio_error(list[i]) == 0);
        finish_blocks(0, LIST, SEED);
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
    finish_blocks(4, LIST - 4, SEED);

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
        finish_blocks(4, LIST - 4, SEED);
        pause_ms(20);
        CHECK(list_ends == 0 && signals == 0);
        feed_pipe();
        await(kind == 0 ? &list_ends : &signals, 1);
        CHECK(result_of(&waiting) == 1);
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
            block_request(i, file, LIO_READ, SEED);
            CHECK(aio_read(&controls[i]) == 0);
        }
        if (sigsetjmp(out, 1) == 0) {
            jumping = 1;
            for (int i = 0; i < 64; i++)
                CHECK(suspend_one(&controls[i], NULL) == 0 || errno == EINTR);
        }
        jumping = 0;
        finish_blocks(0, 64, SEED);
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
            block_request(i, file, LIO_READ, SEED);
            CHECK(aio_read(&controls[i]) == 0);
        }
        if (round % 2)
            CHECK(aio_suspend(both, 2, NULL) == 0 || errno == EINTR);
        else
            CHECK(suspend_one(&controls[31], NULL) == 0 || errno == EINTR);
        finish_blocks(0, 32, SEED);
    }
    /* Interrupted, when nothing else happens. */
    errno = 0;
    CHECK(suspend_one(&waiting, NULL) == -1 && errno == EINTR);
    timer(0);
    CHECK(atomic_load(&ticks) > 0);
    feed_pipe();
    CHECK(result_of(&waiting) == 1);
}

/* A time that is over before it begins is no error. */
static void test_past(void)
{
    const struct timespec past = {0, -1};
    block_request(0, file, LIO_READ, SEED);
    CHECK(aio_read(&controls[0]) == 0);
    CHECK(suspend_one(&controls[0], &past) == 0 || errno == EAGAIN);
    finish_blocks(0, 1, SEED);
}

/*
 * A write waits for a thread, as the server does nothing, while its file goes to the kernel and
 * another one gets the number of its descriptor. That one is left alone.
 */
static void test_number(const char *directory, pid_t server)
{
    enum { LARGE = 2 << 20, BUSY = 4 };
    static char bytes[BUSY + 1][LARGE];
    struct aiocb busy[BUSY], late;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/number", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    memset(bytes[BUSY], 'x', LARGE);
    stop_process(server);
    for (int i = 0; i < BUSY; i++) {
        busy[i] = request(file, bytes[i], LARGE, 0);
        CHECK(aio_read(&busy[i]) == 0);
    }
    late = request(fd, bytes[BUSY], LARGE, 0);
    CHECK(aio_write(&late) == 0);
    CHECK(mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    CHECK(close(fd) == 0);
    int other = memfd_create("number", MFD_CLOEXEC);
    CHECK(other == fd && pwrite(other, "content", 7, 0) == 7);
    CHECK(kill(server, SIGCONT) == 0);
    CHECK(result_of(&late) == -1 && errno == ESTALE);
    char got[8] = "";
    CHECK(lseek(other, 0, SEEK_END) == 7);
    CHECK(pread(other, got, 7, 0) == 7 && strcmp(got, "content") == 0);
    for (int i = 0; i < BUSY; i++)
        CHECK(result_of(&busy[i]) == LARGE);
    CHECK(close(other) == 0 && unlink(path) == 0);
}

static struct aiocb long_read;

static void *suspends(void *unused)
{
    const struct aiocb *list[] = {&long_read};
    while (aio_error(&long_read) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    return unused;
}

/* aio_suspend() is a cancellation point: the server, which is stopped, would let it wait for long.
 * One that is told of its end is received by another thread. */
static void test_cancelled(pid_t server)
{
    static const int ways[] = {SIGEV_NONE, SIGEV_SIGNAL};
    static char bytes[2][BLOCK];
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        struct timespec limit;
        void *result = NULL;
        long_read = request(file, bytes[i], BLOCK, 0);
        long_read.aio_sigevent.sigev_notify = ways[i];
        long_read.aio_sigevent.sigev_signo = SIGURG; /* which is ignored */
        stop_process(server);
        CHECK(aio_read(&long_read) == 0);
        CHECK(pthread_create(&thread, NULL, suspends, NULL) == 0);
        pause_ms(200);
        CHECK(pthread_cancel(thread) == 0 && clock_gettime(CLOCK_REALTIME, &limit) == 0);
        limit.tv_sec += 20;
        int joined = pthread_timedjoin_np(thread, &result, &limit);
        CHECK(kill(server, SIGCONT) == 0);
        CHECK(joined == 0 && result == PTHREAD_CANCELED);
        CHECK(result_of(&long_read) == BLOCK);
    }
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
            block_request(i, file, LIO_READ, SEED);
            CHECK(aio_read(&controls[i]) == 0);
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(PATIENCE);
            for (int i = 64; i < 96; i++) {
                block_request(i, file, LIO_READ, SEED);
                CHECK(aio_read(&controls[i]) == 0);
            }
            finish_blocks(64, 32, SEED);
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
        finish_blocks(0, 64, SEED);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv)
{
    open_files(argc, argv);
    if (argc > 2 && strcmp(argv[2], "more") == 0) {
        test_jumps();
        test_fork();
        test_jumps();
        return 0;
    }
    if (argc > 3 && strcmp(argv[2], "number") == 0) {
        test_number(argv[1], atoi(argv[3]));
        return 0;
    }
    if (argc > 3 && strcmp(argv[2], "cancelled") == 0) {
        test_cancelled(atoi(argv[3]));
        return 0;
    }
    test_past();        /* before anything was told of its end */
    test_interrupted(); /* before anything was told of its end, and once more after */
    test_suspend_both();
    test_list_both();
    test_interrupted();
    test_threads();
    CHECK(close(file) == 0);
    return 0;
}
