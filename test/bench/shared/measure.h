// What the programs that measure have in common: wall clock, CPU, a histogram of latencies.
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <sys/resource.h>

#include "tool.h"

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
