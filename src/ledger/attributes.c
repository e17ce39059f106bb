/*
 * What is known of a file: its size and times, as the server tells them, and as this host changes
 * them.
 */
#include "ledger/store/pocket.h"
#include "ledger/cache.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "ledger/stamp.h"
#include "sys/sys.h"

enum { SPINS = 2000 };

#define QUIET_NS UINT64_C(1000000000)

/* ---- reading without a lock ---- */

struct view {
    uint32_t flags;
    uint64_t generation, device, inode;
    uint64_t size, used, verified_ns;
    int64_t mtime, ctime;
};

/* Every load acquires, so that none can move behind the second load of `sequence`. */
static bool try_view(struct ledger_entry *entry, struct view *view)
{
    uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire);
    view->flags = atomic_load_explicit(&entry->flags, memory_order_acquire);
    view->generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
    view->device = atomic_load_explicit(&entry->device, memory_order_acquire);
    view->inode = atomic_load_explicit(&entry->inode, memory_order_acquire);
    view->size = atomic_load_explicit(&entry->size, memory_order_acquire);
    view->used = atomic_load_explicit(&entry->used, memory_order_acquire);
    view->verified_ns = atomic_load_explicit(&entry->verified_ns, memory_order_acquire);
    view->mtime = atomic_load_explicit(&entry->mtime, memory_order_acquire);
    view->ctime = atomic_load_explicit(&entry->ctime, memory_order_acquire);
    return !(sequence & 1) &&
           atomic_load_explicit(&entry->sequence, memory_order_relaxed) == sequence;
}

static void view_entry(struct ledger_entry *entry, struct view *view)
{
    for (int i = 0; i < SPINS; i++) {
        if (try_view(entry, view))
            return;
    }
    /* The writer was preempted, or died. To take the lock waits for it, or mends the entry. */
    uint32_t stripe = ledger_stripe_of(ledger_entry_index(entry));
    ledger_stripe_lock(stripe);
    try_view(entry, view);
    ledger_stripe_unlock(stripe);
}

static void fill(const struct view *view, struct ledger_attributes *attributes)
{
    attributes->size = view->size;
    attributes->used = view->used;
    attributes->mtime.tv_sec = view->mtime / 1000000000;
    attributes->mtime.tv_nsec = view->mtime % 1000000000;
    attributes->ctime.tv_sec = view->ctime / 1000000000;
    attributes->ctime.tv_nsec = view->ctime % 1000000000;
}

/* A view of the entry that the process remembers, without the lock. False: it is another file's by
 * now. */
static bool view_remembered(const struct ledger_file *file, struct view *view)
{
    struct ledger_entry *entry = ledger_entry_remembered(file);
    if (!entry)
        return false;
    view_entry(entry, view);
    return view->generation == __atomic_load_n(&file->generation, __ATOMIC_RELAXED);
}

bool ledger_file_attributes(struct ledger_file *file, struct ledger_attributes *attributes,
                            uint64_t *verified_ns)
{
    struct view view;
    if (!ledger_map.shared)
        return false;
    if (!view_remembered(file, &view)) {
        struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
        if (!entry)
            return false;
        try_view(entry, &view);
        ledger_entry_unlock(file);
    }
    if (!(view.flags & LEDGER_ENTRY_KNOWN))
        return false;
    fill(&view, attributes);
    *verified_ns = view.verified_ns;
    return true;
}

uint64_t ledger_file_least_size(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->size, memory_order_acquire) : 0;
}

bool ledger_file_peek(uint64_t device, uint64_t inode, struct ledger_attributes *attributes)
{
    struct view view;
    struct ledger_entry *entry = ledger_map.shared ? ledger_entry_next(device, inode, NULL) : NULL;
    if (!entry || ledger_entry_next(device, inode, entry))
        return false;
    view_entry(entry, &view);
    if (view.device != device || view.inode != inode ||
        (view.flags & (LEDGER_ENTRY_KNOWN | LEDGER_ENTRY_KERNEL)) != LEDGER_ENTRY_KNOWN)
        return false;
    fill(&view, attributes);
    return true;
}

void ledger_number_look(uint64_t device, uint64_t inode, struct ledger_number *number)
{
    struct ledger_entry *entry = NULL;
    *number = (struct ledger_number){.known = false};
    while (ledger_map.shared && (entry = ledger_entry_next(device, inode, entry))) {
        number->shared = number->known;
        number->known = true;
        number->dirty =
            number->dirty || atomic_load_explicit(&entry->dirty, memory_order_acquire) != 0;
    }
}

