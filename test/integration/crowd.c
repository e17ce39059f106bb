/*
 * Many processes that are started one by one, have one file open at the same time, read and write
 * it, and end; some are killed, and what they wrote is there as well. CROWD in the environment says
 * how many. Prints what one costs.
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "program.h"

enum {
    PART = 8192,
    PARTS = 64,         /* that each writes */
    PRIVATE_KIB = 1024, /* that each may have for itself, at most */
    KILLED = 3,         /* one of so many */
    PATIENCE_MS = 20000
};

static char part[PART], got[PART];

static off_t place_of(int number, int i)
{
    return ((off_t)number * PARTS + i) * PART;
}

static void look(int fd, int number)
{
    for (int i = 0; i < PARTS; i++) {
        off_t at = place_of(number, i);
        CHECK(pread(fd, got, PART, at) == PART);
        CHECK(differs(got, PART, (uint64_t)at, 2) < 0);
    }
}

/* Says on `ready` that it has written, and goes on when `go` ends. */
static int member(const char *name, int number, int ready, int go)
{
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0);
    CHECK(pread(fd, got, PART, 0) == PART);
    CHECK(differs(got, PART, 0, 1) < 0);
    for (int i = 0; i < PARTS; i++) {
        off_t at = place_of(number, i);
        fill(part, PART, (uint64_t)at, 2);
        CHECK(pwrite(fd, part, PART, at) == PART);
    }
    CHECK(write(ready, "r", 1) == 1);
    CHECK(read(go, got, 1) == 0);
    CHECK(fsync(fd) == 0);
    look(fd, number);
    return 0;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* What the process has of memory: `field` of the sums of its maps; KiB. */
static long memory_of(pid_t pid, const char *field)
{
    char path[64], line[256];
    long size = 0, sum = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, field, strlen(field)) == 0 &&
            sscanf(strchr(line, ':') + 1, "%ld", &size) == 1)
            sum += size;
    }
    if (file)
        fclose(file);
    return sum;
}

/* The most that one of them has for itself, not counting pages of the registry, as soon as that is
 * little: a process that has just written may be sending it. */
static long private_memory(const pid_t *pids, int count)
{
    long most = 0;
    for (int i = 0, ms = 0; i < count; i++) {
        long size;
        while ((size = memory_of(pids[i], "Anonymous")) > PRIVATE_KIB && ms++ < PATIENCE_MS)
            usleep(1000);
        most = size > most ? size : most;
    }
    return most;
}

/* Of the registry, which all processes of the library share; 0 without it. KiB. */
static long registry_size(void)
{
    struct stat status;
    const char *run = getenv("DIRECTNFS_RUN");
    if (!run || stat(below(run, "registry"), &status) < 0)
        return 0;
    return (long)status.st_blocks / 2;
}

static pid_t start(char *const argv[])
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv)
{
    if (argc == 6)
        return member(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
    const char *wanted = getenv("CROWD");
    int count = wanted ? atoi(wanted) : 40, ready[2], go[2], status;
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/crowd", directory(argc, argv));
    pid_t *pids = calloc((size_t)count, sizeof(*pids));
    char numbers[3][16], byte;
    CHECK(pids && pipe(ready) == 0 && pipe(go) == 0);
    CHECK(fcntl(go[1], F_SETFD, FD_CLOEXEC) == 0);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    fill(part, PART, 0, 1);
    CHECK(fd >= 0 && pwrite(fd, part, PART, 0) == PART);

    double began = now();
    snprintf(numbers[1], sizeof(numbers[1]), "%d", ready[1]);
    snprintf(numbers[2], sizeof(numbers[2]), "%d", go[0]);
    for (int i = 0; i < count; i++) {
        snprintf(numbers[0], sizeof(numbers[0]), "%d", i + 1);
        char *arguments[] = {argv[0],    (char *)"member", name, numbers[0],
                             numbers[1], numbers[2],       NULL};
        pids[i] = start(arguments);
    }
    close(ready[1]);
    for (int i = 0; i < count; i++)
        CHECK(read(ready[0], &byte, 1) == 1);
    double had = now();
    long memory = 0, most = private_memory(pids, count);
    for (int i = 0; i < count; i++)
        memory += memory_of(pids[i], "Pss");
    if (most > PRIVATE_KIB)
        fail("a process that waits has %ld KiB for itself", most);
    for (int i = 0; i < count; i += KILLED)
        kill(pids[i], SIGKILL);
    double looked = now();
    close(go[1]);
    for (int i = 0; i < count; i++) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK(status == (i % KILLED == 0 ? SIGKILL : 0));
    }
    double ended = now();
    for (int i = 0; i < count; i++)
        look(fd, i + 1);
    CHECK(fsync(fd) == 0);
    for (int i = 0; i < count; i++)
        look(fd, i + 1);
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("# %d processes: %.1f s until all had read, %.1f s until all had written; for each "
           "%.2f ms of CPU, %ld KiB\n",
           count, had - began, ended - looked, cpu * 1000 / count, memory / count);
    printf("# %ld KiB are private at most; the registry has %ld KiB\n", most, registry_size());
    free(pids);
    return 0;
}
