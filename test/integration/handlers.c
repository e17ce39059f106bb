/* A handler that interrupts malloc() opens, writes, reads and closes files: signal-safety(7) allows that. */
#include <pthread.h>
#include <signal.h>
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
        if (pwrite(fds[i], names[i], 8, 0) != 8 || pread(fds[i], text, 8, 0) != 8 || memcmp(text, names[i], 8) != 0 ||
            close(fds[i]) != 0)
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

int main(int argc, char **argv)
{
    static void *kept[KEPT];
    struct sigaction action = {.sa_handler = open_files, .sa_flags = SA_RESTART};
    pthread_t thread;

    CHECK(chdir(directory(argc, argv)) == 0);
    for (int i = 0; i < FILES; i++)
        snprintf(names[i], sizeof(names[i]), "%02d in a handler", i);
    over = 1;
    open_files(0); /* the first file on a mount allocates */
    over = 0;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end;) {
        for (int i = 0; i < 1000; i++) {
            unsigned k = (unsigned)random() % KEPT;
            free(kept[k]);
            kept[k] = malloc(1 + (unsigned)random() % 6000);
        }
    }
    over = 1;
    CHECK(runs > 5);
    CHECK(!wrong);
    return 0;
}
