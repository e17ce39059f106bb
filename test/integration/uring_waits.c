/*
 * Ways to wait for io_uring: in calls, in memory, by eventfd and epoll, in another thread, with
 * signals; rings at depth, rings that end, rings after fork.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "uring.h"

/* ---- ways to wait ---- */

static void read_some(unsigned count, unsigned first)
{
    for (unsigned i = 0; i < count; i++)
        PREPARE(i, read, file, memset(buffer(i), 0, BLOCK), BLOCK, (uint64_t)(first + i) * BLOCK);
}

static void take_some(unsigned count, unsigned first)
{
    struct io_uring_cqe *cqes[128];
    unsigned got = io_uring_peek_batch_cqe(&ring, cqes, count);
    CHECK(got == count);
    for (unsigned i = 0; i < count; i++) {
        CHECK(cqes[i]->res == BLOCK);
        same(buffer((unsigned)cqes[i]->user_data), BLOCK, (first + cqes[i]->user_data) * BLOCK,
             SEED);
    }
    io_uring_cq_advance(&ring, count);
}

static void case_submit_and_wait(void)
{
    ring_begin(128);
    static const unsigned depths[] = {1, 2, 7, 32, 128};
    for (unsigned d = 0; d < 5; d++) {
        for (unsigned round = 0; round < 10; round++) {
            read_some(depths[d], round);
            CHECK(io_uring_submit_and_wait(&ring, depths[d]) == (int)depths[d]);
            take_some(depths[d], round);
        }
    }
    struct io_uring_cqe *cqe;
    struct __kernel_timespec second = {.tv_sec = 10};
    read_some(9, 0);
    CHECK(io_uring_submit_and_wait_timeout(&ring, &cqe, 9, &second, NULL) == 9);
    take_some(9, 0);
    ring_end();
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void case_timeout(void)
{
    ring_begin(8);
    struct io_uring_cqe *cqe;
    struct __kernel_timespec limit = {.tv_nsec = 30000000};
    double before = seconds();
    CHECK(io_uring_wait_cqe_timeout(&ring, &cqe, &limit) == -ETIME);
    CHECK(seconds() - before > 0.029);
    /* More is waited for than comes. */
    read_some(2, 0);
    submit(2);
    before = seconds();
    int result = io_uring_wait_cqes(&ring, &cqe, 3, &limit, NULL);
    CHECK(result == -ETIME || result == 0); /* versions differ when some are there */
    CHECK(seconds() - before > 0.029);
    CHECK(io_uring_wait_cqe_nr(&ring, &cqe, 2) == 0);
    take_some(2, 0);
    read_some(1, 0);
    submit(1);
    limit.tv_sec = 10;
    CHECK(io_uring_wait_cqe_timeout(&ring, &cqe, &limit) == 0);
    take_some(1, 0);
    ring_end();
}

/* A negative time is over, whatever is in flight: a read from a pipe that nobody writes to, or from
 * a file whose server, TEST_SERVER, does nothing meanwhile. */
static void case_past(void)
{
    const struct timespec negative[] = {{0, -1}, {-1, 0}, {1, -1500000000}};
    const char *server = getenv("TEST_SERVER");
    struct io_uring_cqe *cqe;
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    ring_begin(8);
    if (server) {
        CHECK(fsync(file) == 0); /* what was not sent yet is read without the server */
        stop_process(atoi(server));
        read_some(1, 0);
    } else {
        PREPARE(77, read, pipes[0], buffer(0), 1, 0);
    }
    submit(1);
    alarm(600);
    for (unsigned i = 0; i < 3; i++) {
        struct __kernel_timespec limit = {negative[i].tv_sec, negative[i].tv_nsec};
        CHECK(io_uring_wait_cqes(&ring, &cqe, 1, &limit, NULL) == -ETIME);
        CHECK(io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &limit, NULL) == -ETIME);
    }
    alarm(0);
    if (server) {
        CHECK(kill(atoi(server), SIGCONT) == 0);
        CHECK(io_uring_wait_cqe_nr(&ring, &cqe, 1) == 0);
        take_some(1, 0);
    } else {
        CHECK(write(pipes[1], "x", 1) == 1);
        expect(77, 1);
    }
    close(pipes[0]);
    close(pipes[1]);
    ring_end();
}

