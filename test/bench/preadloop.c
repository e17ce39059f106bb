// preadloop: an ordinary program that reads or writes blocks of a file, one call at a time per
// thread. It knows nothing of NFS; run it as it is, or under `directnfs run`.
#include <pthread.h>

#include "work.h"

static struct work work = {.size = 8192, .size_least = 1};

static struct {
    bool dsync, fsync;
    uint64_t threads;
    const char *path;
} option = {.threads = 1};

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
    uint64_t block = work.random ? random_next(&w->random_state) % blocks : w->next_block;
    off_t offset = (off_t)(block * work.size);
    w->next_block = w->next_block + 1 == blocks ? 0 : w->next_block + 1;
    ssize_t n = work.write ? pwrite(file, w->buffer, work.size, offset)
                           : pread(file, w->buffer, work.size, offset);
    if (n != (ssize_t)work.size)
        die("%s at %lld: %s", work.write ? "pwrite" : "pread", (long long)offset,
            n < 0 ? strerror(errno) : "short");
}

static void warm_up(struct worker *w)
{
    for (uint64_t i = 0; i < work.warm_up; i++)
        transfer(w);
}

static void measured_loop(struct worker *w)
{
    uint64_t begun = clock_ns(), before = begun, done = 0;
    while (done < w->ops && !(work.limit_ns && before - begun >= work.limit_ns)) {
        transfer(w);
        uint64_t now = clock_ns();
        histogram_add(&w->latency, now - before);
        before = now;
        done++;
    }
    w->ops = done;
}

// What was written is to be there at the end of the measured time.
static void measured_end(struct measure *m)
{
    if (option.fsync && fsync(file) < 0)
        die("fsync: %s", strerror(errno));
    measure_end(m);
}

static void *worker_run(void *argument)
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
        "usage: preadloop [--rw read|write] [--size BYTES] [--count N | --seconds N]\n"
        "                 [--threads N] [--random | --sequential] [--dsync] [--fsync]\n"
        "                 [--file-size BYTES] [--warm-up N] FILE\n"
        "Prints one line of JSON.  The count is that of all threads together, the warm-up that of\n"
        "each.  --fsync: the measured time ends with an fsync.  A file shorter than the file size\n"
        "is filled up first.\n",
        to);
}

static void options_read(int argc, char **argv)
{
    static const struct option options[] = {WORK_OPTIONS,
                                            OPTION("threads", 'T'),
                                            FLAG("dsync", 'D'),
                                            FLAG("fsync", 'F'),
                                            {NULL, 0, NULL, 0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (letter == 'T')
            option.threads = number_option("threads", optarg, 1, 1024);
        else if (letter == 'D')
            option.dsync = true;
        else if (letter == 'F')
            option.fsync = true;
        else
            work_option(&work, letter, usage);
    }
    if (optind + 1 != argc || work.mixed)
        wrong_usage(usage, NULL, NULL);
    option.path = argv[optind];
    work_defaults(&work, 10000);
    if (!work.warm_up_given)
        work.warm_up /= option.threads;
}

int main(int argc, char **argv)
{
    options_read(argc, argv);
    file = work_file(&work, option.path, option.dsync ? O_DSYNC : 0, &blocks);
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
        w->ops = work.count / option.threads + (i < work.count % option.threads);
        if (posix_memalign((void **)&w->buffer, 4096, work.size))
            die("out of memory");
        memset(w->buffer, (int)i + 1, work.size);
        if (!alone && pthread_create(&w->thread, NULL, worker_run, w))
            die("cannot start a thread");
    }
    struct measure m;
    if (alone) {
        warm_up(&worker[0]);
        measure_begin(&m);
        measured_loop(&worker[0]);
        measured_end(&m);
    } else {
        pthread_barrier_wait(&begin);
        measure_begin(&m);
        pthread_barrier_wait(&end);
        measured_end(&m);
    }
    struct histogram *latency = &worker[0].latency;
    for (uint64_t i = 1; i < option.threads; i++)
        histogram_merge(latency, &worker[i].latency);
    uint64_t ops = 0;
    for (uint64_t i = 0; i < option.threads; i++) {
        ops += worker[i].ops;
        if (!alone)
            pthread_join(worker[i].thread, NULL);
        free(worker[i].buffer);
    }
    work_print(&work, &(struct work_done){.ops = ops, .threads = option.threads, .syscalls = -1},
               &m, latency);
    free(worker);
    if (close(file) < 0)
        die("%s: close: %s", option.path, strerror(errno));
    return 0;
}