/* ---- what the server says ---- */

uint64_t ledger_file_asking(struct ledger_file *file)
{
    uint64_t epoch = 0;
    if (!ledger_map.shared)
        return 0;
    struct ledger_entry *entry = ledger_entry_remembered(file);
    if (entry)
        return ledger_entry_epoch(entry);
    entry = ledger_entry_lock(file, true, NULL);
    if (entry) {
        epoch = ledger_entry_epoch(entry);
        ledger_entry_unlock(file);
    }
    return epoch;
}

uint64_t ledger_number_asking(uint64_t device, uint64_t inode)
{
    struct ledger_entry *entry = ledger_map.shared ? ledger_entry_next(device, inode, NULL) : NULL;
    return entry && !ledger_entry_next(device, inode, entry) ? ledger_entry_epoch(entry) : 0;
}

static void put(_Atomic uint64_t *where, uint64_t value)
{
    atomic_store_explicit(where, value, memory_order_release);
}

static void put_time(_Atomic int64_t *where, int64_t value)
{
    atomic_store_explicit(where, value, memory_order_release);
}

/*
 * Keeps `own_mtime`: the time that the file has by this host's own changes. A later time tells of a
 * change by another host: see ledger_file_changed_by_other(). Each answer to a write tells the time
 * that the write made. After a change without an answer, the server must be asked again. The time
 * is known then if nothing of this host began or ended meanwhile (`quiet`). Call it also for an
 * answer that is not believed otherwise. Returns the flags as they are then.
 */
static uint32_t learn_own(struct ledger_entry *entry, int64_t mtime, bool own, bool quiet)
{
    uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
    if (quiet && (own || flags & LEDGER_ENTRY_UNTOLD)) {
        entry->own_mtime = mtime;
        return flags & ~(uint32_t)LEDGER_ENTRY_UNTOLD;
    }
    if (own && mtime > entry->own_mtime)
        entry->own_mtime = mtime;
    return flags;
}

void ledger_entry_learn(struct ledger_entry *entry, uint64_t epoch,
                        const struct ledger_attributes *attributes, uint64_t now_ns, bool own)
{
    if (ledger_entry_truncator(entry) == LEDGER_TRUNCATOR_HELD) {
        learn_own(entry, ledger_nanoseconds(&attributes->mtime), own, false);
        return; /* the size may yet change */
    }
    uint64_t difference = ledger_entry_epoch(entry) ^ epoch;
    uint64_t size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
    bool truncated = difference & ((1u << LEDGER_TRUNCATION_BITS) - 1);
    bool known = flags & LEDGER_ENTRY_KNOWN;
    uint64_t verified_ns = atomic_load_explicit(&entry->verified_ns, memory_order_relaxed);
    if (flags & LEDGER_ENTRY_CACHED && !own)
        ledger_cache_times(entry, attributes, now_ns, difference == 0);
    if (!known && (truncated || now_ns < verified_ns)) {
        learn_own(entry, ledger_nanoseconds(&attributes->mtime), own, false);
        return; /* neither the old size nor this one can be trusted */
    }
    if (!own && known && difference == 0 && now_ns >= verified_ns &&
        ledger_nanoseconds(&attributes->ctime) < atomic_load(&entry->ctime)) {
        /* Asked later, and an earlier time of change: it was answered before that change, or the
         * server's clock was set back. The next question tells. */
        ledger_entry_doubt_size(entry);
        return;
    }
    bool later = ledger_nanoseconds(&attributes->ctime) > atomic_load(&entry->ctime);
    bool newest = !known || now_ns >= verified_ns || later;
    if (!truncated && newest && (difference == 0 || attributes->size > size))
        size = attributes->size;
    if (size < entry->uncommitted_end) {
        uint64_t end = ledger_entry_uncommitted_end(entry);
        if (size < end)
            size = end;
    }
    if (size < entry->dirty_end)
        size = entry->dirty_end;
    /* The answer is shorter, and uncommitted data is not the reason. Then another host cut the
     * file, or the answer is older than a write that was answered meanwhile. The server must be
     * asked again. */
    bool settled = difference == 0 || attributes->size >= size || size <= entry->uncommitted_end ||
                   size <= entry->dirty_end;
    if (!own && known && later) /* perhaps by another host: what was read before is old */
        atomic_fetch_add(ledger_entry_freshness(entry), 1);
    ledger_entry_change(entry);
    put(&entry->size, size);
    if (!known || ledger_nanoseconds(&attributes->ctime) >=
                      atomic_load_explicit(&entry->ctime, memory_order_relaxed)) {
        put(&entry->used, attributes->used);
        put_time(&entry->mtime, ledger_nanoseconds(&attributes->mtime));
        put_time(&entry->ctime, ledger_nanoseconds(&attributes->ctime));
    }
    if (!truncated && settled && now_ns > verified_ns)
        put(&entry->verified_ns, now_ns);
    flags = learn_own(entry, ledger_nanoseconds(&attributes->mtime), own, difference == 0);
    atomic_store_explicit(&entry->flags, flags | LEDGER_ENTRY_KNOWN, memory_order_release);
    ledger_entry_changed(entry);
}

