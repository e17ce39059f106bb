// aioloop: an ordinary program that keeps blocks of a file in flight through libaio: it submits
// what has come back in one io_submit and waits in io_getevents, and does nothing else.  What it
// costs under `directnfs run` is what the library costs; fio has a cost of its own.
//
// libaio is taken at run time, so that nothing but its shared library, which fio needs too, must be
// installed; its functions are looked up in the order of the dynamic linker, where a preloaded
// library goes first.  With --raw the system calls are made by syscall(), as some databases do.
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>

#include "work.h"

#define DEPTH_MOST  4096
#define SERIES_MOST 65536 // intervals

static struct work work = {.size = 8192, .depth = 1, .size_least = 1, .depth_most = DEPTH_MOST};

static struct {
    bool direct, raw;
    uint64_t least;     // completions that io_getevents waits for
    uint64_t series_ms; // length of the intervals that are counted; 0: none
    const char *path;
} option = {.least = 1};

static struct {
    int (*setup)(int, aio_context_t *);
    int (*submit)(aio_context_t, long, struct iocb **);
    int (*getevents)(aio_context_t, long, long, struct io_event *, struct timespec *);
    int (*destroy)(aio_context_t);
} aio;

static int file;
static uint64_t blocks, next_block, random_state = 88172645463325252u,
                                    mix_state = 362436069362436069u;
static struct iocb block_io[DEPTH_MOST], *ready[DEPTH_MOST];
static uint64_t sent[DEPTH_MOST];
static struct io_event event[DEPTH_MOST];
static aio_context_t context;
static struct histogram latency;
static unsigned series[SERIES_MOST], series_used;

// The system calls themselves, with errors as libaio returns them.
static int raw_result(long result)
{
    return result < 0 ? -errno : (int)result;
}

static int raw_setup(int depth, aio_context_t *made)
{
    return raw_result(syscall(SYS_io_setup, depth, made));
}

static int raw_submit(aio_context_t in, long count, struct iocb **list)
{
    return raw_result(syscall(SYS_io_submit, in, count, list));
}

static int raw_getevents(aio_context_t in, long least, long most, struct io_event *to,
                         struct timespec *timeout)
{
    return raw_result(syscall(SYS_io_getevents, in, least, most, to, timeout));
}

static int raw_destroy(aio_context_t in)
{
    return raw_result(syscall(SYS_io_destroy, in));
}

static void *function(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found)
        die("libaio has no %s", name);
    return found;
}

static void functions_find(void)
{
    if (option.raw) {
        aio.setup = raw_setup;
        aio.submit = raw_submit;
        aio.getevents = raw_getevents;
        aio.destroy = raw_destroy;
        return;
    }
    /* Debian 13 calls it by the other name. */
    if (!dlopen("libaio.so.1", RTLD_NOW | RTLD_GLOBAL) &&
        !dlopen("libaio.so.1t64", RTLD_NOW | RTLD_GLOBAL))
        die("%s (Debian package libaio1 or libaio1t64)", dlerror());
    aio.setup = (int (*)(int, aio_context_t *))function("io_setup");
    aio.submit = (int (*)(aio_context_t, long, struct iocb **))function("io_submit");
    aio.getevents = (int (*)(aio_context_t, long, long, struct io_event *,
                             struct timespec *))function("io_getevents");
    aio.destroy = (int (*)(aio_context_t))function("io_destroy");
}

static void block_next(struct iocb *io)
{
    uint64_t block = work.random ? random_next(&random_state) % blocks : next_block;
    next_block = next_block + 1 == blocks ? 0 : next_block + 1;
    // Three reads to a write.
    bool write = work.write || (work.mixed && random_next(&mix_state) % 4 == 0);
    io->aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
    io->aio_offset = (int64_t)(block * work.size);
}

static void series_count(uint64_t elapsed_ns)
{
    uint64_t interval = elapsed_ns / (option.series_ms * 1000000);
    if (interval >= SERIES_MOST)
        die("more than %d intervals", SERIES_MOST);
    series[interval]++;
    series_used = (unsigned)interval + 1;
}

