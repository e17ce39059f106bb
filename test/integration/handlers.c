/* A handler that interrupts malloc() opens, writes, reads and closes files: signal-safety(7) allows
 * that. */
#include <linux/aio_abi.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "program.h"

enum { FILES = 16, KEPT = 512, SECONDS = 3 };

static char names[FILES][64];
static const struct itimerval soon = {{0, 0}, {0, 1000}};
static volatile sig_atomic_t runs, wrong, over;

static void open_files(int number)
{
    int saved = errno, fds[FILES];
    char text[8];
    (void)number;
    for (int i = 0; i < FILES; i++)
        fds[i] = open(names[i], O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < FILES; i++) {
        if (pwrite(fds[i], names[i], 8, 0) != 8 || pread(fds[i], text, 8, 0) != 8 ||
            memcmp(text, names[i], 8) != 0 || close(fds[i]) != 0)
            wrong = 1;
    }
    runs++;
    if (!over)
        setitimer(ITIMER_REAL, &soon, NULL);
    errno = saved;
}

/* malloc() takes its locks only in a process that has several threads. */
static void *sleeper(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (;;)
        pause();
    return unused;
}

static void allocate(int least, int span)
{
    static void *kept[KEPT];
    unsigned k = (unsigned)random() % KEPT;
    free(kept[k]);
    kept[k] = malloc((size_t)least + (size_t)random() % (size_t)span);
}

/* ---- with an asynchronous write in flight ---- */

enum { BLOCK = 8192 };

static int file;
static bool cuts;

static void settle_file(int number)
{
    int saved = errno;
    (void)number;
    if ((cuts ? ftruncate(file, 4 * BLOCK) : fsync(file)) != 0)
        wrong = 1;
    runs++;
    errno = saved;
}

static void interrupted_once(int seed)
{
    static char block[BLOCK];
    struct sigaction action = {.sa_handler = settle_file, .sa_flags = SA_RESTART};
    struct itimerval once = {{0, 0}, {0, 2000 + seed * 25}};
    struct iocb write = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_nbytes = BLOCK},
                *list[] = {&write};
    struct io_event event;
    aio_context_t context = 0;
    srandom((unsigned)seed);
    runs = 0;
    CHECK((file = open("async", O_RDWR | O_CREAT, 0600)) >= 0);
    CHECK(pwrite(file, block, BLOCK, 8 * BLOCK) == BLOCK && fsync(file) == 0);
    write.aio_fildes = (unsigned)file;
    write.aio_buf = (uintptr_t)block;
    CHECK(syscall(SYS_io_setup, 8, &context) == 0);
    CHECK(syscall(SYS_io_submit, context, 1, list) == 1);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    setitimer(ITIMER_REAL, &once, NULL);
    while (runs == 0)
        allocate(2000, 60000);
    while (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
        ;
    CHECK(!wrong && event.res == BLOCK && close(file) == 0);
}

static void with_a_write_in_flight(void)
{
    enum { TRIES = 40, PATIENCE_S = 20 };
    for (int i = 0; i < 2 * TRIES; i++) {
        pthread_t thread;
        pid_t child = fork();
        int status;
        CHECK(child >= 0);
        if (child == 0) {
            cuts = i >= TRIES;
            CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
            interrupted_once(i);
            _exit(0);
        }
        bool ended = ends_within(child, PATIENCE_S, &status);
        if (!ended || status != 0)
            fail("%s in a handler, try %d: it %s", i < TRIES ? "fsync" : "ftruncate", i,
                 ended ? "failed" : "hangs");
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = open_files, .sa_flags = SA_RESTART};
    pthread_t thread;

    CHECK(chdir(directory(argc, argv)) == 0);
    for (int i = 0; i < FILES; i++)
        snprintf(names[i], sizeof(names[i]), "%02d in a handler", i);
    over = 1;
    open_files(0); /* the first file on a mount allocates */
    with_a_write_in_flight();
    over = 0;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end;) {
        for (int i = 0; i < 1000; i++)
            allocate(1, 6000);
    }
    over = 1;
    CHECK(runs > 5);
    CHECK(!wrong);
    return 0;
}
