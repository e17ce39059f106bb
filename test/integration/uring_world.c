/*
 * A ring beside other ways to a file: what is opened, looked at, kept back or refused by requests
 * of io_uring that few programs make must not be older than what was written before, nor lose it.
 */
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "uring.h"

enum { BEFORE_CHECK_MS = 1200 }; /* what is written behind was sent by then */

static void sleep_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static char path[PATH_MAX];

/* A file with NEW!old!, of which NEW! was written last. */
static int file_begin(int flags)
{
    snprintf(path, sizeof(path), "%s/world", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);
    CHECK(fd >= 0 && write(fd, "old!old!", 8) == 8 && fsync(fd) == 0);
    CHECK(pwrite(fd, "NEW!", 4, 0) == 4);
    return fd;
}

static void holds(int fd, const char *expected)
{
    char got[9] = "";
    ssize_t length = pread(fd, got, 8, 0);
    if (strcmp(got, expected) != 0)
        fail("%zd bytes were read: %s, expected %s", length, got, expected);
}

static void file_end(int fd)
{
    CHECK(close(fd) == 0 && unlink(path) == 0);
}

/* The same at once, and when what was written behind has been sent. */
static void keeps(int fd, const char *expected)
{
    holds(fd, expected);
    sleep_ms(BEFORE_CHECK_MS);
    CHECK(fsync(fd) == 0);
    holds(fd, expected);
}

/* ---- files that a ring opens ---- */

static void opened_by_slot(unsigned flags, bool linked)
{
    char got[9] = "";
    ring_begin(16);
    CHECK(io_uring_register_files_sparse(&ring, 4) == 0);
    int fd = file_begin(0);
    PREPARE(1, openat_direct, AT_FDCWD, path, O_RDWR, 0, 1)->flags |= flags;
    if (linked)
        PREPARE(2, read, 1, got, 8, 0)->flags |= IOSQE_FIXED_FILE;
    submit(linked ? 2 : 1);
    expect(1, 0);
    if (!linked) {
        PREPARE(2, read, 1, got, 8, 0)->flags |= IOSQE_FIXED_FILE;
        submit(1);
    }
    expect(2, 8);
    if (strcmp(got, "NEW!old!") != 0)
        fail("read by a direct descriptor: %s", got);
    PREPARE(3, write, 1, "LAST", 4, 0)->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK;
    PREPARE(4, fsync, 1, 0)->flags |= IOSQE_FIXED_FILE;
    submit(2);
    expect(3, 4);
    expect(4, 0);
    keeps(fd, "LASTold!");
    file_end(fd);
    ring_end();
}

static void case_direct(void)
{
    opened_by_slot(0, false);
    opened_by_slot(IOSQE_IO_LINK, true);
}

