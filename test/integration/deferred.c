/*
 * Two signals, one after the other, at single instructions of a call: the second of a kind that
 * faults raise, which stays let in while the first waits for the end of the call. Both handlers
 * run, and afterwards the thread blocks what it blocked before.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "program.h"

enum { FIRST = SIGUSR1, SECOND = SIGFPE, BLOCKED = SIGUSR2, STEPS = 150 };

static const int begins[] = {25, 45, 65, 85, 105, 140};
enum { BEGINS = sizeof(begins) / sizeof(*begins), ROUNDS = BEGINS * STEPS };

static volatile sig_atomic_t runs[65];

static void on_signal(int number)
{
    runs[number]++;
}

static void calls(int fd)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t own, now;
    sigemptyset(&own);
    sigaddset(&own, BLOCKED);
    CHECK(sigaction(FIRST, &action, NULL) == 0 && sigaction(SECOND, &action, NULL) == 0);
    CHECK(sigprocmask(SIG_SETMASK, &own, NULL) == 0);
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        runs[FIRST] = runs[SECOND] = 0;
        kill(getpid(), SIGSTOP); /* which, unlike raise(), blocks nothing meanwhile */
        CHECK(lseek(fd, 0, SEEK_CUR) == 0);
        CHECK(lseek(fd, 0, SEEK_CUR) == 0);
        CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0);
        for (int number = 1; number < 32; number++)
            CHECK(sigismember(&now, number) == (number == BLOCKED));
        CHECK(runs[FIRST] == 1 && runs[SECOND] == 1);
    }
}

/* So many instructions. The tracer sees each signal before its
 * process does, also one that is sent again, and passes it on. */
static void steps(pid_t child, int count)
{
    int status, number = 0;
    for (int i = 0; i < count || number != 0; i++) {
        CHECK(ptrace(PTRACE_SINGLESTEP, child, 0, (long)number) == 0);
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
        number = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    }
}

/* Until the child is at the next round. False: there is none. */
static bool go_on(pid_t child)
{
    int status, number = 0;
    do {
        CHECK(ptrace(PTRACE_CONT, child, 0, (long)number) == 0);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        number = WIFSTOPPED(status) ? WSTOPSIG(status) : SIGSTOP;
    } while (number != SIGSTOP);
    return WIFSTOPPED(status);
}

int main(int argc, char **argv)
{
    char path[4096], block[100] = "x";
    int status;
    snprintf(path, sizeof(path), "%s/file", directory(argc, argv));
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && pwrite(fd, block, sizeof(block), 0) == sizeof(block) && fsync(fd) == 0);
    CHECK(pread(fd, block, sizeof(block), 0) == sizeof(block));
    pid_t child = fork();
    if (child == 0) {
        calls(fd);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    for (int round = 0; round < ROUNDS; round++) {
        steps(child, begins[round % BEGINS]);
        CHECK(kill(child, FIRST) == 0);
        steps(child, 2 + round / BEGINS);
        CHECK(kill(child, SECOND) == 0);
        CHECK(go_on(child) == (round + 1 < ROUNDS));
    }
    return 0;
}