/* Looking at the queue in memory only, without a call. */
static void case_memory(void)
{
    ring_begin(32);
    for (unsigned round = 0; round < 5; round++) {
        read_some(20, round);
        submit(20);
        double until = seconds() + 20;
        while (io_uring_cq_ready(&ring) < 20)
            CHECK(seconds() < until);
        take_some(20, round);
    }
    ring_end();
}

/* The user is changed in all threads at a time, those of libraries among them. */
static void case_user(void)
{
    if (geteuid() != 0)
        return;
    case_memory();
    CHECK(seteuid(65534) == 0 && seteuid(0) == 0);
}

static void case_eventfd(void)
{
    ring_begin(32);
    int event = eventfd(0, EFD_CLOEXEC);
    CHECK(event >= 0 && io_uring_register_eventfd(&ring, event) == 0);
    for (unsigned round = 0; round < 20; round++) {
        read_some(8, round);
        submit(8);
        while (io_uring_cq_ready(&ring) < 8) {
            struct pollfd poll_event = {event, POLLIN, 0};
            uint64_t value;
            while (poll(&poll_event, 1, 20000) != 1)
                CHECK(errno == EINTR); /* the end of a ring interrupts its threads */
            CHECK(read(event, &value, 8) == 8);
        }
        take_some(8, round);
    }
    close(event);
    ring_end();
}

static void case_epoll(void)
{
    ring_begin(32);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ring.ring_fd, &event) == 0);
    for (unsigned round = 0; round < 20; round++) {
        read_some(8, round);
        submit(8);
        unsigned left = 8;
        while (left > 0) {
            struct io_uring_cqe *cqe;
            while (epoll_wait(epoll, &event, 1, 20000) != 1)
                CHECK(errno == EINTR); /* the end of a ring interrupts its threads */
            unsigned head, count = 0;
            io_uring_for_each_cqe(&ring, head, cqe)
            {
                CHECK(cqe->res == BLOCK);
                count++;
            }
            io_uring_cq_advance(&ring, count);
            left -= count;
        }
    }
    close(epoll);
    ring_end();
}

/* One thread submits, another one waits, as MariaDB does. */
static atomic_uint reaped;

static void *reaper(void *argument)
{
    (void)argument;
    for (;;) {
        uint64_t data;
        int result = reap(&data);
        if (data == UINT64_MAX)
            return NULL;
        CHECK(result == BLOCK);
        atomic_fetch_add(&reaped, 1);
    }
}

static void case_two_threads(void)
{
    pthread_t thread;
    ring_begin(128);
    atomic_store(&reaped, 0);
    CHECK(pthread_create(&thread, NULL, reaper, NULL) == 0);
    for (unsigned i = 0; i < 2000; i++) {
        PREPARE(i, read, file, buffer(i % 128), BLOCK, (uint64_t)(i % BLOCKS) * BLOCK);
        submit(1);
        if (i % 100 == 99)
            usleep(1000); /* the other thread waits with nothing in flight */
        while (i + 1 - atomic_load(&reaped) > 100)
            sched_yield();
    }
    PREPARE(UINT64_MAX, nop);
    while (atomic_load(&reaped) < 2000)
        usleep(100);
    submit(1);
    CHECK(pthread_join(thread, NULL) == 0);
    ring_end();
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

static void case_signals(void)
{
    struct sigaction action = {.sa_handler = on_alarm}, before;
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    ring_begin(32);
    CHECK(sigaction(SIGALRM, &action, &before) == 0);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned round = 0; round < 300; round++) {
        for (unsigned i = 0; i < 16; i++)
            PREPARE(i, read, file, buffer(i), BLOCK, (uint64_t)(round % 200 + i) * BLOCK);
        submit(16);
        for (unsigned i = 0; i < 16; i++)
            CHECK(reap(NULL) == BLOCK);
    }
    /* A wait for what never comes ends with a signal. */
    struct io_uring_cqe *cqe;
    CHECK(io_uring_wait_cqe(&ring, &cqe) == -EINTR);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    CHECK(alarms > 0);
    ring_end();
}

/* ---- at depth ---- */

