/*
 * A process writes, over the same places and at the end of a file, and is killed; another one reads
 * and flushes meanwhile. What write(2) acknowledged is read back, by that one and by the next, and
 * nothing is older than what was read before.
 *
 *     kills DIRECTORY [KILLS [EXPECTED]]    EXPECTED: a directory for what the files should have
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "program.h"

/* No block or record crosses a page, so that a kernel that is killed writes it or does not. */
enum {
    FILES = 3,
    BLOCKS = 32,
    BLOCK = 4096,
    RECORD = 512,
    RECORDS = 200000,
    KILLS = 30,
    ATTEMPTS = 100
};

/* What the writers did; shared. A version is issued before its write and acknowledged after it. */
static struct journal {
    _Atomic uint32_t issued[FILES][BLOCKS], acknowledged[FILES][BLOCKS];
    _Atomic uint32_t records_issued, records;
    _Atomic uint32_t writes;
} * journal;

static uint32_t seen[FILES][BLOCKS];
static int files[FILES], records;
static char paths[FILES + 1][PATH_MAX];
static unsigned random_state;
static pid_t writer; /* 0: nobody writes */

static unsigned any(unsigned below)
{
    return (unsigned)rand_r(&random_state) % below;
}

static void stamp(uint32_t *words, size_t bytes, uint32_t place, uint32_t version)
{
    for (size_t i = 0; i < bytes / 4; i++)
        words[i] = i % 2 ? place : version;
}

/* The word that is not of the version of the first one. 0: all are. */
static unsigned torn_at(const uint32_t *words, size_t bytes, uint32_t place)
{
    uint32_t version = words[0];
    for (unsigned i = 1; i < bytes / 4; i++)
        if (words[i] != (i % 2 ? version ? place : 0 : version))
            return i;
    return 0;
}

/* Reads `count` blocks from `place` on, or one record. A read may meet a write under way and see a
 * part of it, as on any file system that does not lock a page for a read. While a writer lives it
 * is done again, then. */
static void read_whole(int fd, off_t offset, uint32_t *words, unsigned count, size_t bytes,
                       uint32_t place)
{
    unsigned torn = 1;
    for (unsigned attempt = 1; torn; attempt++) {
        CHECK(pread(fd, words, count * bytes, offset) == (ssize_t)(count * bytes));
        torn = 0;
        for (unsigned i = 0; i < count && !torn; i++) {
            const uint32_t *block = words + i * bytes / 4;
            torn = torn_at(block, bytes, place + i);
            if (torn && (!writer || attempt == ATTEMPTS))
                fail("place %u is torn: word %u is %u, the first %u", place + i, torn, block[torn],
                     block[0]);
        }
    }
}

/* ---- the writer ---- */

static void write_blocks(unsigned file)
{
    static uint32_t words[4 * BLOCK / 4];
    unsigned first = any(BLOCKS), count = 1 + any(4);
    if (first + count > BLOCKS)
        count = BLOCKS - first;
    for (unsigned i = 0; i < count; i++) {
        uint32_t version = atomic_fetch_add(&journal->issued[file][first + i], 1) + 1;
        stamp(words + i * BLOCK / 4, BLOCK, file * BLOCKS + first + i, version);
    }
    ssize_t length = (ssize_t)count * BLOCK;
    CHECK(pwrite(files[file], words, (size_t)length, (off_t)first * BLOCK) == length);
    for (unsigned i = 0; i < count; i++)
        atomic_store(&journal->acknowledged[file][first + i],
                     atomic_load(&journal->issued[file][first + i]));
}

static void append_record(void)
{
    uint32_t words[RECORD / 4], number = atomic_load(&journal->records);
    if (number == RECORDS)
        return;
    stamp(words, RECORD, 1000, number + 1);
    atomic_store(&journal->records_issued, number + 1);
    CHECK(write(records, words, RECORD) == RECORD);
    atomic_store(&journal->records, number + 1);
}

/* ---- what is there ---- */

static void look_at_blocks(unsigned file, unsigned first, unsigned count)
{
    static uint32_t words[BLOCKS * BLOCK / 4];
    uint32_t least[BLOCKS];
    for (unsigned i = first; i < first + count; i++)
        least[i] = atomic_load(&journal->acknowledged[file][i]);
    read_whole(files[file], (off_t)first * BLOCK, words, count, BLOCK, file * BLOCKS + first);
    for (unsigned i = first; i < first + count; i++) {
        uint32_t place = file * BLOCKS + i, version = words[(i - first) * BLOCK / 4];
        if (version < least[i] || version < seen[file][i])
            fail("place %u: version %u was acknowledged, %u was read, and now %u", place, least[i],
                 seen[file][i], version);
        if (version > atomic_load(&journal->issued[file][i]))
            fail("place %u: version %u was never written", place, version);
        seen[file][i] = version;
    }
}

static void look_at_record(uint32_t number)
{
    uint32_t words[RECORD / 4];
    read_whole(records, (off_t)number * RECORD, words, 1, RECORD, 1000);
    if (words[0] != number + 1)
        fail("record %u has the number %u", number + 1, words[0]);
}

