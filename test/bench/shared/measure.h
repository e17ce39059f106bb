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

void histogram_merge(struct histogram *into, const struct histogram *from);

// Upper edge of the bucket that holds the given fraction, in microseconds.
double histogram_quantile(const struct histogram *h, double fraction);

// Wall clock and CPU of the measured phase.
struct measure {
    uint64_t begin, end; // nanoseconds
    struct rusage usage_begin, usage_end;
};

void measure_begin(struct measure *m);
void measure_end(struct measure *m);
double timeval_us(struct timeval from, struct timeval to);

#endif
