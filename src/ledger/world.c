#include "ledger/world.h"

#include "ledger/entries.h"

/* Under the stripe's lock. */
static void leave(struct ledger_entry *entry, bool pinned)
{
    entry->pins++;
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_KERNEL | (pinned ? 0 : LEDGER_ENTRY_STUCK));
}

void ledger_world_leave(struct ledger_file *file, bool pinned)
{
    struct ledger_entry *entry = ledger_entry_lock(file, true, NULL);
    if (entry) {
        leave(entry, pinned);
        ledger_entry_unlock(file);
    }
}

/* A process that cannot use the registry has pinned some file. Is it this one? */
static void look_again(struct ledger_file *file, uint64_t pins)
{
    bool pinned = ledger_world_is_pinned(file->key.device, file->key.inode);
    __atomic_store_n(&file->outside_pins, pins, __ATOMIC_RELAXED);
    if (pinned)
        ledger_world_leave(file, true);
}

bool ledger_world_is_kernel(struct ledger_file *file)
{
    if (!ledger_map.shared || sys_test_unsafe(SYS_TEST_WORLDS))
        return false;
    if (ledger_map_is_gone())
        return true;
    uint64_t pins =
        atomic_load_explicit(&ledger_map.shared->head.outside_pins, memory_order_relaxed);
    if (pins != __atomic_load_n(&file->outside_pins, __ATOMIC_RELAXED))
        look_again(file, pins);
    struct ledger_entry *entry = ledger_entry_remembered(file);
    if (entry) {
        uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_acquire);
        if (ledger_entry_remembered(file) == entry) /* these are the flags of this file */
            return flags & LEDGER_ENTRY_KERNEL;
    }
    entry = ledger_entry_lock(file, true, NULL);
    if (!entry)
        return false;
    bool kernel = atomic_load(&entry->flags) & LEDGER_ENTRY_KERNEL;
    ledger_entry_unlock(file);
    return kernel;
}

/* Under the stripe's lock. */
static bool has_nothing_left(struct ledger_entry *entry)
{
    return (atomic_load(&entry->uncommitted) == 0 && atomic_load(&entry->dirty) == 0 &&
            !ledger_entry_truncator(entry) && !ledger_record_pending(entry, UINT64_MAX)) ||
           sys_test_unsafe(SYS_TEST_ARRIVED);
}

bool ledger_world_arrived(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return true;
    uint32_t flags = atomic_load(&entry->flags);
    bool arrived = flags & LEDGER_ENTRY_ARRIVED;
    if (!arrived && (flags & LEDGER_ENTRY_KERNEL) && has_nothing_left(entry)) {
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_ARRIVED);
        arrived = true;
    }
    ledger_entry_unlock(file);
    return arrived;
}

uint32_t ledger_world_pins(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    uint32_t count = entry ? entry->pins : 0;
    if (entry)
        ledger_entry_unlock(file);
    return count;
}

bool ledger_world_come_back(struct ledger_file *file, uint32_t before)
{
    const uint32_t there = LEDGER_ENTRY_KERNEL | LEDGER_ENTRY_ARRIVED;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    uint32_t flags = atomic_load(&entry->flags);
    bool back = entry->pins == before && (flags & (there | LEDGER_ENTRY_STUCK)) == there &&
                !ledger_world_is_pinned(file->key.device, file->key.inode);
    if (back) {
        ledger_entry_forget_size(entry); /* the kernel wrote it */
        atomic_fetch_and(&entry->flags, ~there);
    }
    ledger_entry_unlock(file);
    return back;
}
