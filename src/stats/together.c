/*
 * What a thread counts between stats_together_begin() and stats_together_end(): amounts are kept,
 * and entered at the end.
 */
#include "stats/count.h"
#include "stats/segment.h"

/* What this thread counted and did not enter yet. */
struct amount {
    struct amount_of {
        uint64_t *counter, *sum, *time; /* where it is entered; NULL: not at all */
    } of;
    uint64_t times, bytes, ns;
};
static __thread struct {
    bool on;
    struct stats_tally tally;
    struct amount transfers, file, mount;
} together;

static void amount_end(struct amount *amount)
{
    if (amount->times) {
        if (amount->of.counter)
            stats_add(amount->of.counter, amount->times);
        if (amount->bytes)
            stats_add(amount->of.sum, amount->bytes);
        if (amount->ns)
            stats_add(amount->of.time, amount->ns);
    }
    amount->times = amount->bytes = amount->ns = 0;
}

/* Counts one event with `bytes` and `ns` in `to`. */
static inline void amount_add(struct amount *amount, const struct amount_of *to, uint64_t bytes,
                              uint64_t ns)
{
    if (!together.on) {
        if (to->counter)
            stats_add(to->counter, 1);
        stats_add(to->sum, bytes);
        if (ns)
            stats_add(to->time, ns);
        return;
    }
    if (amount->of.sum != to->sum)
        amount_end(amount);
    amount->of = *to;
    amount->times++;
    amount->bytes += bytes;
    amount->ns += ns;
}

bool stats_alone(struct directnfs_latency *latency, uint64_t ns)
{
    stats_tally_add(&together.tally, latency, ns);
    if (!together.on)
        stats_tally_end(&together.tally);
    return !together.on;
}

void stats_transferred(bool write, uint64_t bytes)
{
    struct directnfs_counters *counters = &stats_own->counters;
    const struct amount_of to = {.sum = write ? &counters->write_bytes : &counters->read_bytes};
    amount_add(&together.transfers, &to, bytes, 0);
}

void stats_file_read(struct directnfs_file_stats *file, uint64_t bytes, uint64_t ns)
{
    const struct amount_of to = {&file->reads, &file->read_bytes, &file->read_ns};
    amount_add(&together.file, &to, bytes, ns);
}

void stats_file_written(struct directnfs_file_stats *file, uint64_t bytes, uint64_t ns)
{
    const struct amount_of to = {&file->writes, &file->write_bytes, &file->write_ns};
    amount_add(&together.file, &to, bytes, ns);
}

void stats_file_synced(struct directnfs_file_stats *file, uint64_t ns)
{
    stats_add(&file->syncs, 1);
    stats_add(&file->sync_ns, ns);
}

void stats_mount_call(struct directnfs_mount_stats *mount, enum directnfs_operation operation,
                      const struct stats_answer *answer)
{
    struct directnfs_operation_stats *stats = &mount->operations[operation];
    const struct amount_of to = {&stats->calls, &stats->bytes, &stats->rtt_ns};
    if (answer->error)
        stats_add(&stats->errors, 1);
    if (answer->queue_ns)
        stats_add(&stats->queue_ns, answer->queue_ns);
    amount_add(&together.mount, &to, answer->bytes, answer->rtt_ns);
}

void stats_together_begin(void)
{
    together.on = true;
}

void stats_together_end(void)
{
    together.on = false;
    if (together.tally.calls)
        stats_touch();
    stats_tally_end(&together.tally);
    amount_end(&together.transfers);
    amount_end(&together.file);
    amount_end(&together.mount);
}
