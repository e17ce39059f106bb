/* See measure.h. */
#include "measure.h"

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->total += from->total;
    into->sum += from->sum;
    if (from->most > into->most)
        into->most = from->most;
    for (unsigned i = 0; i < 64 * 16; i++)
        into->bucket[i] += from->bucket[i];
}

double histogram_quantile(const struct histogram *h, double fraction)
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

void measure_begin(struct measure *m)
{
    getrusage(RUSAGE_SELF, &m->usage_begin);
    m->begin = clock_ns();
}

void measure_end(struct measure *m)
{
    m->end = clock_ns();
    getrusage(RUSAGE_SELF, &m->usage_end);
}

double timeval_us(struct timeval from, struct timeval to)
{
    return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_usec - from.tv_usec);
}
