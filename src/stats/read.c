#include "stats/read.h"

#include <stddef.h>

#include "stats/segment.h"
#include "sys/sys.h"
#include "sys/text.h"

static void clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    sys_text_clean(text);
}

static void clean_field(const struct stats_field *field, void *member)
{
    enum stats_kind kind = field->kind;
    uint32_t *word = member;
    if (kind >= STATS_TEXT && kind <= STATS_LAST_TEXT)
        clean_text(member, field->bound);
    else if (kind == STATS_SERVER && *word > field->bound)
        *word = (uint32_t)field->bound;
    else if (kind >= STATS_SLOT && kind <= STATS_LAST_BOUNDED && *word > field->bound)
        *word = 0;
}

/* Slots that were never used are not touched: they need no memory. */
void stats_clean(struct directnfs_stats *stats)
{
    clean_text(stats->program, sizeof(stats->program));
    for (unsigned t = 0; t < STATS_TABLES; t++) {
        const struct stats_table *table = &stats_tables[t];
        const struct stats_fields *fields = &table->fields;
        for (size_t i = 0; i < *stats_count(stats, table) * fields->count; i++) {
            const struct stats_field *field = &fields->list[i % fields->count];
            clean_field(field, stats_at(field, stats_slot(stats, table, i / fields->count)));
        }
    }
}

uint64_t stats_seconds_until(uint64_t end_ns)
{
    uint64_t now = sys_clock_ns(CLOCK_REALTIME);
    return end_ns > now ? (end_ns - now) / 1000000000 : 0;
}

uint64_t stats_age(const struct stats_snapshot *snapshot, uint64_t since_ns)
{
    uint64_t now_ns = (uint64_t)(snapshot->clock * 1e9);
    return since_ns != 0 && since_ns < now_ns ? now_ns - since_ns : 0;
}

/* The latency that a share `part` of all calls stays below, in microseconds. */
static double percentile(const struct directnfs_latency *counted, double total, double part)
{
    double wanted = total * part, seen = 0;
    for (int i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++) {
        double count = (double)counted->histogram[i];
        if (count > 0 && seen + count >= wanted) {
            double low = i ? (double)(UINT64_C(1) << (i - 1)) : 0;
            double high = i ? low * 2 : 1;
            double at = low + (high - low) * (wanted - seen) / count;
            double max = (double)counted->max_ns / 1000;
            return at < max ? at : max;
        }
        seen += count;
    }
    return 0;
}

void stats_latency(const struct directnfs_latency *counted, struct stats_latency *latency)
{
    double total = 0;
    for (int i = 0; i < DIRECTNFS_HISTOGRAM_BUCKETS; i++)
        total += (double)counted->histogram[i];
    latency->max = (double)counted->max_ns / 1000;
    latency->mean = counted->calls ? (double)counted->total_ns / 1000 / (double)counted->calls : 0;
    latency->p50 = percentile(counted, total, 0.50);
    latency->p90 = percentile(counted, total, 0.90);
    latency->p99 = percentile(counted, total, 0.99);
}
