/*
 * What the scenes of behind.c share: processes that go step by step, files whose names say what is
 * in them, and the fault laboratory's programs.
 */
#ifndef INTEGRATION_BEHIND_H
#define INTEGRATION_BEHIND_H

#include <glob.h>
#include <stddef.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "directnfs/stats.h"
#include "program.h"

enum { PROCESSES = 8, PATIENCE_S = 50, KIB = 1024, MIB = 1024 * KIB, PIECE = 8 * KIB };

static const char *work, *proxy_socket, *power_socket;

/* Shared by all processes. */
static struct stage {
    _Atomic int reached[PROCESSES]; /* by each */
    _Atomic int go;                 /* up to which step they may go */
    _Atomic uint64_t issued, written;
} * stage;
static pid_t players[PROCESSES];

/* ---- steps ---- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void play(unsigned player, void (*part)(unsigned player))
{
    fflush(stdout);
    players[player] = fork();
    CHECK(players[player] >= 0);
    if (players[player] == 0) {
        part(player);
        _exit(0);
    }
}

/* Of a player: it has come so far, and goes on when it may. */
static void reach(unsigned player, int step)
{
    atomic_store(&stage->reached[player], step);
    while (atomic_load(&stage->go) < step)
        usleep(500);
}

static bool has_ended(unsigned player)
{
    int status;
    if (waitpid(players[player], &status, WNOHANG) == 0)
        return false;
    if (status != 0)
        fail("process %u ended with %#x", player, (unsigned)status);
    return true;
}

static void await(unsigned player, int step)
{
    double limit = now() + PATIENCE_S;
    while (atomic_load(&stage->reached[player]) < step) {
        if (has_ended(player) || now() > limit)
            fail("process %u does not come to step %d", player, step);
        usleep(500);
    }
}

static void await_all(unsigned count, int step)
{
    for (unsigned i = 0; i < count; i++)
        await(i, step);
}

static void go(int step)
{
    atomic_store(&stage->go, step);
}

static void await_end(unsigned player)
{
    double limit = now() + PATIENCE_S;
    while (!has_ended(player)) {
        if (now() > limit)
            fail("process %u does not end", player);
        usleep(500);
    }
}

