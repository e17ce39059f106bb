/*
 * Data that is written and not committed.
 */
#include "ledger/store/pocket.h"
#include "ledger/cache.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "ledger/uncommitted.h"

uint64_t ledger_file_acknowledged(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->uncommitted, memory_order_acquire) : 0;
}

/* The dirty bytes are loaded first: so bytes that are acknowledged meanwhile are counted at any
 * moment. */
uint64_t ledger_file_uncommitted(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    if (!entry)
        return 0;
    uint64_t dirty = atomic_load_explicit(&entry->dirty, memory_order_acquire);
    return dirty + atomic_load_explicit(&entry->uncommitted, memory_order_acquire);
}

bool ledger_file_is_settled(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    bool settled =
        !entry->first && atomic_load(&entry->dirty) == 0 && atomic_load(&entry->uncommitted) == 0;
    ledger_entry_unlock(file);
    return settled;
}

bool ledger_file_uncommitted_beyond(struct ledger_file *file, uint64_t size)
{
    if (ledger_file_uncommitted(file) == 0)
        return false;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    bool beyond = entry->dirty_end > size || entry->uncommitted_end > size;
    ledger_entry_unlock(file);
    return beyond;
}

static uint64_t of_stripe(uint32_t stripe)
{
    struct ledger_stripe *s = &ledger_map.shared->stripes[stripe];
    uint64_t dirty = atomic_load_explicit(&s->dirty, memory_order_relaxed);
    return dirty + atomic_load_explicit(&s->uncommitted, memory_order_relaxed);
}

uint64_t ledger_uncommitted(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; ledger_map.shared && i < LEDGER_STRIPES; i++)
        sum += of_stripe(i);
    return sum;
}

/* Has the entry DIRTY records of that process? */
static bool has_dirty_of(const struct ledger_entry *entry, uint32_t owner)
{
    for (uint32_t i = entry->dirty_first; i; i = ledger_record(i)->file_next) {
        if (atomic_load(&ledger_record(i)->owner) == owner)
            return true;
    }
    return false;
}

bool ledger_file_uncommitted_here(struct ledger_file *file, bool wrote)
{
    uint32_t self = ledger_process_slot_taken();
    if (!self || !ledger_file_uncommitted(file))
        return false;
    if (wrote)
        return true;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    bool found = atomic_load(&entry->dirty); /* others may have its bytes */
    for (uint32_t i = entry->last; i && !found; i = ledger_record(i)->file_previous)
        found = atomic_load(&ledger_record(i)->owner) == self;
    ledger_entry_unlock(file);
    return found;
}

uint64_t ledger_file_replays(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->replays, memory_order_acquire) : 0;
}

bool ledger_file_verifier_differs(struct ledger_file *file, uint64_t verifier)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    if (!entry || !atomic_load_explicit(&entry->uncommitted, memory_order_acquire))
        return false;
    return (atomic_load_explicit(&entry->flags, memory_order_acquire) & LEDGER_ENTRY_MIXED) ||
           atomic_load_explicit(&entry->verifier, memory_order_acquire) != verifier;
}

bool ledger_file_distrusted(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    return entry &&
           atomic_load_explicit(&entry->flags, memory_order_acquire) & LEDGER_ENTRY_DISTRUSTED;
}

void ledger_entry_missed(struct ledger_entry *entry, struct ledger_file *file)
{
    uint32_t known = __atomic_load_n(&file->losses_known, __ATOMIC_RELAXED);
    if (atomic_fetch_add(&entry->losses.count, 1) == known) /* the caller knows of it */
        __atomic_fetch_add(&file->losses_known, 1, __ATOMIC_RELAXED);
    atomic_fetch_add(&ledger_map.shared->losses, 1);
    entry->losses.error = EIO;
}

uint64_t ledger_file_forget(struct ledger_file *file, bool missed)
{
    struct ledger_garbage garbage = {0};
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return 0;
    uint64_t bytes = atomic_load(&entry->uncommitted) + atomic_load(&entry->dirty);
    ledger_record_cut(entry, 0, true, &garbage);
    ledger_cache_drop(entry);
    if (missed && bytes > 0)
        ledger_entry_missed(entry, file);
    ledger_entry_unlock(file);
    ledger_stripe_wake(ledger_stripe_of_file(file));
    ledger_arena_give(garbage.first);
    return bytes;
}

bool ledger_file_has_loss(struct ledger_file *file)
{
    const struct ledger_entry *entry = ledger_entry_peek(file);
    return entry && (atomic_load(&entry->losses.count) !=
                         __atomic_load_n(&file->losses_known, __ATOMIC_RELAXED) ||
                     atomic_load(&entry->losses.told) != atomic_load(&entry->losses.count));
}

int ledger_file_loss_error(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    int error = entry ? entry->losses.error : 0;
    if (entry)
        ledger_entry_unlock(file);
    return error ? error : EIO;
}

