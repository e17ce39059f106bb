// preadloop: an ordinary program that reads or writes blocks of a file, one call at a time per
// thread. It knows nothing of NFS; run it as it is, or under `directnfs run`.
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure.h"

static struct {
    bool write, random, dsync;
    uint64_t size, count, threads, file_size, warm_up;
    const char *path;
} option = {.size = 8192, .count = 200000, .threads = 1};

struct worker {
    pthread_t thread;
    uint64_t random_state, next_block, ops;
    unsigned char *buffer;
    struct histogram latency;
};

static int file;
static uint64_t blocks;
static pthread_barrier_t begin, end;

static void transfer(struct worker *w)
{
    uint64_t block = option.random ? random_next(&w->random_state) % blocks : w->next_block;
    off_t offset = (off_t)(block * option.size);
    w->next_block = w->next_block + 1 == blocks ? 0 : w->next_block + 1;
    ssize_t n = option.write ? pwrite(file, w->buffer, option.size, offset)
                             : pread(file, w->buffer, option.size, offset);
    if (n != (ssize_t)option.size)
        die("%s at %lld: %s", option.write ? "pwrite" : "pread", (long long)offset,
            n < 0 ? strerror(errno) : "short");
}

static void warm_up(struct worker *w)
{
    for (uint64_t i = 0; i < option.warm_up; i++)
        transfer(w);
}

static void measured_loop(struct worker *w)
{
    uint64_t before = clock_ns();
    for (uint64_t i = 0; i < w->ops; i++) {
        transfer(w);
        uint64_t now = clock_ns();
        histogram_add(&w->latency, now - before);
        before = now;
    }
}

static void *work(void *argument)
{
    warm_up(argument);
    pthread_barrier_wait(&begin);
    measured_loop(argument);
    pthread_barrier_wait(&end);
    return NULL;
}

static void usage(FILE *to)
{
    fputs(
        "usage: preadloop [--rw read|write] [--size BYTES] [--count N] [--threads N]\n"
        "                 [--random | --sequential] [--dsync] [--file-size BYTES] [--warm-up N] "
        "FILE\n"
        "Prints one line of JSON.  The count is that of all threads together, the warm-up that of\n"
        "each.  A file shorter than the file size is filled up first.\n",
        to);
}

static void options_read(int argc, char **argv)
{
    static const struct option options[] = {{"rw", required_argument, NULL, 'w'},
                                            {"size", required_argument, NULL, 's'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"random", no_argument, NULL, 'r'},
                                            {"sequential", no_argument, NULL, 'q'},
                                            {"dsync", no_argument, NULL, 'd'},
                                            {"file-size", required_argument, NULL, 'z'},
                                            {"warm-up", required_argument, NULL, 'u'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool warm_up_given = false;
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (letter) {
        case 'w':
            if (strcmp(optarg, "read") && strcmp(optarg, "write")) {
                usage(stderr);
                exit(2);
            }
            option.write = optarg[0] == 'w';
            break;
        case 's':
            option.size = number_option("size", optarg, 1, 1 << 30);
            break;
        case 'n':
            option.count = number_option("count", optarg, 1, UINT64_MAX);
            break;
        case 't':
            option.threads = number_option("threads", optarg, 1, 1024);
            break;
        case 'r':
        case 'q':
            option.random = letter == 'r';
            break;
        case 'd':
            option.dsync = true;
            break;
        case 'z':
            option.file_size = number_option("file-size", optarg, 1, INT64_MAX);
            break;
        case 'u':
            option.warm_up = number_option("warm-up", optarg, 0, UINT64_MAX);
            warm_up_given = true;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (optind + 1 != argc) {
        usage(stderr);
        exit(2);
    }
    option.path = argv[optind];
    if (!warm_up_given)
        option.warm_up = option.count / option.threads / 10;
}

static void file_prepare(void)
{
    static unsigned char block[64 << 10];
    struct stat st;
    int access = option.write || option.file_size ? O_RDWR | O_CREAT : O_RDONLY;
    file = open(option.path, access | O_CLOEXEC | (option.dsync ? O_DSYNC : 0), 0644);
    if (file < 0 || fstat(file, &st) < 0)
        die("%s: %s", option.path, strerror(errno));
    uint64_t size = (uint64_t)st.st_size;
    memset(block, 'p', sizeof block);
    while (size < option.file_size) {
        uint64_t left = option.file_size - size;
        ssize_t n = pwrite(file, block, left < sizeof block ? left : sizeof block, (off_t)size);
        if (n <= 0)
            die("filling %s: %s", option.path, strerror(errno));
        size += (uint64_t)n;
    }
    blocks = size / option.size;
    if (!blocks)
        die("%s: shorter than one block", option.path);
}

int main(int argc, char **argv)
{
    options_read(argc, argv);
    file_prepare();
    struct worker *worker = calloc(option.threads, sizeof *worker);
    if (!worker)
        die("out of memory");
    pthread_barrier_init(&begin, NULL, (unsigned)option.threads + 1);
    pthread_barrier_init(&end, NULL, (unsigned)option.threads + 1);
    // A program with one thread stays one with one thread: a second one changes what libc and the
    // kernel do for every call.
    bool alone = option.threads == 1;
    for (uint64_t i = 0; i < option.threads; i++) {
        struct worker *w = &worker[i];
        w->random_state = 88172645463325252u + i * 7919;
        w->next_block = i * (blocks / option.threads);
        w->ops = option.count / option.threads + (i < option.count % option.threads);
        if (posix_memalign((void **)&w->buffer, 4096, option.size))
            die("out of memory");
        memset(w->buffer, (int)i + 1, option.size);
        if (!alone && pthread_create(&w->thread, NULL, work, w))
            die("cannot start a thread");
    }
    struct measure m;
    if (alone) {
        warm_up(&worker[0]);
        measure_begin(&m);
        measured_loop(&worker[0]);
        measure_end(&m);
    } else {
        pthread_barrier_wait(&begin);
        measure_begin(&m);
        pthread_barrier_wait(&end);
        measure_end(&m);
    }
    struct histogram *latency = &worker[0].latency;
    for (uint64_t i = 1; i < option.threads; i++)
        histogram_merge(latency, &worker[i].latency);
    for (uint64_t i = 0; i < option.threads; i++) {
        if (!alone)
            pthread_join(worker[i].thread, NULL);
        free(worker[i].buffer);
    }
    measure_print(&m,
                  &(struct measured_work){.rw = option.write ? "write" : "read",
                                          .size = option.size,
                                          .threads = option.threads,
                                          .ops = option.count,
                                          .syscalls = -1},
                  latency);
    free(worker);
    if (close(file) < 0)
        die("%s: close: %s", option.path, strerror(errno));
    return 0;
}
