/*
 * Many processes that are started one by one, have one file open at the same time, read and write
 * it, and end. CROWD in the environment says how many. Prints what one costs.
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "program.h"

enum { PART = 8192 };

static char part[PART], got[PART];

/* Says on `ready` that it has read, and goes on when `go` ends. */
static int member(const char *name, int number, int ready, int go)
{
    off_t at = (off_t)number * PART;
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0);
    CHECK(pread(fd, got, PART, 0) == PART);
    CHECK(differs(got, PART, 0, 1) < 0);
    CHECK(write(ready, "r", 1) == 1);
    CHECK(read(go, got, 1) == 0);
    fill(part, PART, (uint64_t)at, 2);
    CHECK(pwrite(fd, part, PART, at) == PART);
    CHECK(fsync(fd) == 0);
    CHECK(pread(fd, got, PART, at) == PART);
    CHECK(differs(got, PART, (uint64_t)at, 2) < 0);
    return 0;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* What the process has of memory, with its share of what it has together with others; KiB. */
static long memory_of(pid_t pid)
{
    char path[64], line[256];
    long size = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "Pss: %ld", &size) == 1)
            break;
    }
    if (file)
        fclose(file);
    return size;
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
    const char *name = below(directory(argc, argv), "crowd");
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
        char *arguments[] = {argv[0],    (char *)"member", (char *)(uintptr_t)name,
                             numbers[0], numbers[1],       numbers[2],
                             NULL};
        pids[i] = start(arguments);
    }
    close(ready[1]);
    for (int i = 0; i < count; i++)
        CHECK(read(ready[0], &byte, 1) == 1);
    double had = now();
    long memory = 0;
    for (int i = 0; i < count; i++)
        memory += memory_of(pids[i]);
    double looked = now();
    close(go[1]);
    for (int i = 0; i < count; i++) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK(status == 0);
    }
    double ended = now();
    for (int i = 0; i < count; i++) {
        off_t at = (off_t)(i + 1) * PART;
        CHECK(pread(fd, got, PART, at) == PART);
        CHECK(differs(got, PART, (uint64_t)at, 2) < 0);
    }
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("# %d processes: %.1f s until all had read, %.1f s until all had written; for each "
           "%.2f ms of CPU, %ld KiB\n",
           count, had - began, ended - looked, cpu * 1000 / count, memory / count);
    free(pids);
    return 0;
}
