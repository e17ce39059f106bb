#include "ledger/quiet.h"

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
                     ledger_record_conflict(index, start, end, 0) == 0;
    quiet->generation = atomic_load(&entry->generation);
    quiet->truncations = atomic_load(&entry->truncations);
    quiet->unit = start >> LEDGER_UNIT_SHIFT;
    for (uint64_t unit = quiet->unit; unit <= (end - 1) >> LEDGER_UNIT_SHIFT; unit++)
        quiet->starts[unit - quiet->unit] =
            atomic_load(&ledger_bucket(index, unit << LEDGER_UNIT_SHIFT)->starts);
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
        atomic_load_explicit(&entry->truncations, memory_order_acquire) != quiet->truncations)
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