static void case_random(void)
{
    static uint8_t version[BLOCKS];
    uint64_t state = 99;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/random", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && ftruncate(fd, FILE_SIZE) == 0);
    memset(version, 0, sizeof(version));
    ring_begin(128);
    for (unsigned depth = 1; depth <= 128; depth *= 2) {
        bool busy[BLOCKS] = {false};
        unsigned place[128] = {0}, in_flight = 0, done = 0, started = 0, total = depth * 4 + 100;
        bool writes[128] = {false}, used[128] = {false};
        while (done < total) {
            unsigned ready = 0;
            for (unsigned slot = 0; slot < depth && started < total; slot++) {
                unsigned block = (unsigned)(next_random(&state) % BLOCKS);
                if (used[slot] || busy[block])
                    continue;
                busy[block] = used[slot] = true;
                place[slot] = block;
                writes[slot] = version[block] == 0 || next_random(&state) % 2;
                if (writes[slot]) {
                    fill(buffer(slot), BLOCK, (uint64_t)block * BLOCK, ++version[block]);
                    PREPARE(slot, write, fd, buffer(slot), BLOCK, (uint64_t)block * BLOCK);
                } else {
                    PREPARE(slot, read, fd, buffer(slot), BLOCK, (uint64_t)block * BLOCK);
                }
                started++;
                ready++;
            }
            submit((int)ready);
            in_flight += ready;
            CHECK(in_flight > 0);
            uint64_t slot;
            CHECK(reap(&slot) == BLOCK && slot < depth && used[slot]);
            if (!writes[slot])
                same(buffer((unsigned)slot), BLOCK, (uint64_t)place[slot] * BLOCK,
                     version[place[slot]]);
            busy[place[slot]] = used[slot] = false;
            in_flight--;
            done++;
        }
    }
    ring_end();
    for (unsigned block = 0; block < BLOCKS; block++) {
        if (version[block] == 0)
            continue;
        CHECK(pread(fd, buffer(0), BLOCK, (off_t)block * BLOCK) == BLOCK);
        same(buffer(0), BLOCK, (uint64_t)block * BLOCK, version[block]);
    }
    close(fd);
    CHECK(unlink(path) == 0);
}

/* A ring that ends with requests in flight. They may still use their memory, but for nothing else.
 */
static void case_exit_in_flight(void)
{
    for (unsigned round = 0; round < 20; round++) {
        ring_begin(64);
        for (unsigned i = 0; i < 64; i++)
            PREPARE(i, read, file, memset(buffer(i), 0xee, BLOCK), BLOCK, (uint64_t)i * BLOCK);
        submit(64);
        io_uring_queue_exit(&ring);
        for (size_t i = 0; i < 64 * BLOCK; i++) {
            uint8_t expected;
            fill(&expected, 1, i, SEED);
            CHECK((uint8_t)buffers[i] == 0xee || (uint8_t)buffers[i] == expected);
        }
    }
}

/*
 * A child that uses the ring it inherited, and one of its own; then the parent goes on. What the
 * inline functions count is in memory that both share, as a program must have it.
 */
