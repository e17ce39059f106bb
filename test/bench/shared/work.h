// The work of the load programs (floor, preadloop, aioloop): the options that they share, the file
// they work on, the result line.
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure.h"

struct work {
    bool write, mixed, random;       // neither write nor mixed: read
    uint64_t size;                   // bytes of one transfer
    uint64_t count, limit_ns;        // the end, whichever comes first; limit_ns 0: no limit
    uint64_t depth;                  // transfers in flight
    uint64_t file_size;              // bytes; 0: as it is
    uint64_t warm_up;                // transfers before the measured ones
    bool warm_up_given;              // on the command line
    uint64_t size_least, depth_most; // what the program can do
};

#define WORK_OPTIONS                                                                   \
    OPTION("rw", 'w'), OPTION("size", 's'), OPTION("count", 'n'), FLAG("random", 'r'), \
        FLAG("sequential", 'q'), OPTION("file-size", 'z'), OPTION("warm-up", 'u'),     \
        OPTION("seconds", 't'), FLAG("help", 'h')

#define WORK_OPTIONS_IN_FLIGHT OPTION("depth", 'd')
__attribute__((noreturn)) void wrong_usage(void (*usage)(FILE *), const char *name,
                                           const char *value);

// Takes one of the options above; any other letter is a mistake.
void work_option(struct work *work, int letter, void (*usage)(FILE *));

// After the last option: the end and the warm-up that were not given.
void work_defaults(struct work *work, uint64_t warm_up_most);

// Opens the file of a program that makes ordinary calls, and fills it up to the file size.  Returns
// the descriptor; *blocks is how many transfers it holds.
int work_file(const struct work *work, const char *path, int flags, uint64_t *blocks);

// What was done, for the result line.
struct work_done {
    uint64_t ops;
    uint64_t depth, connections, threads; // 0: does not apply, left out
    double syscalls;                      // of all ops; negative when the program cannot know them
};

// One JSON object on one line.  Times are microseconds; cpu is of the whole process.
void work_print(const struct work *work, const struct work_done *done, const struct measure *m,
                const struct histogram *latency);

#endif