void ledger_file_learned(struct ledger_file *file, uint64_t epoch,
                         const struct ledger_attributes *attributes, uint64_t now_ns)
{
    struct ledger_entry *entry = ledger_entry_lock(file, true, NULL);
    if (!entry)
        return;
    ledger_entry_learn(entry, epoch, attributes, now_ns, false);
    ledger_entry_unlock(file);
}

/* Under the stripe's lock. */
static bool confirm(struct ledger_entry *entry, const struct ledger_attributes *attributes,
                    uint64_t now_ns)
{
    uint64_t size = attributes->size;
    if (size < entry->dirty_end) /* the server does not have these bytes yet */
        size = entry->dirty_end;
    bool same = (atomic_load(&entry->flags) & LEDGER_ENTRY_KNOWN) &&
                atomic_load(&entry->size) == size &&
                atomic_load(&entry->ctime) == ledger_nanoseconds(&attributes->ctime) &&
                ledger_entry_truncator(entry) == 0;
    if (same && atomic_load(&entry->flags) & LEDGER_ENTRY_CACHED)
        ledger_cache_times(entry, attributes, now_ns, false);
    if (same && atomic_load(&entry->verified_ns) < now_ns) {
        ledger_entry_change(entry);
        put(&entry->verified_ns, now_ns);
        ledger_entry_changed(entry);
    }
    return same;
}

void ledger_file_confirmed(struct ledger_file *file, const struct ledger_attributes *attributes,
                           uint64_t now_ns)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    confirm(entry, attributes, now_ns);
    ledger_entry_unlock(file);
}

/* Has another host changed the file, and nothing of this one been in the way of seeing that? Under
 * the stripe's lock. */
static bool is_later(struct ledger_entry *entry, const struct ledger_attributes *attributes,
                     uint64_t now_ns)
{
    uint32_t flags = atomic_load(&entry->flags);
    return flags & LEDGER_ENTRY_KNOWN && !(flags & LEDGER_ENTRY_UNTOLD) && !entry->first &&
           atomic_load(&entry->dirty) == 0 && ledger_entry_truncator(entry) == 0 &&
           !ledger_record_pending(entry, UINT64_MAX) &&
           ledger_nanoseconds(&attributes->ctime) > atomic_load(&entry->ctime) &&
           atomic_load(&entry->verified_ns) + QUIET_NS < now_ns;
}

void ledger_file_kernel_told(struct ledger_file *file, const struct ledger_attributes *attributes,
                             uint64_t now_ns)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    if (!confirm(entry, attributes, now_ns) && is_later(entry, attributes, now_ns))
        ledger_entry_learn(entry, ledger_entry_epoch(entry), attributes, now_ns, false);
    ledger_entry_unlock(file);
}

enum ledger_confirmation ledger_key_confirmed(const struct ledger_file_key *key,
                                              const struct ledger_attributes *attributes,
                                              uint64_t now_ns, uint64_t *epoch)
{
    enum ledger_confirmation result = LEDGER_UNKNOWN;
    if (!ledger_map.shared)
        return result;
    uint32_t stripe = ledger_stripe_of_inode(key->device, key->inode);
    ledger_stripe_lock(stripe);
    struct ledger_entry *entry = ledger_entry_find(key);
    if (entry && entry->root == key->root) {
        *epoch = ledger_entry_epoch(entry);
        result = confirm(entry, attributes, now_ns) ? LEDGER_CONFIRMED : LEDGER_OTHER;
    }
    ledger_stripe_unlock(stripe);
    return result;
}

