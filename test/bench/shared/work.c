/* See work.h. */
#include "work.h"

void wrong_usage(void (*usage)(FILE *), const char *name, const char *value)
{
    if (name)
        fprintf(stderr, "%s: --%s %s is not known\n", program_invocation_short_name, name, value);
    usage(stderr);
    exit(2);
}

void work_option(struct work *work, int letter, void (*usage)(FILE *))
{
    switch (letter) {
    case 'w':
        if (strcmp(optarg, "read") && strcmp(optarg, "write") && strcmp(optarg, "mixed"))
            wrong_usage(usage, "rw", optarg);
        work->write = optarg[0] == 'w';
        work->mixed = optarg[0] == 'm';
        break;
    case 's':
        work->size = number_option("size", optarg, work->size_least, 1 << 30);
        break;
    case 'n':
        work->count = number_option("count", optarg, 1, UINT64_MAX);
        break;
    case 't':
        work->limit_ns = seconds_option("seconds", optarg);
        break;
    case 'd':
        work->depth = number_option("depth", optarg, 1, work->depth_most);
        break;
    case 'r':
    case 'q':
        work->random = letter == 'r';
        break;
    case 'z':
        work->file_size = number_option("file-size", optarg, 1, INT64_MAX);
        break;
    case 'u':
        work->warm_up = number_option("warm-up", optarg, 0, UINT64_MAX);
        work->warm_up_given = true;
        break;
    case 'h':
        usage(stdout);
        exit(0);
    default:
        wrong_usage(usage, NULL, NULL);
    }
}

void work_defaults(struct work *work, uint64_t warm_up_most)
{
    if (!work->count)
        work->count = work->limit_ns ? UINT64_MAX : 200000;
    if (!work->warm_up_given)
        work->warm_up = work->count / 10 < warm_up_most ? work->count / 10 : warm_up_most;
}

int work_file(const struct work *work, const char *path, int flags, uint64_t *blocks)
{
    static unsigned char block[64 << 10] __attribute__((aligned(4096)));
    struct stat st;
    bool changed = work->write || work->mixed || work->file_size;
    int file = open(path, (changed ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | flags, 0644);
    if (file < 0 || fstat(file, &st) < 0)
        die("%s: %s", path, strerror(errno));
    uint64_t size = (uint64_t)st.st_size;
    memset(block, 'p', sizeof block);
    while (size < work->file_size) {
        uint64_t left = work->file_size - size;
        ssize_t n = pwrite(file, block, left < sizeof block ? left : sizeof block, (off_t)size);
        if (n <= 0)
            die("filling %s: %s", path, n ? strerror(errno) : "no more room");
        size += (uint64_t)n;
    }
    *blocks = size / work->size;
    if (!*blocks)
        die("%s: shorter than one block", path);
    return file;
}

// The memory that the process has now. Of ru_maxrss exec() keeps what the parent had.
static long resident_kb(void)
{
    char text[64];
    long total, resident = 0;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(text, "%ld %ld", &total, &resident) != 2)
        resident = 0;
    if (file >= 0)
        close(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

void work_print(const struct work *work, const struct work_done *done, const struct measure *m,
                const struct histogram *latency)
{
    double ops = done->ops ? (double)done->ops : 1;
    double seconds = (double)(m->end - m->begin) / 1e9;
    double user = timeval_us(m->usage_begin.ru_utime, m->usage_end.ru_utime) / ops;
    double sys = timeval_us(m->usage_begin.ru_stime, m->usage_end.ru_stime) / ops;
    printf("{\"program\": \"%s\", \"rw\": \"%s\", \"size\": %llu", program_invocation_short_name,
           work->mixed   ? "mixed"
           : work->write ? "write"
                         : "read",
           (unsigned long long)work->size);
    if (done->depth)
        printf(", \"depth\": %llu", (unsigned long long)done->depth);
    if (done->connections)
        printf(", \"connections\": %llu", (unsigned long long)done->connections);
    if (done->threads)
        printf(", \"threads\": %llu", (unsigned long long)done->threads);
    printf(", \"ops\": %llu, \"seconds\": %.3f, \"ops_per_s\": %.0f", (unsigned long long)done->ops,
           seconds, (double)done->ops / seconds);
    printf(", \"user_us_per_op\": %.3f, \"sys_us_per_op\": %.3f, \"cpu_us_per_op\": %.3f", user,
           sys, user + sys);
    printf(", \"rss_kb\": %ld", resident_kb());
    if (done->syscalls >= 0)
        printf(", \"syscalls_per_op\": %.3f", done->syscalls / ops);
    else
        printf(", \"syscalls_per_op\": null");
    printf(", \"mean_us\": %.2f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
           latency->total ? (double)latency->sum / (double)latency->total / 1000 : 0.0,
           histogram_quantile(latency, 0.50), histogram_quantile(latency, 0.99),
           (double)latency->most / 1000);
}