static void kill_player(unsigned player)
{
    int status;
    kill(players[player], SIGKILL);
    CHECK(waitpid(players[player], &status, 0) == players[player]);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void stage_clear(void)
{
    memset((void *)stage, 0, sizeof(*stage));
}

/* ---- files ---- */

/* How many WRITEs this process gathered of what it left behind; 0: not known yet. */
static uint64_t gathered(void)
{
    char pattern[512];
    glob_t found;
    uint64_t count = 0;
    snprintf(pattern, sizeof(pattern), "%s/stats.%d.*", getenv("DIRECTNFS_RUN"), (int)getpid());
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    int fd = open(found.gl_pathv[0], O_RDONLY);
    CHECK(pread(fd, &count, sizeof(count),
                offsetof(struct directnfs_stats, counters.gathered_writes)) == sizeof(count));
    close(fd);
    globfree(&found);
    return count;
}

/* From now on this process leaves behind what it writes: an agent cares for it. */
static void warm_up(void)
{
    static pid_t warm;
    char name[64];
    if (warm == getpid())
        return;
    warm = getpid();
    snprintf(name, sizeof(name), "warm.%d", (int)warm);
    int fd = open(below(work, name), O_RDWR | O_CREAT, 0644);
    uint64_t before = gathered();
    double limit = now() + PATIENCE_S;
    do {
        CHECK(pwrite(fd, name, sizeof(name), 0) == sizeof(name));
        CHECK(fsync(fd) == 0); /* sends it in a WRITE that counts, if it was left */
        CHECK(now() < limit);
        usleep(5000);
    } while (gathered() <= before);
    close(fd);
    unlink(below(work, name));
}

/* In the end it has so many bytes of fill(..., seed): look_at_whole_files() takes that from the
 * name. */
static int open_named(const char *scene, unsigned seed, size_t size, int flags)
{
    char name[64];
    warm_up();
    snprintf(name, sizeof(name), "%s-%u-%zu", scene, seed, size);
    int fd = open(below(work, name), O_RDWR | O_CREAT | flags, 0644);
    CHECK(fd >= 0);
    return fd;
}

static void put(int fd, size_t from, size_t to, size_t step, unsigned seed)
{
    static uint8_t bytes[64 * KIB];
    for (size_t at = from; at < to; at += step) {
        size_t length = to - at < step ? to - at : step;
        fill(bytes, length, at, seed);
        CHECK(pwrite(fd, bytes, length, (off_t)at) == (ssize_t)length);
    }
}

static void look(int fd, size_t from, size_t to, unsigned seed)
{
    static uint8_t bytes[64 * KIB];
    for (size_t at = from; at < to; at += sizeof(bytes)) {
        size_t length = to - at < sizeof(bytes) ? to - at : sizeof(bytes);
        ssize_t got = pread(fd, bytes, length, (off_t)at), bad;
        if (got != (ssize_t)length)
            fail("%zd of %zu bytes were read at %zu: %s", got, length, at, strerror(errno));
        if ((bad = differs(bytes, length, at, seed)) >= 0)
            fail("a wrong byte at %zu, %#x; of seed %u", at + (size_t)bad, bytes[bad], seed);
    }
}

static void look_for_zeros(int fd, size_t from, size_t to)
{
    static uint8_t bytes[64 * KIB], zeros[64 * KIB];
    for (size_t at = from; at < to; at += sizeof(bytes)) {
        size_t length = to - at < sizeof(bytes) ? to - at : sizeof(bytes);
        CHECK(pread(fd, bytes, length, (off_t)at) == (ssize_t)length);
        CHECK(memcmp(bytes, zeros, length) == 0);
    }
}

static size_t size_of(int fd)
{
    struct stat status;
    CHECK(fstat(fd, &status) == 0);
    return (size_t)status.st_size;
}

/* Of a process without the library: is what the server has as the names say? */
static int look_at_whole_files(void)
{
    unsigned count = 0;
    DIR *files = opendir(work);
    CHECK(files != NULL);
    for (struct dirent *one; (one = readdir(files));) {
        unsigned seed;
        size_t size;
        if (sscanf(one->d_name, "%*[a-z]-%u-%zu", &seed, &size) != 2)
            continue;
        int fd = open(below(work, one->d_name), O_RDONLY);
        CHECK(fd >= 0);
        if (size_of(fd) != size)
            fail("%s has %zu bytes", one->d_name, size_of(fd));
        look(fd, 0, size, seed);
        close(fd);
        count++;
    }
    closedir(files);
    printf("%u files\n", count);
    return count > 0 ? 0 : 1;
}

/* ---- the laboratory ---- */

/* Gives a command to what listens at `path`; its answer. */
static const char *ask(const char *path, const char *command)
{
    static char answer[8192];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t used = 0;
    ssize_t got;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(send(fd, command, strlen(command), MSG_NOSIGNAL) == (ssize_t)strlen(command));
    while ((got = recv(fd, answer + used, sizeof(answer) - 1 - used, 0)) > 0)
        used += (size_t)got;
    answer[used] = '\0';
    close(fd);
    if (used == 0 || strncmp(answer, "error", 5) == 0)
        fail("%s: %s", command, answer);
    return answer;
}

/* A counter, summed over what the answer tells of. */
static unsigned long counter(const char *path, const char *command, const char *name)
{
    char word[64];
    unsigned long sum = 0;
    snprintf(word, sizeof(word), " %s=", name);
    for (const char *at = ask(path, command); (at = strstr(at, word)); at += strlen(word))
        sum += strtoul(at + strlen(word), NULL, 10);
    return sum;
}

static void await_counter(const char *path, const char *command, const char *name,
                          unsigned long least)
{
    double limit = now() + PATIENCE_S;
    while (counter(path, command, name) < least) {
        if (now() > limit)
            fail("%s: never %lu", name, least);
        usleep(1000);
    }
}

#endif
