/*
 * Reads, writes and syncs while a server lies (power_lies.h), and judges what the calls say. A call
 * may fail, and may take its time, within a bound; what succeeds must be right. When the server
 * tells the truth again everything must work again.
 *
 *     hostile FILE SOCKET LIE PERCENT MS STATE [early]
 *     hostile --check FILE STATE       what was acknowledged is in the file; without the library
 *
 * FILE holds 288 KiB of zeros at the beginning. SOCKET is the server's; the lie begins when the
 * file is open, or before with `early`. Says in one line what happened.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "control.h"

enum { THREADS = 3, BLOCKS = 24, BLOCK = 4096, MAYBE = 64, BOUND_S = 60, WORDS = BLOCK / 8 };

/* What a block may hold: every word of it the same number. Of one thread. */
struct block {
    uint64_t acknowledged;
    uint64_t maybe[MAYBE]; /* of calls that failed since */
    uint32_t maybes;
};

static struct block blocks[THREADS][BLOCKS];
static _Atomic uint64_t stamp = 1, wrong, failures, successes, longest_ns;
static _Atomic bool ended;
static bool truth; /* nothing may fail any more */
static int file;

static void say_wrong(const char *what, unsigned thread, unsigned index, uint64_t found)
{
    if (atomic_fetch_add(&wrong, 1) == 0)
        printf("WRONG: %s: block %u of thread %u holds %llu, %llu was acknowledged, and %u failed "
               "since\n",
               what, index, thread, (unsigned long long)found,
               (unsigned long long)blocks[thread][index].acknowledged,
               blocks[thread][index].maybes);
}

static off_t offset_of(unsigned thread, unsigned index)
{
    return (off_t)(thread * BLOCKS + index) * BLOCK;
}

static bool may_hold(const struct block *block, uint64_t value)
{
    bool may = value == block->acknowledged;
    for (unsigned i = 0; i < block->maybes; i++)
        may |= block->maybe[i] == value;
    return may;
}

/* Each word on its own: a write that failed may have been done in part. */
static void judge(const char *what, unsigned thread, unsigned index, const uint64_t *words,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (may_hold(&blocks[thread][index], words[i]))
            continue;
        say_wrong(what, thread, index, words[i]);
        return;
    }
}

/* Notes how a call ended that began at `begin`. */
static ssize_t note(uint64_t begin, ssize_t result)
{
    uint64_t took = clock_ns() - begin, longest = atomic_load(&longest_ns);
    while (took > longest && !atomic_compare_exchange_weak(&longest_ns, &longest, took))
        ;
    atomic_fetch_add(result < 0 ? &failures : &successes, 1);
    if (result < 0 && truth && atomic_fetch_add(&wrong, 1) == 0)
        printf("WRONG: a call fails though the server tells the truth: %s\n", strerror(errno));
    return result;
}

#define timed(call)                  \
    ({                               \
        uint64_t begun = clock_ns(); \
        note(begun, (call));         \
    })

static void write_block(unsigned thread, unsigned index)
{
    struct block *block = &blocks[thread][index];
    uint64_t words[WORDS], value = atomic_fetch_add(&stamp, 1);
    if (block->maybes == MAYBE)
        return;
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = value;
    ssize_t done = timed(pwrite(file, words, BLOCK, offset_of(thread, index)));
    if (done == BLOCK) {
        block->acknowledged = value;
        block->maybes = 0;
    } else {
        block->maybe[block->maybes++] = value;
    }
}

/* No block is behind the end of the file: there an error may come, but nothing less. */
static void read_block(unsigned thread, unsigned index)
{
    uint64_t words[WORDS];
    size_t have = 0;
    ssize_t done = 1;
    while (have < BLOCK && done > 0) {
        done = timed(pread(file, (char *)words + have, BLOCK - have,
                           offset_of(thread, index) + (off_t)have));
        have += done > 0 ? (size_t)done : 0;
    }
    judge("read", thread, index, words, have / 8);
    if (done == 0)
        say_wrong("read too little", thread, index, have);
}

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument;
    uint64_t random = mix(thread + 1);
    while (!atomic_load(&ended)) {
        unsigned index = (unsigned)(random_next(&random) % BLOCKS),
                 what = (unsigned)(random_next(&random) % 16);
        struct stat status;
        if (what < 7)
            write_block(thread, index);
        else if (what < 13)
            read_block(thread, index);
        else if (what < 15)
            timed(fsync(file));
        else
            timed(fstat(file, &status));
    }
    return NULL;
}

/* The last words: with the server honest, losses are told once, and then all is well. */
static void settle(void)
{
    uint64_t end = clock_ns() + milliseconds(1000 * (uint64_t)BOUND_S);
    while (fsync(file) != 0 && clock_ns() < end)
        usleep(10000);
    truth = true;
    for (unsigned thread = 0; thread < THREADS; thread++) {
        for (unsigned index = 0; index < BLOCKS; index++) {
            read_block(thread, index);
            write_block(thread, index);
        }
    }
    timed(fsync(file));
    for (unsigned thread = 0; thread < THREADS; thread++) {
        for (unsigned index = 0; index < BLOCKS; index++)
            read_block(thread, index);
    }
}

static void ask(const char *server, const char *what, const char *percent)
{
    char words[256], answer[ANSWER_MOST];
    snprintf(words, sizeof words, "lie %s %s", what, percent);
    if (!control_ask(server, words, answer))
        die("%s: %s", words, answer);
}

static int check(const char *name, const char *state)
{
    int fd = open(state, O_RDONLY | O_CLOEXEC);
    file = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || file < 0 || read(fd, blocks, sizeof blocks) != sizeof blocks)
        die("%s, %s: %s", name, state, strerror(errno));
    truth = true;
    for (unsigned thread = 0; thread < THREADS; thread++) {
        for (unsigned index = 0; index < BLOCKS; index++)
            read_block(thread, index);
    }
    return wrong > 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc == 4 && strcmp(argv[1], "--check") == 0)
        return check(argv[2], argv[3]);
    if (argc < 7)
        die("usage: hostile FILE SOCKET LIE PERCENT MS STATE [early]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 7)
        ask(argv[2], argv[3], argv[4]);
    file = open(argv[1], O_RDWR | O_CLOEXEC);
    if (file < 0)
        die("%s: %s", argv[1], strerror(errno));
    for (unsigned i = 0; i < THREADS * BLOCKS && argc <= 7; i++)
        write_block(i / BLOCKS, i % BLOCKS);
    if (argc <= 7)
        ask(argv[2], argv[3], argv[4]);
    for (unsigned i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) != 0)
            die("no thread");
    }
    usleep((useconds_t)atoi(argv[5]) * 1000);
    atomic_store(&ended, true);
    ask(argv[2], "truth", "");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    settle();
    int fd = open(argv[6], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, blocks, sizeof blocks) != sizeof blocks || close(fd) != 0)
        die("%s: %s", argv[6], strerror(errno));
    if (longest_ns > milliseconds(1000 * (uint64_t)BOUND_S) && atomic_fetch_add(&wrong, 1) == 0)
        printf("WRONG: a call took more than %d s\n", BOUND_S);
    printf("%llu calls succeeded, %llu failed, the longest took %.1f s\n",
           (unsigned long long)successes, (unsigned long long)failures, (double)longest_ns / 1e9);
    return wrong > 0;
}