bool ledger_file_lost(struct ledger_file *file)
{
    struct ledger_entry *entry;
    if (!ledger_file_has_loss(file))
        return false;
    entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    uint32_t losses = atomic_load(&entry->losses.count);
    atomic_store(&entry->losses.told, losses);
    ledger_entry_unlock(file);
    return __atomic_exchange_n(&file->losses_known, losses, __ATOMIC_RELAXED) != losses;
}

void ledger_seen_begin(struct ledger_file *file, struct ledger_seen *seen)
{
    const struct ledger_entry *entry = ledger_entry_peek(file);
    atomic_store(&seen->generation, entry ? atomic_load(&entry->generation) : 0);
    atomic_store(&seen->losses, entry ? atomic_load(&entry->losses.told) : 0);
}

void ledger_seen_move(struct ledger_file *file, struct ledger_seen *_Atomic *seen,
                      struct ledger_seen *to)
{
    uint32_t stripe = ledger_stripe_of_file(file);
    if (ledger_map.shared)
        ledger_stripe_lock(stripe);
    const struct ledger_seen *from = atomic_load(seen);
    atomic_store(&to->generation, atomic_load(&from->generation));
    atomic_store(&to->losses, atomic_load(&from->losses));
    atomic_store(seen, to);
    if (ledger_map.shared)
        ledger_stripe_unlock(stripe);
}

/* An entry that was made since then knows only of later losses. */
static uint32_t losses_seen(const struct ledger_seen *seen, const struct ledger_entry *entry)
{
    return atomic_load(&seen->generation) == atomic_load(&entry->generation)
               ? atomic_load(&seen->losses)
               : 0;
}

bool ledger_file_loses_by(struct ledger_file *file, struct ledger_seen *_Atomic *seen)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    if (!entry || atomic_load(&entry->losses.count) == 0)
        return false;
    entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    bool news = losses_seen(atomic_load(seen), entry) != atomic_load(&entry->losses.count);
    ledger_entry_unlock(file);
    return news;
}

bool ledger_file_lost_by(struct ledger_file *file, struct ledger_seen *_Atomic *seen)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    if (!entry || (losses_seen(atomic_load(seen), entry) == atomic_load(&entry->losses.count) &&
                   atomic_load(&entry->losses.told) == atomic_load(&entry->losses.count)))
        return false;
    entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    struct ledger_seen *own = atomic_load(seen);
    uint32_t losses = atomic_load(&entry->losses.count);
    bool news = losses_seen(own, entry) != losses;
    atomic_store(&entry->losses.told, losses);
    atomic_store(&own->generation, atomic_load(&entry->generation));
    atomic_store(&own->losses, losses);
    __atomic_store_n(&file->losses_known, losses, __ATOMIC_RELAXED); /* for the kernel's world */
    ledger_entry_unlock(file);
    return news;
}

_Static_assert(LEDGER_STRIPES <= 64, "a bit for each in ledger_uncommitted_next()");

static bool has_data(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->uncommitted, memory_order_relaxed) ||
           atomic_load_explicit(&entry->dirty, memory_order_relaxed);
}

/* Under the stripe's lock. */
static bool wanted(const struct ledger_entry *entry, uint64_t server, bool orphans)
{
    if (!has_data(entry) || (server && entry->server != server))
        return false;
    if (!orphans || atomic_load(&entry->flags) & LEDGER_ENTRY_OWED)
        return true;
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next) {
        if (atomic_load(&ledger_record(i)->owner) == 0)
            return true;
    }
    return has_dirty_of(entry, 0);
}

void ledger_file_owes(struct ledger_file *file, bool owes)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    if (owes)
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_OWED);
    else
        ledger_entry_clear(entry, LEDGER_ENTRY_OWED);
    ledger_entry_unlock(file);
}

bool ledger_uncommitted_next(uint32_t *cursor, uint64_t server, bool orphans,
                             struct ledger_file *file)
{
    struct ledger_shared *shared = ledger_map.shared;
    uint64_t stripes = 0; /* a bit for each that has data: mostly few have, or none */
    for (uint32_t i = 0; shared && i < LEDGER_STRIPES; i++)
        stripes |= (uint64_t)(of_stripe(i) != 0) << i;
    if (!stripes)
        return false;
    for (; *cursor < LEDGER_FILES; ++*cursor) {
        uint32_t stripe = ledger_stripe_of(*cursor);
        if (!(stripes >> stripe & 1) ||
            !atomic_load_explicit(&shared->set_state[*cursor / LEDGER_SET_SIZE],
                                  memory_order_acquire)) {
            *cursor |= LEDGER_SET_SIZE - 1; /* the set has no such file: the next one */
            continue;
        }
        struct ledger_entry *entry = &ledger_map.entries[*cursor];
        if (!has_data(entry))
            continue;
        ledger_stripe_lock(stripe);
        bool found = wanted(entry, server, orphans);
        if (found)
            ledger_entry_name(entry, file);
        ledger_stripe_unlock(stripe);
        if (found) {
            ++*cursor;
            return true;
        }
    }
    return false;
}
