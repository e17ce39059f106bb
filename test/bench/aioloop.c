// aioloop: an ordinary program that keeps blocks of a file in flight through libaio: it submits
// what has come back in one io_submit and waits in io_getevents, and does nothing else.  What it
// costs under `directnfs run` is what the library costs; fio has a cost of its own.
//
// libaio is taken at run time, so that nothing but its shared library, which fio needs too, must be
// installed; its functions are looked up in the order of the dynamic linker, where a preloaded
// library goes first.  With --raw the system calls are made by syscall(), as some databases do.
#include <dlfcn.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure.h"

#define DEPTH_MOST 4096

static struct {
    bool write, mixed, random, direct, raw;
    uint64_t size, count, depth, least, file_size, warm_up;
    const char *path;
} option = {.size = 8192, .count = 200000, .depth = 1, .least = 1};

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
    if (!dlopen("libaio.so.1", RTLD_NOW | RTLD_GLOBAL))
        die("%s (Debian package libaio1)", dlerror());
    aio.setup = (int (*)(int, aio_context_t *))function("io_setup");
    aio.submit = (int (*)(aio_context_t, long, struct iocb **))function("io_submit");
    aio.getevents = (int (*)(aio_context_t, long, long, struct io_event *,
                             struct timespec *))function("io_getevents");
    aio.destroy = (int (*)(aio_context_t))function("io_destroy");
}

static void block_next(struct iocb *io)
{
    uint64_t block = option.random ? random_next(&random_state) % blocks : next_block;
    next_block = next_block + 1 == blocks ? 0 : next_block + 1;
    // Three reads to a write.
    bool write = option.write || (option.mixed && random_next(&mix_state) % 4 == 0);
    io->aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
    io->aio_offset = (int64_t)(block * option.size);
}

// Runs `most` transfers and waits for all of them.
static void run_phase(uint64_t most)
{
    uint64_t issued = 0, completed = 0, readies = 0;
    for (uint64_t i = 0; i < option.depth && issued < most; i++, issued++) {
        block_next(&block_io[i]);
        ready[readies++] = &block_io[i];
    }
    while (completed < most) {
        uint64_t now = clock_ns();
        for (uint64_t done = 0; done < readies;) {
            int n = aio.submit(context, (long)(readies - done), ready + done);
            if (n <= 0)
                die("io_submit: %s", strerror(-n));
            for (int i = 0; i < n; i++)
                sent[ready[done++] - block_io] = now;
        }
        readies = 0;
        uint64_t flying = issued - completed;
        int n = aio.getevents(context, (long)(option.least < flying ? option.least : flying),
                              (long)flying, event, NULL);
        if (n < 0 && n != -EINTR)
            die("io_getevents: %s", strerror(-n));
        now = clock_ns();
        for (int i = 0; i < n; i++) {
            struct iocb *io = (struct iocb *)(uintptr_t)event[i].obj;
            if (event[i].res != (int64_t)option.size)
                die("%s at %lld: %s", io->aio_lio_opcode == IOCB_CMD_PWRITE ? "write" : "read",
                    (long long)io->aio_offset,
                    event[i].res < 0 ? strerror((int)-event[i].res) : "short");
            histogram_add(&latency, now - sent[io - block_io]);
            completed++;
            if (issued < most) {
                issued++;
                block_next(io);
                ready[readies++] = io;
            }
        }
    }
}

static void usage(FILE *to)
{
    fputs("usage: aioloop [--rw read|write|mixed] [--size BYTES] [--count N] [--depth N]\n"
          "               [--least N] [--random | --sequential] [--direct] [--raw]\n"
          "               [--file-size BYTES] [--warm-up N] FILE\n"
          "Prints one line of JSON.  Mixed: three reads to a write.  --least: completions that "
          "every\n"
          "io_getevents waits for.  --raw: system calls by syscall(), without libaio.\n"
          "A file shorter than the file size is filled up first.\n",
          to);
}

static void options_read(int argc, char **argv)
{
    static const struct option options[] = {{"rw", required_argument, NULL, 'w'},
                                            {"size", required_argument, NULL, 's'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"depth", required_argument, NULL, 'd'},
                                            {"least", required_argument, NULL, 'l'},
                                            {"random", no_argument, NULL, 'r'},
                                            {"sequential", no_argument, NULL, 'q'},
                                            {"direct", no_argument, NULL, 'i'},
                                            {"raw", no_argument, NULL, 'y'},
                                            {"file-size", required_argument, NULL, 'z'},
                                            {"warm-up", required_argument, NULL, 'u'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool warm_up_given = false;
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (letter) {
        case 'w':
            if (strcmp(optarg, "read") && strcmp(optarg, "write") && strcmp(optarg, "mixed")) {
                usage(stderr);
                exit(2);
            }
            option.write = optarg[0] == 'w';
            option.mixed = optarg[0] == 'm';
            break;
        case 's':
            option.size = number_option("size", optarg, 1, 1 << 30);
            break;
        case 'n':
            option.count = number_option("count", optarg, 1, UINT64_MAX);
            break;
        case 'd':
            option.depth = number_option("depth", optarg, 1, DEPTH_MOST);
            break;
        case 'l':
            option.least = number_option("least", optarg, 1, DEPTH_MOST);
            break;
        case 'r':
        case 'q':
            option.random = letter == 'r';
            break;
        case 'i':
            option.direct = true;
            break;
        case 'y':
            option.raw = true;
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
        option.warm_up = option.count / 10;
}

static void file_prepare(void)
{
    static unsigned char block[64 << 10] __attribute__((aligned(4096)));
    struct stat st;
    int access = option.write || option.mixed || option.file_size ? O_RDWR | O_CREAT : O_RDONLY;
    file = open(option.path, access | O_CLOEXEC | (option.direct ? O_DIRECT : 0), 0644);
    if (file < 0 || fstat(file, &st) < 0)
        die("%s: %s", option.path, strerror(errno));
    uint64_t size = (uint64_t)st.st_size;
    memset(block, 'a', sizeof block);
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

static unsigned char *buffers_prepare(void)
{
    void *data;
    if (posix_memalign(&data, 4096, option.depth * option.size))
        die("out of memory");
    for (uint64_t i = 0; i < option.depth; i++) {
        unsigned char *buffer = (unsigned char *)data + i * option.size;
        memset(buffer, (int)i + 1, option.size);
        block_io[i] = (struct iocb){
            .aio_fildes = (uint32_t)file, .aio_buf = (uintptr_t)buffer, .aio_nbytes = option.size};
    }
    return data;
}

int main(int argc, char **argv)
{
    options_read(argc, argv);
    functions_find();
    file_prepare();
    void *data = buffers_prepare();
    int error = aio.setup((int)option.depth, &context);
    if (error)
        die("io_setup: %s", strerror(-error));
    if (option.warm_up)
        run_phase(option.warm_up);
    memset(&latency, 0, sizeof latency);

    struct measure m;
    measure_begin(&m);
    run_phase(option.count);
    measure_end(&m);
    measure_print(&m,
                  &(struct measured_work){.rw = option.mixed   ? "mixed"
                                                : option.write ? "write"
                                                               : "read",
                                          .size = option.size,
                                          .depth = option.depth,
                                          .ops = option.count,
                                          .syscalls = -1},
                  &latency);
    error = aio.destroy(context);
    if (error)
        die("io_destroy: %s", strerror(-error));
    free(data);
    if (close(file) < 0)
        die("%s: close: %s", option.path, strerror(errno));
    return 0;
}
