/*
 * Two processes write to places of their own in a file. One is stopped again and again, at any
 * instruction: the other one writes and reads on each time, and nothing comes of the one that is
 * stopped.
 *
 *     stopped DIRECTORY [TIMES]
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "program.h"

enum { PAGE = 8192, PAGES = 512, TIMES = 200, WARM = 20000, MORE = 2000, LIMIT_S = 100 };

static _Atomic unsigned long *counts; /* of writes: shared */

static void write_for_ever(const char *path, unsigned who)
{
    static uint8_t page[PAGE], seen[PAGE];
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        fail("%s: %s", path, strerror(errno));
    for (unsigned long i = 0;; i++) {
        off_t at = (off_t)(who * PAGES + i % PAGES) * PAGE;
        memcpy(page, &i, sizeof(i));
        CHECK(pwrite(fd, page, PAGE, at) == PAGE);
        CHECK(i % 16 || (pread(fd, seen, PAGE, at) == PAGE && memcmp(page, seen, PAGE) == 0));
        atomic_store(&counts[who * 8], i);
    }
}

static bool reaches(unsigned who, unsigned long count)
{
    for (int ms = 0; ms < LIMIT_S * 1000; ms++) {
        if (atomic_load(&counts[who * 8]) >= count)
            return true;
        usleep(1000);
    }
    return false;
}

int main(int argc, char **argv)
{
    pid_t children[2];
    unsigned times = argc > 2 ? (unsigned)atoi(argv[2]) : TIMES, stood_still = 0;
    counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counts != MAP_FAILED);
    for (unsigned who = 0; who < 2; who++) {
        if ((children[who] = fork()) == 0)
            write_for_ever(below(directory(argc, argv), "stopped"), who);
    }
    bool fine = reaches(0, WARM) && reaches(1, WARM);
    for (unsigned i = 0; i < times && fine && !stood_still; i++) {
        usleep((unsigned)rand() % 10000);
        stop_process(children[0]);
        unsigned long before = atomic_load(&counts[0]);
        stood_still += !reaches(1, atomic_load(&counts[8]) + MORE);
        fine = atomic_load(&counts[0]) == before;
        kill(children[0], SIGCONT);
    }
    kill(children[0], SIGKILL);
    kill(children[1], SIGKILL);
    if (!fine)
        fail("a process that was stopped did not stop, or one did not write at all");
    if (stood_still)
        fail("a process stood still while another one was stopped");
    return 0;
}
