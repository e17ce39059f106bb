#include "ledger/stamp.h"

#include "ledger/dirty.h"

void ledger_quiet_look(struct ledger_entry *entry, uint64_t start, uint64_t end,
                       struct ledger_quiet *quiet)
{
    uint32_t index = ledger_entry_index(entry);
    ledger_cache_watch(entry);
    quiet->generation = atomic_load(&entry->generation);
    quiet->truncations = atomic_load(&entry->truncations);
    quiet->freshness = atomic_load(ledger_entry_freshness(entry));
    quiet->frames = atomic_load(&entry->frames);
    quiet->unit = start >> LEDGER_UNIT_SHIFT;
    for (uint64_t unit = quiet->unit; unit <= (end - 1) >> LEDGER_UNIT_SHIFT; unit++)
        quiet->starts[unit - quiet->unit] =
            atomic_load(&ledger_bucket(index, unit << LEDGER_UNIT_SHIFT)->starts);
}

bool ledger_quiet_begin(struct ledger_file *file, uint64_t start, uint64_t end,
                        struct ledger_quiet *quiet)
{
    int error;
    struct ledger_entry *entry = ledger_map.shared ? ledger_entry_lock(file, true, &error) : NULL;
    if (!entry)
        return false;
    uint32_t index = ledger_entry_index(entry);
    const struct ledger_entry *first = ledger_entry_next(entry->device, entry->inode, NULL);
    bool quiet_now = first == entry && !ledger_entry_next(entry->device, entry->inode, first) &&
                     !ledger_entry_is_kernel(entry) &&
                     (!ledger_entry_truncator(entry) || ledger_entry_is_appending(entry)) &&
                     ledger_record_conflict(index, start, end, 0) == 0 &&
                     !ledger_dirty_overlaps(entry, start, end);
    ledger_quiet_look(entry, start, end, quiet);
    ledger_entry_unlock(file);
    return quiet_now;
}

bool ledger_quiet_lasts(const struct ledger_file *file, const struct ledger_quiet *quiet,
                        uint64_t start, uint64_t end)
{
    if (sys_test_unsafe(SYS_TEST_AHEAD))
        return true;
    const struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    if (!entry ||
        atomic_load_explicit(&entry->generation, memory_order_acquire) != quiet->generation ||
        atomic_load_explicit(&entry->truncations, memory_order_acquire) != quiet->truncations ||
        atomic_load_explicit(ledger_entry_freshness(entry), memory_order_acquire) !=
            quiet->freshness)
        return false;
    for (uint64_t unit = start >> LEDGER_UNIT_SHIFT; unit <= (end - 1) >> LEDGER_UNIT_SHIFT;
         unit++) {
        const struct ledger_bucket *bucket =
            ledger_bucket(ledger_entry_index(entry), unit << LEDGER_UNIT_SHIFT);
        if (atomic_load_explicit(&bucket->starts, memory_order_acquire) !=
            quiet->starts[unit - quiet->unit])
            return false;
    }
    return true;
}

uint64_t ledger_quiet_begun(const struct ledger_file *file, uint64_t start, uint64_t end)
{
    const struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    if (!entry)
        return 0;
    /* Far above what the counts of one use of the entry come to: with another use comes another
     * place, whose counts may be lower by as much as the generation is higher. */
    uint64_t sum = atomic_load_explicit(&entry->generation, memory_order_acquire) << 37;
    for (uint64_t unit = start >> LEDGER_UNIT_SHIFT; unit <= (end - 1) >> LEDGER_UNIT_SHIFT; unit++)
        sum += atomic_load_explicit(
            &ledger_bucket(ledger_entry_index(entry), unit << LEDGER_UNIT_SHIFT)->starts,
            memory_order_acquire);
    return sum;
}

struct ledger_sight ledger_sight(const struct ledger_file *file)
{
    struct ledger_sight sight = {.generation = 0};
    const struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    if (entry) {
        sight.freshness = atomic_load_explicit(ledger_entry_freshness(entry), memory_order_acquire);
        sight.truncations = atomic_load_explicit(&entry->truncations, memory_order_acquire);
        sight.generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
    }
    return sight;
}

bool ledger_sight_lasts(const struct ledger_file *file, const struct ledger_sight *sight,
                        uint64_t size)
{
    const struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    return entry && sight->generation != 0 &&
           atomic_load_explicit(&entry->size, memory_order_acquire) == size &&
           /* else it may be known no more: see ledger_entry_forget_size() */
           atomic_load_explicit(&entry->truncations, memory_order_acquire) == sight->truncations &&
           atomic_load_explicit(ledger_entry_freshness(entry), memory_order_acquire) ==
               sight->freshness &&
           atomic_load_explicit(&entry->generation, memory_order_acquire) == sight->generation;
}

void ledger_file_refresh(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    if (entry)
        atomic_fetch_add(ledger_entry_freshness(entry), 1);
}

void ledger_file_saw(struct ledger_file *file, uint64_t epoch, const struct ledger_attributes *now,
                     uint64_t asked_ns)
{
    struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    int64_t ctime = ledger_nanoseconds(&now->ctime);
    if (!entry || ctime <= atomic_load_explicit(&entry->ctime, memory_order_acquire))
        return;
    entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    /* What this host has on its way changes the time as well. */
    if (ledger_entry_epoch(entry) == epoch && !ledger_entry_truncator(entry) &&
        !ledger_record_pending(entry, UINT64_MAX))
        ledger_entry_learn(entry, epoch, now, asked_ns, false);
    ledger_entry_unlock(file);
}
