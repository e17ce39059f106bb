/*
 * Appending: who writes at the end of a file has a turn, as who changes its size has. Nobody else
 * of the host writes beyond the end until the turn is over: what is appended in several pieces
 * lands in one place, and who fails or is killed in between leaves no hole, as nothing was written
 * behind him.
 *
 * A turn ends with its process. What that had in flight is held like any other write (hold.c), and
 * whether the file grew by it the server is asked.
 */
#include "host/shared.h"
#include "sys/sys.h"

#define SWEEP_INTERVAL_NS UINT64_C(1000000000)

/* Does the registry know the size, from an answer to a question of `since_ns` or later? */
static bool is_fresh(const struct host_entry *entry, uint64_t since_ns)
{
    return (atomic_load_explicit(&entry->flags, memory_order_relaxed) & HOST_ENTRY_KNOWN) &&
           atomic_load_explicit(&entry->verified_ns, memory_order_relaxed) >= since_ns;
}

static void take_turn(struct host_entry *entry, struct host_append *append, uint32_t slot)
{
    atomic_fetch_add(&host_map.shared->processes[slot].truncations, 1);
    entry->truncate_size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    atomic_fetch_or(&entry->flags, HOST_ENTRY_APPENDING);
    atomic_store(&entry->truncator, slot);
    append->turn = true;
}

/* Whose write is where this one is to be (0: only time must pass); UINT32_MAX: nobody's. */
static uint32_t find_place(struct host_entry *entry, struct host_append *append)
{
    uint64_t size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    entry->truncate_size = append->offset = size;
    return host_range_user(entry, size, size + append->length, 0);
}

int host_append_begin(struct host_file *file, struct host_append *append, bool wait)
{
    uint32_t slot = host_process_slot(), stripe = host_stripe_of_file(file);
    int error = -ENOSPC;
    struct host_entry *entry = slot ? host_entry_lock(file, true, &error) : NULL;
    while (entry) {
        if (host_entry_is_kernel(entry)) {
            host_entry_unlock(file);
            return HOST_OF_KERNEL;
        }
        uint32_t other = append->turn ? 0 : host_entry_truncator(entry);
        if (!other) {
            /* A write that was held may have made the file longer at any time until now. */
            host_stripe_expire_now(stripe);
            if (!is_fresh(entry, append->fresh_ns)) {
                host_entry_unlock(file);
                return -ENODATA;
            }
            if (!append->turn)
                take_turn(entry, append, slot);
            other = find_place(entry, append);
        }
        if (other == UINT32_MAX || !wait) {
            host_entry_unlock(file);
            if (other != UINT32_MAX)
                host_process_sweep(SWEEP_INTERVAL_NS);
            return other == UINT32_MAX ? 0 : -EAGAIN;
        }
        host_stripe_wait(stripe, other);
        host_entry_unlock(file);
        entry = host_entry_lock(file, true, &error);
    }
    return error;
}

void host_entry_append_end(struct host_entry *entry)
{
    atomic_store(&entry->truncator, 0);
    atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_APPENDING);
}

void host_append_end(struct host_file *file, struct host_append *append, bool failed)
{
    uint32_t slot = host_process_slot();
    int error;
    if (!append->turn)
        return;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    atomic_fetch_sub(&host_map.shared->processes[slot].truncations, 1);
    append->turn = false;
    if (!entry)
        return; /* another file has its place, and nobody waits for the turn */
    if (host_entry_is_appending(entry) && atomic_load(&entry->truncator) == slot)
        host_entry_append_end(entry);
    if (failed) /* the server may have some of it */
        host_entry_forget_size(entry);
    host_entry_unlock(file);
    host_stripe_wake(host_stripe_of_file(file));
}

/* ---- who appends ---- */

uint32_t host_append_changes(void)
{
    return atomic_load_explicit(&host_map.shared->append_changes, memory_order_acquire);
}

void host_append_changed(void)
{
    if (host_map.shared)
        atomic_fetch_add(&host_map.shared->append_changes, 1);
}