static void case_fork(void)
{
    struct io_uring *shared =
        mmap(NULL, sizeof(ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    ring_begin(16);
    read_some(4, 0);
    CHECK(io_uring_submit_and_wait(&ring, 4) == 4);
    take_some(4, 0);
    pid_t child = fork();
    if (child == 0) {
        read_some(8, 8);
        if (io_uring_submit_and_wait(&ring, 8) != 8)
            fail("in the child: the ring of the parent");
        take_some(8, 8);
        *shared = ring;
        ring_begin(16);
        read_some(16, 16);
        if (io_uring_submit_and_wait(&ring, 16) != 16)
            fail("in the child: a ring of its own");
        take_some(16, 16);
        ring_end();
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    ring = *shared;
    read_some(4, 4);
    CHECK(io_uring_submit_and_wait(&ring, 4) == 4);
    take_some(4, 4);
    ring_end();
    munmap(shared, sizeof(ring));
}

/* ---- a ring of several processes, as PostgreSQL 18 has them ---- */

struct shared {
    struct io_uring ring;
    atomic_uint step; /* who is next */
    char blocks[8][BLOCK];
};

static void shared_read(struct shared *shared, unsigned first)
{
    for (unsigned i = 0; i < 8; i++) {
        struct io_uring_sqe *next = io_uring_get_sqe(&shared->ring);
        CHECK(next != NULL);
        io_uring_prep_read(next, file, memset(shared->blocks[i], 0, BLOCK), BLOCK,
                           (uint64_t)(first + i) * BLOCK);
        io_uring_sqe_set_data64(next, i);
    }
    CHECK(io_uring_submit(&shared->ring) == 8);
}

static void shared_take(struct shared *shared, unsigned first)
{
    for (unsigned i = 0; i < 8; i++) {
        struct io_uring_cqe *cqe;
        int result;
        do
            result = io_uring_wait_cqes(&shared->ring, &cqe, 1, NULL, NULL);
        while (result == -EINTR);
        if (result != 0 || cqe->res != BLOCK)
            fail("a shared ring: io_uring_wait_cqes() = %d, result %d", result, cqe ? cqe->res : 0);
        uint64_t block = cqe->user_data;
        io_uring_cqe_seen(&shared->ring, cqe);
        same(shared->blocks[block], BLOCK, (first + block) * BLOCK, SEED);
    }
}

static void wait_for_step(struct shared *shared, unsigned step)
{
    while (atomic_load(&shared->step) != step)
        usleep(100);
}

static void children_end(unsigned count)
{
    int status;
    while (count-- > 0)
        CHECK(wait(&status) > 0 && status == 0);
}

/*
 * Made before the processes that use it. One submits and makes no further call, another one takes
 * the completions. */
static void case_processes(void)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && io_uring_queue_init(16, &shared->ring, 0) == 0);
    if (fork() == 0) {
        for (unsigned round = 0; round < 20; round++) {
            wait_for_step(shared, 2 * round);
            shared_read(shared, round * 8);
            atomic_store(&shared->step, 2 * round + 1);
        }
        wait_for_step(shared, 40);
        _exit(0);
    }
    if (fork() == 0) {
        for (unsigned round = 0; round < 20; round++) {
            wait_for_step(shared, 2 * round + 1);
            shared_take(shared, round * 8);
            atomic_store(&shared->step, 2 * round + 2);
        }
        _exit(0);
    }
    children_end(2);
    /* Those that inherit it later count from its state then: they receive what they wait for. */
    for (unsigned child = 0; child < 3; child++) {
        if (fork() == 0) {
            for (unsigned round = 0; round < 20; round++) {
                shared_read(shared, child * 8);
                shared_take(shared, child * 8);
            }
            _exit(0);
        }
        children_end(1);
    }
    io_uring_queue_exit(&shared->ring);
    munmap(shared, sizeof(*shared));
}

/* One that submits nothing, and is interrupted, says so: 0 means that there is a completion, be it
 * one that was there before (the kernel says 0 then, too). */
static void case_interrupted(void)
{
    enum { READS = 16, ROUNDS = 100 };
    struct sigaction action = {.sa_handler = on_alarm}, before;
    const struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    ring_begin(READS);
    CHECK(sigaction(SIGALRM, &action, &before) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        read_some(READS, round);
        for (int sent = 0; sent < READS;) {
            int result = io_uring_submit(&ring);
            CHECK(result >= 0 || result == -EINTR);
            sent += result > 0 ? result : 0;
        }
        while (io_uring_cq_ready(&ring) < READS) {
            unsigned ready = io_uring_cq_ready(&ring);
            int result = io_uring_submit_and_wait(&ring, ready + 1);
            CHECK(result == -EINTR || (result == 0 && io_uring_cq_ready(&ring) > 0));
        }
        take_some(READS, round);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && sigaction(SIGALRM, &before, NULL) == 0);
    ring_end();
}

static const struct ring_case cases[] = {
    CASE(submit_and_wait), CASE(timeout), CASE(memory), CASE(eventfd),        CASE(epoll),
    CASE(two_threads),     CASE(signals), CASE(random), CASE(exit_in_flight), CASE(fork),
    CASE(processes),       CASE(user),    CASE(past),   CASE(interrupted),
};

int main(int argc, char **argv)
{
    return run_cases(cases, sizeof(cases) / sizeof(*cases), argc, argv);
}
