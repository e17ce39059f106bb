/*
 * A program without a handler for SIGSEGV and SIGBUS reads a file from front to back into memory
 * that is not there, and writes what is not there: that is an error of the call. The signals
 * themselves do what they always do, and nobody sees a handler. At last it has one, which does not
 * run for that.
 */
#include <aio.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "program.h"

enum { BLOCK = 8192, BLOCKS = 512 };

static int fd, writer;
static off_t at;
static char *gone, *constant; /* a block each: without any access, and not to be written */

static void read_on(int blocks)
{
    static char block[BLOCK];
    for (int i = 0; i < blocks; i++, at += BLOCK) {
        CHECK(pread(fd, block, BLOCK, at) == BLOCK);
        CHECK(differs(block, BLOCK, (uint64_t)at, 5) < 0);
    }
}

static void is_refused(void)
{
    CHECK(pread(fd, gone, BLOCK, at) == -1 && errno == EFAULT);
    CHECK(pread(fd, constant, BLOCK, at) == -1 && errno == EFAULT);
}

static void on_signal(int number)
{
    (void)number;
}

static void has_no_handler(int number)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    CHECK(sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    CHECK(!(action.sa_flags & (SA_SIGINFO | (int)SA_RESETHAND)));
}

static void *is_refused_in_between(void *unused)
{
    is_refused();
    read_on(10);
    is_refused();
    return unused;
}

