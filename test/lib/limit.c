/*
 * limit [-k SECONDS] SECONDS COMMAND [ARGUMENT...]
 *
 * Runs a command, and ends it and its process group after that time: by SIGTERM, and by SIGKILL so
 * many seconds (2) later. The exit status is the command's, 128 and its signal, or as of
 * timeout(1): 124 when the time was over, 137 if that took SIGKILL, 125 to 127 if it could not be
 * started.
 *
 * The seconds are those of a machine that has time. Now and then this program does a piece of work,
 * of which it is known how long it takes there, and the time since counts as much less as it took
 * longer: on a processor that is shared by 25 a second counts 40 ms. So what is slow for lack of
 * processors goes on, and what hangs is ended all the same.
 *
 * A signal that would end this program is passed to the group.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORK_S      0.02  /* what work() takes on a processor of its own, or less */
#define STEP_S      2.0   /* so often, */
#define STEPS_LEAST 4     /* if the limit is not that short */
#define STEPS_MOST  40    /* and not more often than that in a limit */
#define SHARE_LEAST 0.002 /* on any machine it ends some time */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Which share of a processor there is. Not asked of the kernel: in a guest it knows half of it. */
static double work(void)
{
    static volatile uint64_t sink;
    double begin = now();
    uint64_t x = sink | 1;
    for (int i = 0; i < 6000000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
    double share = WORK_S / (now() - begin);
    return share > 1 ? 1 : share < SHARE_LEAST ? SHARE_LEAST : share;
}

static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM};
static sigset_t awaited; /* SIGCHLD, and of these what was not passed yet */

/* To the command, also if it has a group of its own now, and to the group: which this is in. */
static void pass(pid_t command, int signal)
{
    sigdelset(&awaited, signal);
    kill(command, signal);
    kill(0, signal);
}

/* Waits until the command has ended, for so many seconds of a machine that has time. */
static bool ends(pid_t command, double seconds, int *status)
{
    double step = seconds / STEPS_LEAST < STEP_S ? seconds / STEPS_LEAST : STEP_S;
    if (step < seconds / STEPS_MOST)
        step = seconds / STEPS_MOST;
    double begin = now();
    for (;;) {
        double left = begin + step - now();
        struct timespec time = {.tv_sec = left > 0 ? (time_t)left : 0};
        time.tv_nsec = left > 0 ? (long)((left - (double)time.tv_sec) * 1e9) : 0;
        int signal = sigtimedwait(&awaited, NULL, &time);
        if (waitpid(command, status, WNOHANG) == command)
            return true;
        if (signal > 0 && signal != SIGCHLD)
            pass(command, signal);
        if (now() < begin + step)
            continue;
        double share = work();
        seconds -= (now() - begin) * share;
        begin = now();
        if (seconds <= 0)
            return false;
    }
}

static double number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0)) {
        fprintf(stderr, "limit: '%s' is no number of seconds\n", text);
        exit(125);
    }
    return value;
}

int main(int argc, char **argv)
{
    double later = 2;
    int option;
    while ((option = getopt(argc, argv, "+k:")) != -1) {
        if (option != 'k')
            return 125;
        later = number(optarg);
    }
    if (argc - optind < 2) {
        fprintf(stderr, "usage: limit [-k SECONDS] SECONDS COMMAND [ARGUMENT...]\n");
        return 125;
    }
    double seconds = number(argv[optind++]);

    sigset_t before;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        sigaddset(&awaited, passed[i]);
    sigprocmask(SIG_BLOCK, &awaited, &before);
    void (*at_child)(int) = signal(SIGCHLD, SIG_DFL);
    setpgid(0, 0);
    pid_t command = fork();
    if (command < 0) {
        perror("limit: fork");
        return 125;
    }
    if (command == 0) {
        signal(SIGCHLD, at_child);
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(argv[optind], argv + optind);
        fprintf(stderr, "limit: %s: %s\n", argv[optind], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    signal(SIGTTIN, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    int status;
    if (ends(command, seconds, &status))
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    pass(command, SIGTERM);
    kill(0, SIGCONT);
    if (ends(command, later, &status))
        return 124;
    pass(command, SIGKILL); /* this process, too: 137 */
    return 128 + SIGKILL;
}
