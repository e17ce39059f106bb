/*
 * What the tests of POSIX AIO share: requests for blocks of a file below the directory, and for
 * pipes and a file of memory beside it, which are never the library's. Block i of both files is
 * always of version SEED, or being written with it.
 */
#ifndef INTEGRATION_POSIX_AIO_TEST_H
#define INTEGRATION_POSIX_AIO_TEST_H

#include <aio.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "program.h"

enum { BLOCK = 8192, DEEP = 512, LIST = 24, PATIENCE = 20, SEED = 2 };

static int file, memory, pipe_ends[2];
static char buffers[DEEP][BLOCK];
static struct aiocb controls[DEEP];

/* ---- one request ---- */

static inline struct aiocb request(int fd, void *buffer, size_t size, off_t offset)
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

static inline void block_request(int i, int fd, int opcode, uint64_t seed)
{
    controls[i] = request(fd, buffers[i], BLOCK, (off_t)i * BLOCK);
    controls[i].aio_lio_opcode = opcode;
    if (opcode == LIO_WRITE)
        fill(buffers[i], BLOCK, (uint64_t)i * BLOCK, seed);
    else
        memset(buffers[i], 0, BLOCK);
}

static inline int suspend_one(const struct aiocb *control, const struct timespec *timeout)
{
    return aio_suspend(&control, 1, timeout);
}

static inline ssize_t result_of(struct aiocb *control)
{
    while (aio_error(control) == EINPROGRESS)
        CHECK(suspend_one(control, NULL) == 0 || errno == EINTR);
    int error = aio_error(control);
    ssize_t result = aio_return(control);
    CHECK((error != 0) == (result == -1));
    errno = error;
    return result;
}

static inline void finish_blocks(int first, int count, uint64_t seed)
{
    for (int i = first; i < first + count; i++) {
        CHECK(result_of(&controls[i]) == BLOCK);
        CHECK(differs(buffers[i], BLOCK, (uint64_t)i * BLOCK, seed) < 0);
    }
}

static inline void pause_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&time, &time) < 0)
        CHECK(errno == EINTR);
}

/* Until the counter has come to `value`, for PATIENCE seconds. */
static inline void await(atomic_int *counter, int value)
{
    for (int i = 0; i < PATIENCE * 1000 && atomic_load(counter) < value; i++)
        pause_ms(1);
    CHECK(atomic_load(counter) == value);
}

/* ---- being told of an end ---- */

static atomic_int signals, wrong_signals, threads, list_ends;
static atomic_int seen[DEEP];

static inline void on_signal(int number, siginfo_t *info, void *context)
{
    int i = info->si_value.sival_int;
    (void)number;
    (void)context;
    if (info->si_code != SI_ASYNCIO || info->si_pid != getpid() || i < 0 || i >= DEEP ||
        aio_error(&controls[i]) != 0 || atomic_fetch_add(&seen[i], 1) != 0)
        atomic_fetch_add(&wrong_signals, 1);
    atomic_fetch_add(&signals, 1);
}

static inline void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(number, &action, NULL) == 0);
}

static inline void in_thread(union sigval value)
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
    CHECK(differs(got, sizeof(got), (uint64_t)control->aio_offset, SEED) < 0);
    atomic_fetch_add(&threads, 1);
}

/* ---- lists ---- */

static inline void make_list(struct aiocb **list, int fd, int opcode)
{
    for (int i = 0; i < LIST; i++) {
        block_request(i, fd, opcode, SEED);
        list[i] = &controls[i];
    }
}

static inline void on_list_end(union sigval value)
{
    struct aiocb **list = value.sival_ptr;
    for (int i = 0; i < LIST; i++)
        CHECK(!list[i] || list[i]->aio_lio_opcode == LIO_NOP || aio_error(list[i]) == 0);
    atomic_fetch_add(&list_ends, 1);
}

static inline struct sigevent list_thread(struct aiocb **list)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD,
                             .sigev_notify_function = on_list_end,
                             .sigev_value.sival_ptr = list};
    return event;
}

/* ---- requests of the other world ---- */

static inline struct aiocb pipe_request(char *byte)
{
    struct aiocb control = request(pipe_ends[0], byte, 1, 0);
    control.aio_lio_opcode = LIO_READ;
    return control;
}

static inline void feed_pipe(void)
{
    CHECK(write(pipe_ends[1], "x", 1) == 1);
}

/* ---- the program ---- */

/* Returns the path of the file. */
static inline const char *open_files(int argc, char **argv)
{
    const char *path = below(directory(argc, argv), "posix_aio");
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memory = memfd_create("posix_aio", MFD_CLOEXEC);
    CHECK(file >= 0 && memory >= 0 && pipe(pipe_ends) == 0);
    for (int i = 0; i < DEEP; i++) {
        fill(buffers[i], BLOCK, (uint64_t)i * BLOCK, SEED);
        CHECK(pwrite(file, buffers[i], BLOCK, (off_t)i * BLOCK) == BLOCK);
        CHECK(i >= LIST || pwrite(memory, buffers[i], BLOCK, (off_t)i * BLOCK) == BLOCK);
    }
    handle(SIGRTMIN + 1, on_signal, SA_RESTART);
    return path;
}

#endif
