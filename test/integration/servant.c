/* A server that forks in a handler, as PostgreSQL did until version 15: the child goes on for ever,
 * in that handler. It reads a file in sequence. The script looks whether it is read ahead. */
#include <signal.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "program.h"

enum { BLOCK = 8192, BLOCKS = 64 };

static const char *name = "file";
static volatile sig_atomic_t child;

static void serve(void)
{
    static char block[BLOCK];
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(pread(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK && block[0] == i);
    _exit(0);
}

static void fork_one(int number)
{
    int saved = errno;
    (void)number;
    if ((child = fork()) == 0)
        serve();
    errno = saved;
}

int main(int argc, char **argv)
{
    static char block[BLOCK];
    struct sigaction action = {.sa_handler = fork_one, .sa_flags = SA_RESTART};
    sigset_t all, before;
    int status;

    CHECK(chdir(directory(argc, argv)) == 0);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < BLOCKS; i++) {
        memset(block, i, BLOCK);
        CHECK(pwrite(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK);
    }
    CHECK(fsync(fd) == 0);
    CHECK(sigfillset(&all) == 0 && sigprocmask(SIG_BLOCK, &all, &before) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(pselect(0, NULL, NULL, NULL, NULL, &before) == -1 && errno == EINTR);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
