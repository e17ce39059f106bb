// openloop: an ordinary program that opens many files, reads each once from its beginning, and
// closes it.  It knows nothing of NFS; run it as it is, or under `directnfs run`.
#include "work.h"

static struct work work = {.size = 8192, .size_least = 1};

static struct {
    uint64_t files;
    const char *directory;
} option = {.files = 1};

static void open_read_close(const char *name, unsigned char *buffer)
{
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        die("%s: %s", name, strerror(errno));
    ssize_t n = pread(file, buffer, work.size, 0);
    if (n != (ssize_t)work.size)
        die("%s: %s", name, n < 0 ? strerror(errno) : "shorter than one block");
    if (close(file) < 0)
        die("%s: close: %s", name, strerror(errno));
}

static void usage(FILE *to)
{
    fputs("usage: openloop [--size BYTES] [--count N | --seconds N] [--warm-up N] [--files N]\n"
          "                DIRECTORY\n"
          "Opens, reads and closes the files 0, 1, ... of the directory, as many as there are, "
          "again\n"
          "and again.  Prints one line of JSON; an operation is all that is done with one file.\n",
          to);
}

static void options_read(int argc, char **argv)
{
    static const struct option options[] = {WORK_OPTIONS, OPTION("files", 'N'), {NULL, 0, NULL, 0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (letter == 'N')
            option.files = number_option("files", optarg, 1, 1 << 20);
        else
            work_option(&work, letter, usage);
    }
    if (optind + 1 != argc || work.write || work.mixed)
        wrong_usage(usage, NULL, NULL);
    option.directory = argv[optind];
    work_defaults(&work, 10000);
}

int main(int argc, char **argv)
{
    static struct histogram latency;
    options_read(argc, argv);
    unsigned char *buffer = malloc(work.size);
    char name[4096];
    struct measure m;
    uint64_t before = 0, done = 0;
    if (!buffer)
        die("out of memory");
    for (uint64_t i = 0; done < work.count; i++) {
        bool measured = i >= work.warm_up;
        if (i == work.warm_up) {
            measure_begin(&m);
            before = m.begin;
        }
        snprintf(name, sizeof name, "%s/%llu", option.directory,
                 (unsigned long long)(i % option.files));
        open_read_close(name, buffer);
        if (!measured)
            continue;
        uint64_t now = clock_ns();
        histogram_add(&latency, now - before);
        before = now;
        done++;
        if (work.limit_ns && now - m.begin >= work.limit_ns)
            break;
    }
    measure_end(&m);
    work_print(&work, &(struct work_done){.ops = done, .syscalls = -1}, &m, &latency);
    free(buffer);
    return 0;
}
