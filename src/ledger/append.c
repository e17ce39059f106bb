/*
 * Appending. A process that writes at the end of a file takes a turn, as a process that changes the
 * size does. Until the turn is over, no other process of the host writes beyond the end. So what is
 * appended in several pieces lands in one place. And when a write fails, or its process is killed,
 * there is no hole, as nothing was written behind it.
 *
 * A turn ends with its process. What the process had in flight is held like any other write
 * (store/hold.c). Only the server knows whether the file grew by it, and is asked.
 */
#include "ledger/append.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

/* Does the registry know the size, from an answer to a question that was asked at `since_ns` or
 * later? */
static bool is_fresh(const struct ledger_entry *entry, uint64_t since_ns)
{
    return (atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_KNOWN) &&
           atomic_load_explicit(&entry->verified_ns, memory_order_relaxed) >= since_ns;
}

static void take_turn(struct ledger_entry *entry, struct ledger_append *append, uint32_t slot)
{
    atomic_fetch_add(&ledger_map.shared->processes[slot].truncations, 1);
    entry->truncate.size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_APPENDING);
    atomic_store(&entry->truncator, slot);
    append->turn = true;
}

/* Sets `offset`, the end of the file. Returns the process that has a write there (0: only time must
 * pass); UINT32_MAX: none. */
static uint32_t find_place(struct ledger_entry *entry, struct ledger_append *append)
{
    uint64_t size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    entry->truncate.size = append->offset = size;
    return ledger_range_user(entry, size, size + append->length, 0);
}

int ledger_append_begin(struct ledger_file *file, struct ledger_append *append, bool wait)
{
    uint32_t slot = ledger_process_slot(), stripe = ledger_stripe_of_file(file);
    int result = -ENOSPC;
    struct ledger_entry *entry = slot ? ledger_entry_lock(file, true, &result) : NULL;
    while (entry) {
        if (ledger_entry_is_kernel(entry)) {
            ledger_entry_unlock(file);
            return LEDGER_OF_KERNEL;
        }
        bool waits = !append->turn && !sys_test_unsafe(SYS_TEST_APPEND);
        uint32_t other = waits ? ledger_entry_truncator(entry) : 0;
        if (!other) {
            /* A held write may have made the file longer at any time until now. */
            ledger_stripe_expire_now(stripe);
            if (!is_fresh(entry, append->fresh_ns)) {
                ledger_entry_unlock(file);
                return -ENODATA;
            }
            if (!append->turn)
                take_turn(entry, append, slot);
            other = find_place(entry, append);
        }
        if (other == UINT32_MAX || !wait) {
            ledger_entry_unlock(file);
            if (other != UINT32_MAX)
                ledger_process_sweep(LEDGER_SWEEP_NS);
            return other == UINT32_MAX ? 0 : -EAGAIN;
        }
        ledger_stripe_wait(stripe, other);
        ledger_entry_unlock(file);
        entry = ledger_entry_lock(file, true, &result);
    }
    return result;
}

void ledger_append_end(struct ledger_file *file, struct ledger_append *append, bool failed)
{
    uint32_t slot = ledger_process_slot();
    if (!append->turn)
        return;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    append->turn = false;
    if (entry) { /* else another file has the entry, and no process waits for the turn */
        if (ledger_entry_is_appending(entry) && atomic_load(&entry->truncator) == slot)
            ledger_entry_append_end(entry);
        if (failed) /* the server may have some of it */
            ledger_entry_forget_size(entry);
        ledger_entry_unlock(file);
        ledger_stripe_wake(ledger_stripe_of_file(file));
    }
    /* Last: a process that finds this one dead before that looks for its turns. */
    atomic_fetch_sub(&ledger_map.shared->processes[slot].truncations, 1);
}

/* ---- which descriptors append ---- */

uint32_t ledger_append_changes(void)
{
    return atomic_load_explicit(&ledger_map.shared->append_changes, memory_order_acquire);
}

void ledger_append_changed(void)
{
    if (ledger_map.shared)
        atomic_fetch_add(&ledger_map.shared->append_changes, 1);
}