enum ledger_change ledger_file_changed_by_other(struct ledger_file *file, uint64_t epoch,
                                                const struct ledger_attributes *now)
{
    enum ledger_change change = LEDGER_CHANGE_NONE;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return change;
    ledger_stripe_expire_now(ledger_stripe_of_file(file));
    uint32_t flags = atomic_load(&entry->flags);
    bool sure = flags & LEDGER_ENTRY_KNOWN && !(flags & LEDGER_ENTRY_UNTOLD) &&
                ledger_entry_epoch(entry) == epoch && !ledger_entry_truncator(entry) &&
                !ledger_record_pending(entry, UINT64_MAX);
    if (sure && now->size > atomic_load(&entry->size))
        change = LEDGER_CHANGE_SIZE;
    else if (sure && now->size > 0 && ledger_nanoseconds(&now->mtime) > entry->own_mtime)
        change = LEDGER_CHANGE_TIME;
    ledger_entry_unlock(file);
    return change;
}

/* ---- changes of size ---- */

int ledger_file_truncate_begin(struct ledger_file *file, uint64_t size)
{
    uint32_t stripe = ledger_stripe_of_file(file), slot = ledger_process_slot(), other;
    int result;
    struct ledger_entry *entry = ledger_entry_lock(file, true, &result);
    while (entry && (other = ledger_entry_truncator(entry)) != 0) {
        ledger_stripe_wait(stripe, other);
        ledger_entry_unlock(file);
        entry = ledger_entry_lock(file, true, &result);
    }
    if (!entry)
        return result;
    bool kernel = atomic_load(&entry->flags) & LEDGER_ENTRY_KERNEL;
    if (kernel || !slot) {
        ledger_entry_unlock(file);
        return kernel ? LEDGER_OF_KERNEL : -ENOSPC;
    }
    /* From here on the entry is not recycled, and writes and replays beyond `size` wait. */
    atomic_fetch_add(&ledger_map.shared->processes[slot].truncations, 1);
    entry->truncate.size = size;
    atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_APPENDING);
    atomic_store(&entry->truncator, slot);
    ledger_entry_outdate(entry);
    ledger_entry_is_written(entry);
    while ((other = ledger_record_beyond(entry, size)) != 0)
        ledger_stripe_wait(stripe, atomic_load(&ledger_record(other)->owner));
    ledger_entry_unlock(file);
    return 0;
}

void ledger_file_truncate_end(struct ledger_file *file, uint64_t size, bool done)
{
    struct ledger_garbage garbage = {0};
    uint32_t stripe = ledger_stripe_of_file(file), slot = ledger_process_slot();
    struct ledger_entry *entry = ledger_entry_lock(file, true, NULL);
    if (!entry)
        return;
    bool ours = slot && atomic_load(&entry->truncator) == slot;
    ledger_entry_untold(entry);
    if (done) {
        if (ours) /* a process that finds this one dead from here on cuts in its place */
            atomic_fetch_or(&entry->flags, LEDGER_ENTRY_TRUNCATED);
        ledger_entry_set_size(entry, size, &garbage);
    } else {
        ledger_entry_forget_size(entry); /* perhaps only its answer is lost */
    }
    if (ours) {
        atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_TRUNCATED);
        atomic_store(&entry->truncator, 0);
        atomic_fetch_sub(&ledger_map.shared->processes[slot].truncations, 1);
    }
    ledger_entry_outdate(entry);
    ledger_entry_unlock(file);
    ledger_stripe_wake(stripe);
    ledger_arena_give(garbage.first);
}

bool ledger_file_truncated_by_kernel(const struct ledger_file_key *key, uint64_t size,
                                     struct ledger_file *again)
{
    struct ledger_garbage garbage = {0};
    bool beyond = false;
    again->generation = 0;
    if (!ledger_map.shared)
        return false;
    uint32_t stripe = ledger_stripe_of_inode(key->device, key->inode);
    ledger_stripe_lock(stripe);
    struct ledger_entry *entry = key->handle_length
                                     ? ledger_entry_find(key)
                                     : ledger_entry_next(key->device, key->inode, NULL);
    if (entry) {
        ledger_entry_untold(entry);
        ledger_entry_outdate(entry); /* first, as this process may die between the two */
        ledger_entry_set_size(entry, size, &garbage);
        ledger_entry_outdate(entry);
        beyond = ledger_entry_truncator(entry) || ledger_record_beyond(entry, size);
        ledger_entry_name(entry, again);
    }
    ledger_stripe_unlock(stripe);
    ledger_arena_give(garbage.first);
    return beyond;
}
