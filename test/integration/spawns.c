/*
 * A program without the library, which reads through the kernel, is started right after a write: it
 * finds what was written. By every way to start one. And what vfork() shares with its child, and
 * what not.
 */
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "program.h"

enum { WAYS = 7, ROUNDS = 3, BYTES = 20000 };

static char file[PATH_MAX], wanted[64], command[2 * PATH_MAX];
static char *const nothing[] = {NULL};
static char *const words[] = {"grep", "-qxF", wanted, file, NULL};

static void ended_well(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child that becomes the program; as subprocess of Python does, it may have closed all before. */
static void execute(pid_t child, bool closes)
{
    if (child == 0) {
        if (closes)
            close_range(3, ~0U, 0);
        execve("/bin/grep", words, nothing);
        _exit(100);
    }
    ended_well(child);
}

static void read_by_another(int way)
{
    pid_t child = -1;
    if (way == 0)
        CHECK(posix_spawn(&child, "/bin/grep", NULL, NULL, words, nothing) == 0);
    else if (way == 1)
        CHECK(posix_spawnp(&child, "grep", NULL, NULL, words, nothing) == 0);
    else if (way == 2)
        CHECK(system(command) == 0);
    else if (way == 3)
        CHECK(pclose(popen(command, "r")) == 0);
    else if (way == 4)
        execute(fork(), false);
    else if (way == 5)
        execute(fork(), true);
    else
        execute(vfork(), false);
    if (way <= 1)
        ended_well(child);
}

/* ---- vfork ---- */

static volatile sig_atomic_t handled, faulted;

static void on_signal(int number)
{
    if (number == SIGSEGV)
        faulted++;
    else
        handled++;
}

/* What its child does with signals and descriptors is its own; memory is shared. */
static void vfork_shares(int fd)
{
    static volatile int told;
    static char *const mask[] = {"grep", "-qx", "SigBlk:\t0000000000000000", "/proc/self/status",
                                 NULL};
    char got[5];
    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR && signal(SIGSEGV, on_signal) != SIG_ERR);
    CHECK(pwrite(fd, "first", 5, 0) == 5);
    pid_t child = vfork();
    if (child == 0) {
        told = getpid();
        raise(SIGUSR1);
        signal(SIGUSR1, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        close(fd);
        open("/dev/null", O_RDONLY);
        execve("/bin/grep", mask, nothing);
        _exit(100);
    }
    CHECK(told == child);
    ended_well(child);
    CHECK(handled == 1);
    CHECK(raise(SIGUSR1) == 0 && handled == 2);
    CHECK(raise(SIGSEGV) == 0 && faulted == 1);
    CHECK(pread(fd, got, 5, 0) == 5 && memcmp(got, "first", 5) == 0);
    CHECK(pwrite(fd, "again", 5, 0) == 5 && fsync(fd) == 0);
    /* A child of the child has its own memory, and is served. */
    child = vfork();
    if (child == 0) {
        pid_t second = fork();
        if (second == 0)
            _exit(pwrite(fd, "third", 5, 0) == 5 && fsync(fd) == 0 ? 0 : 1);
        int status = 1;
        waitpid(second, &status, 0);
        _exit(status != 0);
    }
    ended_well(child);
    CHECK(pread(fd, got, 5, 0) == 5 && memcmp(got, "third", 5) == 0);
    /* One that cannot be made. */
    struct rlimit own, none = {0, 0};
    CHECK(getrlimit(RLIMIT_NPROC, &own) == 0);
    none.rlim_max = own.rlim_max;
    if (geteuid() != 0 && setrlimit(RLIMIT_NPROC, &none) == 0) {
        errno = 0;
        CHECK(vfork() == -1 && errno == EAGAIN);
        CHECK(setrlimit(RLIMIT_NPROC, &own) == 0);
    }
}

int main(int argc, char **argv)
{
    static char line[BYTES], back[BYTES];
    snprintf(file, sizeof(file), "%s/spawned", directory(argc, argv));
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    for (int way = 0; way < WAYS; way++) {
        for (int round = 0; round < ROUNDS; round++) {
            /* The same place again and again, and the end of the file. */
            snprintf(wanted, sizeof(wanted), "written before way %d, %d", way, round);
            snprintf(command, sizeof(command), "LD_PRELOAD= grep -qxF '%s' '%s'", wanted, file);
            memset(line, 'x', sizeof(line));
            line[0] = '\n';
            memcpy(line + 1, wanted, strlen(wanted));
            line[1 + strlen(wanted)] = '\n';
            off_t at = round % 2 ? (off_t)(way * ROUNDS + round) * BYTES : 0;
            CHECK(pwrite(fd, line, sizeof(line), at) == (ssize_t)sizeof(line));
            read_by_another(way);
            CHECK(pread(fd, back, sizeof(back), at) == (ssize_t)sizeof(back));
            CHECK(memcmp(back, line, sizeof(back)) == 0);
        }
    }
    vfork_shares(fd);
    CHECK(close(fd) == 0 && unlink(file) == 0);
    return 0;
}
