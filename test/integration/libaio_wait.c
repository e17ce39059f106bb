/* The kernel's AIO: waiting, threads, and ends while requests are in flight. */
#include "libaio_test.h"

/* ---- waiting ---- */

/* Waits for five, of which four come, until the time is over; then for those that came later. */
static void wait_for_too_many(aio_context_t context)
{
    struct io_event events[8];
    struct timespec short_time = {0, 50000000};
    double start = seconds();
    int got = calls.getevents(context, 5, 8, events, &short_time);
    CHECK(got >= 0 && seconds() - start >= 0.05);
    while (got < 4)
        got += calls.getevents(context, 1, 8, events, NULL);
    EQUAL(got, 4);
}

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
    wait_for_too_many(context);
    for (int i = 0; i < 4; i++)
        content_is(buffers[i], BLOCK, BLOCK * i);

    /* Again, with a poll in flight that does not end. */
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    iocb_set(&waiting, IOCB_CMD_POLL, pipes[0], (void *)POLLIN, 0, 0);
    list[4] = &waiting;
    EQUAL(calls.submit(context, 5, list), 5);
    wait_for_too_many(context);
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
    /* The kernel adds the parts of a time, and takes a negative sum for one without end. */
    struct timespec negative[] = {{0, -1}, {-1, 0}, {1, -1500000000}};
    for (int i = 0; i < 3; i++) {
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        EQUAL(calls.getevents(context, 1, 4, events, &negative[i]), -EINTR);
        EQUAL(atomic_load(&handled), 2 + i);
    }
    atomic_store(&handled, 1);
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
static atomic_int entering; /* endless() */

static void *endless(void *argument)
{
    struct io_event event;
    int *got = argument;
    atomic_fetch_add(&entering, 1);
    *got = calls.getevents(shared, 1, 1, &event, NULL);
    atomic_fetch_add(&woken, 1);
    return NULL;
}

/* Until all of them are on the last step into their call, and a while longer. */
static void all_wait(int count)
{
    while (atomic_load(&entering) < count)
        usleep(1000);
    usleep(20000);
}

static void woken_soon(int count)
{
    double start = seconds();
    while (atomic_load(&woken) < count) {
        if (seconds() - start > 50)
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
    atomic_store(&entering, 0);
    CHECK(pipe(pipes) == 0);
    iocb_set(&poll_iocb, IOCB_CMD_POLL, pipes[0], (void *)POLLIN, 0, 0);
    iocb_set(&iocb, IOCB_CMD_PREAD, file, buffer, BLOCK, 0);
    if (kernel_first)
        EQUAL(submit_one(shared, &poll_iocb), 1);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&waiting[i], NULL, endless, &got[i]) == 0);
    all_wait(3);
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

/* ---- ends ---- */

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
    atomic_store(&entering, 0);
    CHECK(pthread_create(&waiting, NULL, endless, &got) == 0);
    all_wait(1);
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

/* Moved to the kernel by another process: appended in order, whether they are reaped or not. */
static void moved_by_another(void)
{
    char path[PATH_MAX], got[5] = "";
    struct iocb iocbs[4], *list[4];
    struct io_event events[4];
    struct mapper mapper;
    snprintf(path, sizeof(path), "%s/moved", dir);
    for (int reaped = 0; reaped < 2; reaped++) {
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0666);
        CHECK(fd >= 0);
        mapper_start(&mapper, path);
        aio_context_t context = context_new(4);
        for (int i = 0; i < 4; i++) {
            iocb_set(&iocbs[i], IOCB_CMD_PWRITE, fd, &"ABCD"[i], 1, 0);
            list[i] = &iocbs[i];
        }
        mapper_map(&mapper);
        EQUAL(calls.submit(context, 4, list), 4);
        if (reaped)
            EQUAL(calls.getevents(context, 4, 4, events, NULL), 4);
        EQUAL(calls.destroy(context), 0);
        if (pread(fd, got, 4, 0) != 4 || strcmp(got, "ABCD") != 0)
            fail("A, B, C and D were appended, and the file holds %s", got);
        mapper_end(&mapper);
        CHECK(close(fd) == 0 && unlink(path) == 0);
    }
}

/* Contexts that come, have many requests in flight, and go. */
static void *begin_and_end(void *argument)
{
    static unsigned char buffers[DEPTH][BLOCK];
    static struct iocb iocbs[DEPTH];
    struct iocb *list[DEPTH];
    struct io_event events[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        iocb_set(&iocbs[i], IOCB_CMD_PREAD, file, buffers[i], 512, BLOCK * i);
        list[i] = &iocbs[i];
    }
    while (!atomic_load((atomic_bool *)argument)) {
        aio_context_t context = context_new(DEPTH);
        EQUAL(calls.submit(context, DEPTH, list), DEPTH);
        EQUAL(calls.getevents(context, DEPTH, DEPTH, events, NULL), DEPTH);
        EQUAL(calls.destroy(context), 0);
    }
    return NULL;
}

/* A child is begun whatever another thread does with its contexts. */
static void forks_while_contexts_end(void)
{
    atomic_bool over = false;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, begin_and_end, &over) == 0);
    for (int i = 0; i < (careful ? 10 : 1000); i++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(0);
        CHECK(waitpid(child, &status, 0) == child);
        EQUAL(status, 0);
    }
    atomic_store(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void all_tests(void)
{
    timeouts();
    if (!careful)
        interrupts();
    threads(false);
    threads(true);
    sleepers(false);
    sleepers(true);
    destroy_in_flight();
    close_in_flight();
    announced();
    demoted_in_flight();
    moved_by_another();
    forks_while_contexts_end();
}

static void no_more(void *handle)
{
    (void)handle;
}

int main(int argc, char **argv)
{
    return all_ways(argc, argv, all_tests, no_more);
}
