/*
 * The offsets of open file descriptions that several processes share. What one of them does to one
 * is done in two steps, and no other may come in between. Taken for all descriptions of a file,
 * which have no name that all processes know.
 */
#include "host/shared.h"

/* The place of who uses an offset of the file, or one that is free; NULL: there is none. */
static struct host_offset_user *find_place(struct host_stripe *stripe, uint32_t file)
{
    struct host_offset_user *found = NULL;
    for (int i = 0; i < HOST_OFFSET_USERS; i++) {
        struct host_offset_user *user = &stripe->offset_users[i];
        bool used = atomic_load_explicit(&user->slot, memory_order_relaxed) != 0;
        if (used && user->file == file)
            return user;
        if (!used)
            found = user;
    }
    return found;
}

bool host_offset_lock(struct host_file *file)
{
    uint32_t slot = host_process_slot(), number = host_stripe_of_file(file);
    int error;
    struct host_entry *entry;
    while (slot && (entry = host_entry_lock(file, true, &error))) {
        struct host_stripe *stripe = &host_map.shared->stripes[number];
        struct host_offset_user *user = find_place(stripe, host_entry_index(entry));
        uint32_t other = user ? atomic_load(&user->slot) : 0;
        if (user && !other) {
            user->file = host_entry_index(entry);
            atomic_store_explicit(&user->slot, slot, memory_order_release);
            host_entry_unlock(file);
            return true;
        }
        host_stripe_wait(number, other);
        host_entry_unlock(file);
    }
    return false;
}

void host_offset_unlock(struct host_file *file)
{
    uint32_t number = host_stripe_of_file(file);
    int error;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return;
    struct host_offset_user *user =
        find_place(&host_map.shared->stripes[number], host_entry_index(entry));
    if (user && atomic_load(&user->slot) == host_process_slot_taken())
        atomic_store_explicit(&user->slot, 0, memory_order_release);
    host_entry_unlock(file);
    host_stripe_wake(number);
}

void host_offsets_of_dead(uint32_t slot)
{
    for (uint32_t number = 0; number < HOST_STRIPES; number++) {
        struct host_stripe *stripe = &host_map.shared->stripes[number];
        for (int i = 0; i < HOST_OFFSET_USERS; i++) {
            struct host_offset_user *user = &stripe->offset_users[i];
            if (atomic_load_explicit(&user->slot, memory_order_relaxed) != slot)
                continue;
            host_stripe_lock(number);
            if (atomic_load(&user->slot) == slot)
                atomic_store(&user->slot, 0);
            host_stripe_unlock(number);
            host_stripe_wake(number);
        }
    }
}