/* With all signals blocked, as many programs have it for their threads. */
static void in_thread(void *(*function)(void *))
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    CHECK(pthread_create(&thread, NULL, function, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- writing ---- */

/* Also by a thread that blocks the signal, and after a fork. */
static void *writes_are_refused(void *unused)
{
    const struct iovec bad = {gone, BLOCK}, both[] = {{constant, BLOCK}, bad};
    CHECK(pwrite(writer, gone, BLOCK, at) == -1 && errno == EFAULT);
    CHECK(pwrite(writer, gone + 1, 10, at) == -1 && errno == EFAULT);
    CHECK(pwritev(writer, &bad, 1, at) == -1 && errno == EFAULT);
    CHECK(pwritev(writer, (const struct iovec *)gone, 2, at) == -1 && errno == EFAULT);
    CHECK(preadv(writer, (const struct iovec *)gone, 2, at) == -1 && errno == EFAULT);
    CHECK(preadv(writer, &bad, 1, at) == -1 && errno == EFAULT);
    ssize_t part = pwritev(writer, both, 2, BLOCKS * BLOCK);
    CHECK(part == BLOCK || (part == -1 && errno == EFAULT));
    CHECK(sendfile(writer, fd, (off_t *)gone, BLOCK) == -1 && errno == EFAULT);
    CHECK(sendfile(writer, fd, (off_t *)(gone + BLOCK - 4), BLOCK) == -1 && errno == EFAULT);
    CHECK(copy_file_range(fd, (off64_t *)gone, writer, NULL, BLOCK, 0) == -1 && errno == EFAULT);
    return unused;
}

static void write_what_is_not_there(const char *path)
{
    static const int flags[] = {0, O_DSYNC, O_DIRECT};
    off_t offset = 0;
    for (int i = 0; i < 3; i++) {
        if ((writer = open(path, O_RDWR | flags[i])) < 0)
            continue; /* some have no O_DIRECT */
        writes_are_refused(NULL);
        in_thread(writes_are_refused);
        read_on(5);
        CHECK(close(writer) == 0);
    }
    CHECK((writer = open(path, O_RDWR)) >= 0);
    CHECK(lseek(writer, 0, SEEK_SET) == 0 && sendfile(writer, fd, &offset, BLOCK) == BLOCK);
    CHECK(offset == BLOCK && ftruncate(writer, BLOCKS * BLOCK) == 0);
    CHECK(mprotect(constant, BLOCK, PROT_READ | PROT_WRITE) == 0);
    *(off_t *)constant = 0;
    CHECK(mprotect(constant, BLOCK, PROT_READ) == 0 && lseek(writer, 0, SEEK_SET) == 0);
    CHECK(sendfile(writer, fd, (off_t *)constant, BLOCK) == -1 && errno == EFAULT);
    CHECK(close(writer) == 0);
}

/* ---- a handler that shall not run ---- */

static void never(int number)
{
    fail("signal %d where an error was due", number);
}

static void by_aio(int operation)
{
    struct aiocb control = {
        .aio_fildes = writer, .aio_buf = gone, .aio_nbytes = BLOCK, .aio_offset = at};
    const struct aiocb *list[] = {&control};
    control.aio_sigevent.sigev_notify = SIGEV_SIGNAL; /* a thread of the library receives it */
    control.aio_sigevent.sigev_signo = SIGURG;        /* which is ignored */
    CHECK((operation == LIO_READ ? aio_read : aio_write)(&control) == 0);
    while (aio_error(&control) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    CHECK(aio_error(&control) == EFAULT);
}

static void *refuses_all(void *unused)
{
    is_refused();
    CHECK(pwrite(writer, gone, BLOCK, at) == -1 && errno == EFAULT);
    for (int i = 0; i < 4; i++)
        by_aio(i % 2 ? LIO_READ : LIO_WRITE);
    read_on(2);
    return unused;
}

static void beside_a_handler(void)
{
    time_t start = time(NULL);
    CHECK(signal(SIGSEGV, never) == SIG_DFL);
    refuses_all(NULL);
    in_thread(refuses_all);
    CHECK(signal(SIGSEGV, SIG_DFL) == never);
    CHECK(time(NULL) - start < 8); /* no fault of a connection */
}

/* ---- ends ---- */

static void by_kill(int number)
{
    kill(getpid(), number);
}

static void by_fault(int number)
{
    (void)number;
    *(volatile char *)gone = 1;
}

static void by_way_of_a_handler(int number)
{
    CHECK(signal(number, on_signal) == SIG_DFL && raise(number) == 0);
    is_refused();
    CHECK(signal(number, SIG_DFL) == on_signal);
    has_no_handler(number);
    raise(number);
}

static void by_way_of_ignoring(int number)
{
    CHECK(signal(number, SIG_IGN) == SIG_DFL && raise(number) == 0);
    is_refused();
    CHECK(signal(number, SIG_DFL) == SIG_IGN);
    has_no_handler(number);
    raise(number);
}

static void ends(void (*how)(int number), int number)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        read_on(3);
        how(number);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != number)
        fail("signal %d: the child ended with status %#x", number, status);
}

int main(int argc, char **argv)
{
    const char *path = below(directory(argc, argv), "faults");
    static char block[BLOCK];
    CHECK((fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666)) >= 0);
    for (int i = 0; i < BLOCKS; i++) {
        fill(block, BLOCK, (uint64_t)i * BLOCK, 5);
        CHECK(write(fd, block, BLOCK) == BLOCK);
    }
    CHECK(fsync(fd) == 0 && close(fd) == 0 && (fd = open(path, O_RDONLY)) >= 0);
    gone = mmap(NULL, 2 * BLOCK, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(gone != MAP_FAILED && mprotect(gone, BLOCK, PROT_NONE) == 0);
    constant = gone + BLOCK;

    has_no_handler(SIGSEGV);
    for (int i = 0; i < 30; i++) {
        read_on(10);
        is_refused();
    }
    has_no_handler(SIGSEGV);
    has_no_handler(SIGBUS);
    in_thread(is_refused_in_between);
    write_what_is_not_there(path);
    ends(by_kill, SIGSEGV);
    ends(by_kill, SIGBUS);
    ends(by_fault, SIGSEGV);
    ends(by_way_of_a_handler, SIGSEGV);
    ends(by_way_of_ignoring, SIGSEGV);
    CHECK((writer = open(path, O_RDWR)) >= 0);
    beside_a_handler();
    read_on(10);
    CHECK(close(writer) == 0 && close(fd) == 0 && unlink(path) == 0);
    return 0;
}
