/*
 * The offsets and the flags of open file descriptions that several processes share. To change such
 * an offset takes two steps, and no other process may come in between. All descriptions of a file
 * are locked together, as a single one has no name that all processes know.
 */
#include <errno.h>

#include "ledger/entries.h"
#include "ledger/store/mutex.h"
#include "ledger/offset.h"
#include "ledger/store/processes.h"

enum { FLAGS_MS = 1000 }; /* longest wait: a process may be stopped while it has the lock */

/* The place of the process that uses an offset of the file, or a free one; NULL: there is none. */
static struct ledger_offset_user *find_place(struct ledger_stripe *stripe, uint32_t file)
{
    struct ledger_offset_user *found = NULL;
    for (int i = 0; i < LEDGER_OFFSET_USERS; i++) {
        struct ledger_offset_user *user = &stripe->offset_users[i];
        bool used = atomic_load_explicit(&user->slot, memory_order_relaxed) != 0;
        if (used && user->file == file)
            return user;
        if (!used)
            found = user;
    }
    return found;
}

bool ledger_offset_lock(struct ledger_file *file)
{
    uint32_t slot = ledger_process_slot(), number = ledger_stripe_of_file(file);
    struct ledger_entry *entry;
    while (slot && (entry = ledger_entry_lock(file, true, NULL))) {
        struct ledger_stripe *stripe = &ledger_map.shared->stripes[number];
        struct ledger_offset_user *user = find_place(stripe, ledger_entry_index(entry));
        uint32_t other = user ? atomic_load(&user->slot) : 0;
        if (user && !other) {
            user->file = ledger_entry_index(entry);
            atomic_store_explicit(&user->slot, slot, memory_order_release);
            ledger_entry_unlock(file);
            return true;
        }
        ledger_stripe_wait(number, other);
        ledger_entry_unlock(file);
    }
    return false;
}

void ledger_offset_unlock(struct ledger_file *file)
{
    uint32_t number = ledger_stripe_of_file(file);
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    struct ledger_offset_user *user =
        find_place(&ledger_map.shared->stripes[number], ledger_entry_index(entry));
    if (user && atomic_load(&user->slot) == ledger_process_slot_taken())
        atomic_store_explicit(&user->slot, 0, memory_order_release);
    ledger_entry_unlock(file);
    ledger_stripe_wake(number);
}

void ledger_offsets_of_dead(uint32_t slot)
{
    for (uint32_t number = 0; number < LEDGER_STRIPES; number++) {
        struct ledger_stripe *stripe = &ledger_map.shared->stripes[number];
        for (int i = 0; i < LEDGER_OFFSET_USERS; i++) {
            struct ledger_offset_user *user = &stripe->offset_users[i];
            if (atomic_load_explicit(&user->slot, memory_order_relaxed) != slot)
                continue;
            ledger_stripe_lock(number);
            if (atomic_load(&user->slot) == slot)
                atomic_store(&user->slot, 0);
            ledger_stripe_unlock(number);
            ledger_stripe_wake(number);
        }
    }
}

/* ---- flags ---- */

static pthread_mutex_t *flags_lock_of(const struct ledger_file *file)
{
    return &ledger_map.shared->flags_locks[ledger_stripe_of_file(file)];
}

bool ledger_flags_lock(const struct ledger_file *file)
{
    if (!ledger_map.shared)
        return false;
    pthread_mutex_t *lock = flags_lock_of(file);
    int result = ledger_mutex_lock_within(lock, FLAGS_MS);
    if (result == EOWNERDEAD)
        pthread_mutex_consistent(lock);
    return result == 0 || result == EOWNERDEAD;
}

void ledger_flags_unlock(const struct ledger_file *file)
{
    pthread_mutex_unlock(flags_lock_of(file));
}
