// What every benchmark program has in common: numbers on the command line, clocks, latency
// histogram.
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

// For the array of getopt_long().
#define OPTION(name, letter)                  \
    {                                         \
        name, required_argument, NULL, letter \
    }
#define FLAG(name, letter)              \
    {                                   \
        name, no_argument, NULL, letter \
    }

// A number with an optional suffix k, m or g (powers of 1024), in least..most; anything else ends
// the program with exit code 2.
static inline uint64_t number_option(const char *name, const char *text, uint64_t least,
                                     uint64_t most)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    unsigned shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    if (shift)
        end++;
    if (errno || end == text || *end || strchr(text, '-') || value > UINT64_MAX >> shift ||
        value << shift < least || value << shift > most) {
        fprintf(stderr, "%s: --%s %s: expected a number from %llu to %llu\n",
                program_invocation_short_name, name, text, (unsigned long long)least,
                (unsigned long long)most);
        exit(2);
    }
    return value << shift;
}

// Seconds, with a fraction if need be, from a millisecond to a day; in nanoseconds.
static inline uint64_t seconds_option(const char *name, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0.001 && value <= 86400)) {
        fprintf(stderr, "%s: --%s %s: expected seconds from 0.001 to 86400\n",
                program_invocation_short_name, name, text);
        exit(2);
    }
    return (uint64_t)(value * 1e9);
}

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// Latencies in nanoseconds; 16 linear steps in each power of two, so within 6 per cent.
struct histogram {
    uint64_t total, sum, most; // sum, most: nanoseconds
    uint64_t bucket[64 * 16];
};

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
    unsigned top = 63 - (unsigned)__builtin_clzll(ns | 16);
    h->bucket[(top - 4) * 16 + (ns >> (top - 4))]++;
    h->total++;
    h->sum += ns;
    if (ns > h->most)
        h->most = ns;
}

static inline void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->total += from->total;
    into->sum += from->sum;
    if (from->most > into->most)
        into->most = from->most;
    for (unsigned i = 0; i < 64 * 16; i++)
        into->bucket[i] += from->bucket[i];
}

// Upper edge of the bucket that holds the given fraction, in microseconds.
static inline double histogram_quantile(const struct histogram *h, double fraction)
{
    uint64_t wanted = (uint64_t)(fraction * (double)h->total), seen = 0;
    for (unsigned i = 0; i < 64 * 16; i++) {
        seen += h->bucket[i];
        if (seen > wanted || (seen && seen == h->total)) {
            unsigned group = i < 32 ? 0 : i / 16 - 1;
            return (double)((uint64_t)(i - group * 16 + 1) << group) / 1000.0;
        }
    }
    return 0;
}

// Wall clock and CPU of the measured phase.
struct measure {
    uint64_t begin, end; // nanoseconds
    struct rusage usage_begin, usage_end;
};

static inline void measure_begin(struct measure *m)
{
    getrusage(RUSAGE_SELF, &m->usage_begin);
    m->begin = clock_ns();
}

static inline void measure_end(struct measure *m)
{
    m->end = clock_ns();
    getrusage(RUSAGE_SELF, &m->usage_end);
}

static inline double timeval_us(struct timeval from, struct timeval to)
{
    return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_usec - from.tv_usec);
}

#endif