/* Nobody writes. What was being appended when its writer was killed is there as a whole, or not. */
static void look_at_all(void)
{
    for (unsigned file = 0; file < FILES; file++)
        look_at_blocks(file, 0, BLOCKS);
    off_t size = lseek(records, 0, SEEK_END);
    uint32_t number = atomic_load(&journal->records);
    if (size != (off_t)number * RECORD && size != (off_t)(number + 1) * RECORD)
        fail("%u records were acknowledged, and there are %lld bytes", number, (long long)size);
    number = (uint32_t)(size / RECORD);
    CHECK(number <= atomic_load(&journal->records_issued));
    atomic_store(&journal->records, number);
    for (uint32_t i = number > 20 ? number - 20 : 0; i < number; i++)
        look_at_record(i);
}

static void look_at_something(void)
{
    unsigned first = any(BLOCKS);
    uint32_t number = atomic_load(&journal->records);
    look_at_blocks(any(FILES), first, 1 + any(BLOCKS - first));
    if (number > 0)
        look_at_record(number - 1 - any(number > 20 ? 20 : number));
}

/* ---- processes ---- */

static void open_all(void)
{
    for (unsigned file = 0; file < FILES; file++)
        CHECK((files[file] = open(paths[file], O_RDWR | O_CREAT, 0644)) >= 0);
    CHECK((records = open(paths[FILES], O_RDWR | O_CREAT | O_APPEND, 0644)) >= 0);
}

static void sync_all(void)
{
    for (unsigned file = 0; file < FILES; file++)
        CHECK(fsync(files[file]) == 0);
    CHECK(fsync(records) == 0);
}

/* Opens the files itself, as a program that starts again, and looks at what was left. */
static void write_until_killed(unsigned seed)
{
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0); /* when the other one fails */
    random_state = seed;
    for (unsigned file = 0; file < FILES; file++)
        close(files[file]);
    close(records);
    open_all();
    look_at_all();
    for (;; atomic_fetch_add(&journal->writes, 1)) {
        if (any(4) == 0)
            append_record();
        else
            write_blocks(any(FILES));
        if (any(200) == 0)
            CHECK(fsync(files[any(FILES)]) == 0);
    }
}

static void kill_one(unsigned number)
{
    int status;
    uint32_t writes = atomic_load(&journal->writes);
    writer = fork();
    if (writer == 0)
        write_until_killed(number);
    CHECK(writer > 0);
    uint32_t enough = writes + 1 + any(100);
    while (atomic_load(&journal->writes) < enough) {
        if (waitpid(writer, &status, WNOHANG) != 0)
            fail("the writer ended: %d", status);
        look_at_something();
        if (any(10) == 0)
            CHECK(fsync(any(2) ? files[any(FILES)] : records) == 0);
    }
    nanosleep(&(struct timespec){.tv_nsec = (long)any(2000000)}, NULL);
    kill(writer, SIGKILL);
    CHECK(waitpid(writer, &status, 0) == writer);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    writer = 0;
    if (any(2))
        look_at_all(); /* else the next writer is the first to do so */
}

static void write_expected(const char *directory)
{
    static uint32_t words[BLOCK / 4];
    for (unsigned file = 0; file <= FILES; file++) {
        char path[2 * PATH_MAX];
        snprintf(path, sizeof(path), "%s/%s", directory, strrchr(paths[file], '/') + 1);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        CHECK(fd >= 0);
        for (unsigned i = 0; file < FILES && i < BLOCKS; i++) {
            stamp(words, BLOCK, seen[file][i] ? file * BLOCKS + i : 0, seen[file][i]);
            CHECK(write(fd, words, BLOCK) == BLOCK);
        }
        for (uint32_t i = 0; file == FILES && i < atomic_load(&journal->records); i++) {
            stamp(words, RECORD, 1000, i + 1);
            CHECK(write(fd, words, RECORD) == RECORD);
        }
        CHECK(close(fd) == 0);
    }
}

int main(int argc, char **argv)
{
    const char *work = directory(argc > 2 ? 2 : argc, argv);
    unsigned kills = argc > 2 ? (unsigned)atoi(argv[2]) : KILLS;
    journal =
        mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(journal != MAP_FAILED);
    for (unsigned file = 0; file <= FILES; file++)
        snprintf(paths[file], sizeof(paths[file]), "%s/killed%u", work, file);
    open_all();
    for (unsigned file = 0; file < FILES; file++)
        CHECK(ftruncate(files[file], (off_t)BLOCKS * BLOCK) == 0);
    CHECK(ftruncate(records, 0) == 0);
    for (unsigned i = 1; i <= kills; i++)
        kill_one(i);
    look_at_all();
    sync_all();
    look_at_all();
    printf("%u kills, %u writes\n", kills, atomic_load(&journal->writes));
    if (argc > 3)
        write_expected(argv[3]);
    return 0;
}