static void opened(unsigned flags, bool linked, bool as_somebody)
{
    ring_begin(16);
    int fd = file_begin(0), again = -1;
    struct io_uring_sqe *request = PREPARE(1, openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    request->flags |= flags;
    if (as_somebody) {
        int who = io_uring_register_personality(&ring);
        CHECK(who > 0);
        request->personality = (unsigned short)who;
    }
    if (linked)
        PREPARE(2, nop);
    submit(linked ? 2 : 1);
    for (int i = 0; i < (linked ? 2 : 1); i++) {
        uint64_t data;
        int result = reap(&data);
        CHECK(result >= 0);
        if (data == 1)
            again = result;
    }
    holds(again, "NEW!old!");
    CHECK(pwrite(again, "LAST", 4, 0) == 4 && fsync(again) == 0);
    keeps(fd, "LASTold!");
    CHECK(close(again) == 0);
    file_end(fd);
    ring_end();
}

static void case_opened(void)
{
    opened(0, false, false);
    opened(IOSQE_IO_DRAIN, false, false);
    opened(IOSQE_IO_LINK, true, false);
    opened(0, false, true);
}

/* As somebody who may open it, asked by somebody who may not. */
static void case_somebody(void)
{
    if (geteuid() != 0)
        return;
    ring_begin(16);
    int fd = file_begin(0), who = io_uring_register_personality(&ring);
    CHECK(fchmod(fd, 0600) == 0 && pwrite(fd, "NEW2", 4, 0) == 4 && who > 0);
    CHECK(seteuid(65534) == 0);
    PREPARE(1, openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0)->personality = (unsigned short)who;
    submit(1);
    int again = reap(NULL);
    CHECK(seteuid(0) == 0 && again >= 0);
    holds(again, "NEW2old!");
    CHECK(pwrite(again, "LAST", 4, 0) == 4 && fsync(again) == 0);
    keeps(fd, "LASTold!");
    CHECK(close(again) == 0);
    file_end(fd);
    ring_end();
}

/* A lock of this process, on a file that it has mapped, is not ended by what a ring opens. */
static void case_locked(void)
{
    int status, fd = file_begin(0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    void *map = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && fcntl(fd, F_SETLK, &lock) == 0);
    ring_begin(16);
    CHECK(io_uring_register_files_sparse(&ring, 4) == 0);
    PREPARE(1, openat_direct, AT_FDCWD, path, O_RDWR, 0, 1);
    submit(1);
    expect(1, 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0)
        fail("the lock is gone");
    CHECK(munmap(map, 8) == 0);
    file_end(fd);
    ring_end();
}

/* One that is emptied by the ring: what was written behind does not come back. */
static void case_emptied(void)
{
    ring_begin(16);
    CHECK(io_uring_register_files_sparse(&ring, 4) == 0);
    int fd = file_begin(0);
    PREPARE(1, openat_direct, AT_FDCWD, path, O_RDWR | O_TRUNC, 0, 1);
    submit(1);
    expect(1, 0);
    keeps(fd, "");
    file_end(fd);
    ring_end();
}

/* One that is not opened after all is not emptied, and keeps what was written behind. */
static void case_not_opened(void)
{
    char byte;
    ring_begin(16);
    CHECK(io_uring_register_files_sparse(&ring, 4) == 0);
    int fd = file_begin(0);
    PREPARE(1, read, -1, &byte, 1, 0)->flags |= IOSQE_IO_LINK;
    PREPARE(2, openat_direct, AT_FDCWD, path, O_RDWR | O_TRUNC, 0, 1);
    submit(2);
    expect(1, -EBADF);
    expect(2, -ECANCELED);
    keeps(fd, "NEW!old!");
    file_end(fd);
    ring_end();
}

/* ---- looking ---- */

static void looked_at(unsigned flags)
{
    struct statx status;
    ring_begin(16);
    int fd = file_begin(0);
    CHECK(pwrite(fd, "tail", 4, 100000) == 4);
    PREPARE(1, statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, &status)->flags |= flags;
    PREPARE(2, nop);
    submit(2);
    for (int i = 0; i < 2; i++)
        CHECK(reap(NULL) == 0);
    if (status.stx_size != 100004)
        fail("the size of a file is %llu", (unsigned long long)status.stx_size);
    file_end(fd);
    ring_end();
}

static void case_looked_at(void)
{
    looked_at(0);
    looked_at(IOSQE_IO_DRAIN);
    looked_at(IOSQE_IO_LINK);
}

/* As file servers send: refused, or right. */
static void spliced(unsigned flags)
{
    char got[9] = "";
    int pipes[2], results[3];
    ring_begin(16);
    CHECK(pipe2(pipes, O_CLOEXEC | O_NONBLOCK) == 0);
    int fd = file_begin(0);
    PREPARE(1, splice, fd, 0, pipes[1], -1, 8, 0)->flags |= flags;
    PREPARE(2, nop);
    int submitted = io_uring_submit(&ring);
    CHECK(submitted == 1 || submitted == 2); /* the kernel ends a submission at what is invalid */
    CHECK(submitted == 2 || io_uring_submit(&ring) == 1);
    for (int i = 0; i < 2; i++) {
        uint64_t data;
        int result = reap(&data);
        results[data] = result;
    }
    if (results[1] > 0 && (read(pipes[0], got, 8) != 8 || strcmp(got, "NEW!old!") != 0))
        fail("spliced: %s", got);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    file_end(fd);
    ring_end();
}

static void case_spliced(void)
{
    spliced(0);
    spliced(IOSQE_IO_LINK);
    spliced(IOSQE_IO_DRAIN);
}

/* ---- order ---- */

/* read(pipe), NOP with IOSQE_IO_DRAIN, write(file): nothing is written before the pipe has a byte.
 */
static void barrier(int fd, bool later)
{
    char byte;
    int pipes[2];
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    ring_begin(16);
    PREPARE(1, read, pipes[0], &byte, 1, 0);
    PREPARE(2, nop)->flags |= IOSQE_IO_DRAIN;
    if (later)
        submit(2);
    PREPARE(3, write, fd, "LAST", 4, 0);
    PREPARE(4, write, fd, "last", 4, 4)->flags |= IOSQE_IO_DRAIN;
    submit(later ? 2 : 4);
    sleep_ms(200);
    holds(fd, "NEW!old!");
    CHECK(write(pipes[1], "x", 1) == 1);
    for (uint64_t i = 1; i <= 4; i++)
        expect(i, i < 3 ? (i == 1) : 4);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    PREPARE(5, write, fd, "MORE", 4, 0); /* behind a barrier that is passed */
    submit(1);
    expect(5, 4);
    keeps(fd, "MORElast");
    ring_end();
}

static void case_barrier(void)
{
    for (int i = 0; i < 2; i++) {
        int fd = file_begin(0);
        barrier(fd, i > 0);
        file_end(fd);
    }
}

/* What another barrier that was passed leaves behind: nothing is refused, and the file is served.
 */
static void after_barrier(int fd)
{
    struct statx status;
    PREPARE(10, nop)->flags |= IOSQE_IO_DRAIN;
    submit(1);
    expect(10, 0);
    PREPARE(11, statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, &status);
    PREPARE(12, write, fd, "LAST", 4, 0);
    submit(2);
    for (int i = 0; i < 2; i++) {
        uint64_t data;
        int result = reap(&data);
        if (result != (data == 11 ? 0 : 4))
            fail("request %d behind a barrier that is passed: %d", (int)data, result);
    }
}

static void case_barrier_passed(void)
{
    char byte;
    int pipes[2], fd = file_begin(0);
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    ring_begin(16);
    after_barrier(fd);
    PREPARE(1, poll_add, pipes[0], POLLIN); /* in flight until the end */
    submit(1);
    PREPARE(2, openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 0600);
    submit(1);
    expect(2, -EEXIST);
    CHECK(write(pipes[1], "x", 1) == 1);
    expect(1, POLLIN);
    ring_end();
    /* Completions without a request of their own. */
    ring_begin(16);
    PREPARE(1, poll_multishot, pipes[0], POLLIN);
    submit(1);
    expect(1, POLLIN);
    CHECK(read(pipes[0], &byte, 1) == 1);
    for (int i = 0; i < 3; i++) {
        CHECK(write(pipes[1], "x", 1) == 1);
        expect(1, POLLIN);
        CHECK(read(pipes[0], &byte, 1) == 1);
    }
    PREPARE(2, poll_remove, 1);
    submit(1);
    for (int i = 0; i < 2; i++)
        reap(NULL);
    after_barrier(fd);
    keeps(fd, "LASTold!");
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    file_end(fd);
    ring_end();
}

/* Moved to the kernel by another process after it was opened: appended in the order of the queue.
 */
static void case_moved(void)
{
    struct mapper mapper;
    int fd = file_begin(O_APPEND);
    CHECK(ftruncate(fd, 0) == 0);
    mapper_start(&mapper, path);
    ring_begin(16);
    for (unsigned i = 0; i < 4; i++)
        PREPARE(i, write, fd, &"ABCD"[i], 1, 0);
    mapper_map(&mapper);
    submit(4);
    for (int i = 0; i < 4; i++)
        CHECK(reap(NULL) == 1);
    holds(fd, "ABCD");
    mapper_end(&mapper);
    file_end(fd);
    ring_end();
}

/* ---- chains that post less ---- */

/* How many completions came of what was submitted. Ends the ring. */
static unsigned completions(int submitted)
{
    unsigned count = 0;
    struct io_uring_cqe *cqe;
    submit(submitted);
    sleep_ms(100);
    for (; io_uring_peek_cqe(&ring, &cqe) == 0; count++)
        io_uring_cqe_seen(&ring, cqe);
    ring_end();
    return count;
}

/* Of a chain with these flags, of which all requests but the first are cancelled. */
static unsigned completions_of_chain(int fd, const unsigned flags[3])
{
    ring_begin(16);
    PREPARE(1, read, fd, buffer(0), BLOCK, FILE_SIZE - 1)->flags |= flags[0];
    PREPARE(2, read, fd, buffer(1), BLOCK, 0)->flags |= flags[1];
    PREPARE(3, fsync, fd, 0)->flags |= flags[2];
    return completions(3);
}

static unsigned completions_with_timeout(int fd)
{
    struct __kernel_timespec limit = {.tv_sec = 10};
    ring_begin(16);
    PREPARE(1, read, fd, buffer(0), BLOCK, 0)->flags |= IOSQE_IO_LINK;
    PREPARE(2, link_timeout, &limit, 0)->flags |= IOSQE_CQE_SKIP_SUCCESS;
    return completions(2);
}

static void case_skipped(void)
{
    enum { LINK = IOSQE_IO_LINK, HARD = IOSQE_IO_HARDLINK, SKIP = IOSQE_CQE_SKIP_SUCCESS };
    static const unsigned flags[][3] = {
        {LINK | SKIP, LINK | SKIP, 0}, {HARD | SKIP, LINK | SKIP, 0}, {LINK, LINK | SKIP, SKIP}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        unsigned kernel = completions_of_chain(memory, flags[i]);
        unsigned served = completions_of_chain(file, flags[i]);
        if (kernel != served)
            fail("chain %zu has %u completions, and %u of the kernel", i, served, kernel);
    }
    CHECK(completions_with_timeout(memory) == completions_with_timeout(file));
}

/* ---- rings and slots that are not as usual ---- */

/* What is submitted to a ring that is not enabled yet stays in its queue. */
static void case_disabled(void)
{
    CHECK(io_uring_queue_init(8, &ring, IORING_SETUP_R_DISABLED) == 0);
    int fd = file_begin(0);
    PREPARE(1, write, fd, "LAST", 4, 0);
    CHECK(io_uring_submit(&ring) == -EBADFD);
    CHECK(syscall(SYS_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) == 0);
    (void)io_uring_submit(&ring);
    expect(1, 4);
    keeps(fd, "LASTold!");
    file_end(fd);
    ring_end();
}

/* A registered file whose descriptor was closed, in a child of fork(): refused, or right. */
static void case_child(void)
{
    int go[2], status;
    CHECK(pipe(go) == 0);
    ring_begin(16);
    int fd = file_begin(0), registered = open(path, O_RDWR);
    CHECK(registered >= 0 && io_uring_register_files(&ring, &registered, 1) == 0);
    CHECK(close(registered) == 0 && pwrite(fd, "old!", 4, 0) == 4 && fsync(fd) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char got[9] = "";
        CHECK(read(go[0], got, 1) == 1);
        PREPARE(1, read, 0, got, 8, 0)->flags |= IOSQE_FIXED_FILE;
        submit(1);
        int result = reap(NULL);
        _exit(result < 0 || (result == 8 && memcmp(got, "NEW!old!", 8) == 0) ? 0 : 1);
    }
    CHECK(pwrite(fd, "NEW!", 4, 0) == 4 && write(go[1], "x", 1) == 1);
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0)
        fail("a child read what was there before, by a slot");
    CHECK(close(go[0]) == 0 && close(go[1]) == 0);
    file_end(fd);
    ring_end();
}

static const struct ring_case cases[] = {
    CASE(direct),  CASE(opened),  CASE(emptied),        CASE(not_opened), CASE(looked_at),
    CASE(spliced), CASE(barrier), CASE(barrier_passed), CASE(somebody),   CASE(locked),
    CASE(moved),   CASE(skipped), CASE(disabled),       CASE(child),
};

int main(int argc, char **argv)
{
    return run_cases(cases, sizeof(cases) / sizeof(*cases), argc, argv);
}
