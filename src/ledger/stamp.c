#include "ledger/stamp.h"

#include <stddef.h>
#include <string.h>

#include "ledger/dirty.h"

static uint32_t starts_at(uint32_t file, uint64_t unit)
{
    return atomic_load(&ledger_bucket(file, unit << LEDGER_UNIT_SHIFT)->starts);
}

void ledger_stamp_look(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                       struct ledger_stamp *stamp)
{
    stamp->generation = atomic_load(&entry->generation);
    stamp->truncations = atomic_load(&entry->truncations);
    stamp->freshness = atomic_load(ledger_entry_freshness(entry));
    stamp->frames = atomic_load(&entry->frames);
    stamp->replays = atomic_load(&entry->replays);
    stamp->cuts = atomic_load(&entry->cuts);
    stamp->changes = atomic_load(&entry->changes);
    stamp->size = atomic_load(&entry->size);
    stamp->unit = start >> LEDGER_UNIT_SHIFT;
    if (start == end)
        return;
    uint32_t file = ledger_entry_index(entry), *starts = stamp->starts;
    uint64_t last = (end - 1) >> LEDGER_UNIT_SHIFT;
    for (uint64_t unit = stamp->unit; unit <= last; unit++)
        *starts++ = starts_at(file, unit);
}

bool ledger_starts_last(const struct ledger_entry *entry, const struct ledger_stamp *stamp,
                        uint64_t start, uint64_t end)
{
    uint32_t file = ledger_entry_index(entry);
    uint64_t unit = start >> LEDGER_UNIT_SHIFT, last = (end - 1) >> LEDGER_UNIT_SHIFT;
    const uint32_t *starts = &stamp->starts[unit - stamp->unit];
    while (unit <= last && starts_at(file, unit) == *starts) {
        unit++;
        starts++;
    }
    return unit > last;
}

void ledger_stamp_take(struct ledger_file *file, uint64_t start, uint64_t end,
                       struct ledger_stamp *stamp)
{
    struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    bool locked = !entry && (entry = ledger_entry_lock(file, true, NULL)) != NULL;
    if (entry)
        ledger_stamp_look(entry, start, end, stamp);
    else
        memset(stamp, 0, offsetof(struct ledger_stamp, starts));
    if (locked)
        ledger_entry_unlock(file);
}

bool ledger_stamp_take_quiet(struct ledger_file *file, uint64_t start, uint64_t end,
                             struct ledger_stamp *stamp)
{
    struct ledger_entry *entry = ledger_entry_lock(file, true, NULL);
    if (!entry)
        return false;
    uint32_t index = ledger_entry_index(entry);
    const struct ledger_entry *first = ledger_entry_next(entry->device, entry->inode, NULL);
    bool quiet = first == entry && !ledger_entry_next(entry->device, entry->inode, first) &&
                 !ledger_entry_is_kernel(entry) &&
                 (!ledger_entry_truncator(entry) || ledger_entry_is_appending(entry)) &&
                 ledger_record_conflict(index, start, end, 0) == 0 &&
                 !ledger_dirty_overlaps(entry, start, end);
    ledger_cache_watch(entry);
    ledger_stamp_look(entry, start, end, stamp);
    ledger_entry_unlock(file);
    return quiet;
}

bool ledger_stamp_end_lasts(const struct ledger_file *file, const struct ledger_stamp *stamp,
                            uint64_t size)
{
    const struct ledger_entry *entry = ledger_map.shared ? ledger_entry_remembered(file) : NULL;
    /* The size is loaded first: see ledger_entry_forget_size(). */
    return entry && atomic_load(&entry->size) == size &&
           ledger_stamp_is(entry, stamp, LEDGER_STAMP_SIZE | LEDGER_STAMP_FRESH, 0, 0);
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
