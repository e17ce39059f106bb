/*
 * A program without the library, which reads through the kernel, is started right after a write: it
 * finds what was written. By every way to start one.
 */
#include <spawn.h>
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
    CHECK(close(fd) == 0 && unlink(file) == 0);
    return 0;
}