// Keeps transfers in flight: those of the warm-up, and then, without a pause, the measured ones.
// Returns how many these were; what is in flight at their end is waited for.
static uint64_t run(struct measure *m)
{
    enum { WARMING_UP, MEASURING, ENDING } phase = WARMING_UP;
    uint64_t flying = 0, readies = 0, completed = 0, measured = 0, deadline = 0, now = clock_ns();
    for (; readies < work.depth; readies++) {
        block_next(&block_io[readies]);
        ready[readies] = &block_io[readies];
    }
    while (readies || flying) {
        if (phase == WARMING_UP && completed >= work.warm_up) {
            phase = MEASURING;
            completed = 0;
            measure_begin(m);
            now = m->begin;
            deadline = work.limit_ns ? now + work.limit_ns : UINT64_MAX;
        }
        for (uint64_t done = 0; done < readies;) {
            int n = aio.submit(context, (long)(readies - done), ready + done);
            if (n <= 0)
                die("io_submit: %s", strerror(-n));
            for (int i = 0; i < n; i++)
                sent[ready[done++] - block_io] = now;
        }
        flying += readies;
        readies = 0;
        int n = aio.getevents(context, (long)(option.least < flying ? option.least : flying),
                              (long)flying, event, NULL);
        if (n < 0 && n != -EINTR)
            die("io_getevents: %s", strerror(-n));
        now = clock_ns();
        for (int i = 0; i < n; i++) {
            struct iocb *io = (struct iocb *)(uintptr_t)event[i].obj;
            if (event[i].res != (int64_t)work.size)
                die("%s at %lld: %s", io->aio_lio_opcode == IOCB_CMD_PWRITE ? "write" : "read",
                    (long long)io->aio_offset,
                    event[i].res < 0 ? strerror((int)-event[i].res) : "short");
            flying--;
            completed++;
            if (phase == MEASURING) {
                histogram_add(&latency, now - sent[io - block_io]);
                if (option.series_ms)
                    series_count(now - m->begin);
            }
            if (phase != ENDING) {
                block_next(io);
                ready[readies++] = io;
            }
        }
        if (phase == MEASURING && (completed >= work.count || now >= deadline)) {
            phase = ENDING;
            measured = completed;
            measure_end(m);
            readies = 0;
        }
    }
    return measured;
}

// Completions in each interval, and when the first began (CLOCK_MONOTONIC).
static void series_print(const struct measure *m)
{
    printf("{\"begin_ns\": %llu, \"interval_ms\": %llu, \"completed\": [",
           (unsigned long long)m->begin, (unsigned long long)option.series_ms);
    for (unsigned i = 0; i < series_used; i++)
        printf("%s%u", i ? ", " : "", series[i]);
    printf("]}\n");
}

static void usage(FILE *to)
{
    fputs("usage: aioloop [--rw read|write|mixed] [--size BYTES] [--count N | --seconds N]\n"
          "               [--depth N] [--least N] [--random | --sequential] [--direct] [--raw]\n"
          "               [--file-size BYTES] [--warm-up N] [--series MS] FILE\n"
          "Prints one line of JSON.  Mixed: three reads to a write.  --least: completions that "
          "every\n"
          "io_getevents waits for.  --raw: system calls by syscall(), without libaio.  --series: "
          "before\n"
          "it a line with the completions of every interval of so many milliseconds.\n"
          "A file shorter than the file size is filled up first.\n",
          to);
}

static void options_read(int argc, char **argv)
{
    static const struct option options[] = {
        WORK_OPTIONS,        WORK_OPTIONS_IN_FLIGHT, OPTION("least", 'L'), OPTION("series", 'S'),
        FLAG("direct", 'D'), FLAG("raw", 'R'),       {NULL, 0, NULL, 0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (letter) {
        case 'L':
            option.least = number_option("least", optarg, 1, DEPTH_MOST);
            break;
        case 'S':
            option.series_ms = number_option("series", optarg, 1, 60000);
            break;
        case 'D':
            option.direct = true;
            break;
        case 'R':
            option.raw = true;
            break;
        default:
            work_option(&work, letter, usage);
        }
    }
    if (optind + 1 != argc)
        wrong_usage(usage, NULL, NULL);
    option.path = argv[optind];
    work_defaults(&work, 10000);
}

static unsigned char *buffers_prepare(void)
{
    void *data;
    if (posix_memalign(&data, 4096, work.depth * work.size))
        die("out of memory");
    for (uint64_t i = 0; i < work.depth; i++) {
        unsigned char *buffer = (unsigned char *)data + i * work.size;
        memset(buffer, (int)i + 1, work.size);
        block_io[i] = (struct iocb){
            .aio_fildes = (uint32_t)file, .aio_buf = (uintptr_t)buffer, .aio_nbytes = work.size};
    }
    return data;
}

int main(int argc, char **argv)
{
    options_read(argc, argv);
    functions_find();
    file = work_file(&work, option.path, option.direct ? O_DIRECT : 0, &blocks);
    void *data = buffers_prepare();
    int error = aio.setup((int)work.depth, &context);
    if (error)
        die("io_setup: %s", strerror(-error));
    struct measure m;
    uint64_t ops = run(&m);
    if (option.series_ms)
        series_print(&m);
    work_print(&work, &(struct work_done){.ops = ops, .depth = work.depth, .syscalls = -1}, &m,
               &latency);
    error = aio.destroy(context);
    if (error)
        die("io_destroy: %s", strerror(-error));
    free(data);
    if (close(file) < 0)
        die("%s: close: %s", option.path, strerror(errno));
    return 0;
}
