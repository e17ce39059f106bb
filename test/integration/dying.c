/*
 * Many processes that write their files and are killed between two writes.
 *
 *   dying DIRECTORY COUNT AT_ONCE MS    as many at a time until so many have died; each wrote for
 * so long. With COUNT the same as AT_ONCE all die together. DIRECTORY/written: how many pages each
 * wrote. dying DIRECTORY                     by another way than the first: is all there that
 * write() has returned for? Exits with 1 if it is not, yet.
 */
#include <time.h>

#include "program.h"

enum { PAGE = 8192, MOST = 4096, PAGES = 16 };

static char page[PAGE];

/* How many pages each has written. */
static uint32_t *written;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void name_of(char name[PATH_MAX], const char *directory, unsigned number)
{
    snprintf(name, PATH_MAX, "%s/dying.%u", directory, number);
}

/* A page that is written again and again has the number of the last write. */
static void stamp(unsigned number, uint32_t count)
{
    uint32_t *words = (uint32_t *)page;
    for (unsigned i = 0; i < PAGE / sizeof(*words); i++)
        words[i] = number * 65536 + count;
}

static void write_and_die(const char *directory, unsigned number, uint64_t until_ms)
{
    char name[PATH_MAX];
    name_of(name, directory, number);
    int fd = open(name, O_RDWR | O_CREAT, 0666);
    CHECK(fd >= 0);
    do {
        stamp(number, written[number]);
        CHECK(pwrite(fd, page, PAGE, written[number] % PAGES * PAGE) == PAGE);
        written[number]++;
        usleep(2000);
    } while (now_ms() < until_ms);
    kill(getpid(), SIGKILL);
}

static void die(const char *directory, unsigned count, unsigned at_once, unsigned ms)
{
    unsigned begun = 0, living = 0;
    uint64_t together_ms = now_ms() + ms;
    int status;
    while (begun < count || living > 0) {
        if (begun < count && living < at_once) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0)
                write_and_die(directory, begun, count == at_once ? together_ms : now_ms() + ms);
            begun++;
            living++;
            continue;
        }
        CHECK(wait(&status) > 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        living--;
    }
}

static bool is_there(const char *directory, unsigned number)
{
    char name[PATH_MAX], got[PAGE];
    uint32_t first = written[number] > PAGES ? written[number] - PAGES : 0;
    name_of(name, directory, number);
    int fd = open(name, O_RDONLY);
    bool there = fd >= 0;
    for (uint32_t i = first; there && i < written[number]; i++) {
        stamp(number, i);
        there = pread(fd, got, PAGE, i % PAGES * PAGE) == PAGE && memcmp(got, page, PAGE) == 0;
    }
    if (fd >= 0)
        close(fd);
    return there;
}

int main(int argc, char **argv)
{
    unsigned missing = 0;
    CHECK(argc == 3 || argc == 6);
    int fd = open(argv[2], argc == 3 ? O_RDWR : O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && ftruncate(fd, MOST * sizeof(*written)) == 0);
    written = mmap(NULL, MOST * sizeof(*written), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(written != MAP_FAILED);
    if (argc == 6) {
        die(argv[1], (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]));
        return 0;
    }
    for (unsigned i = 0; i < MOST && written[i]; i++)
        missing += !is_there(argv[1], i);
    if (missing > 0)
        fail("of %u files something is missing", missing);
    return 0;
}
