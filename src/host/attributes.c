/*
 * What is known of a file: its size, times and writers, as the server tells them and as the writes
 * and changes of size of this host make them.
 */
#include "host/shared.h"
#include "sys/sys.h"

enum { SPINS = 2000, TRUNCATION_BITS = 24 };

/* ---- reading without a lock ---- */

/*
 * All is written under the stripe's lock, so no counter needs an atomic addition. What is stored
 * between change and changed is stored with release: who loads (and acquires) it sees the odd
 * sequence of before.
 */

void host_entry_change(struct host_entry *entry)
{
    uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
    atomic_store_explicit(&entry->sequence, sequence + 1, memory_order_relaxed);
}

void host_entry_changed(struct host_entry *entry)
{
    uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
    atomic_store_explicit(&entry->sequence, sequence + 1, memory_order_release);
}

struct view {
    uint32_t flags;
    uint64_t generation, device, inode;
    uint64_t size, used, verified_ns;
    int64_t mtime, ctime;
};

/* Every load acquires, so that none can move behind the second look at `sequence`. */
static bool try_view(struct host_entry *entry, struct view *view)
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

static void view_entry(struct host_entry *entry, struct view *view)
{
    for (int i = 0; i < SPINS; i++) {
        if (try_view(entry, view))
            return;
    }
    /* The writer was preempted, or died: the lock waits for it, or mends the entry. */
    uint32_t stripe = host_stripe_of(host_entry_index(entry));
    host_stripe_lock(stripe);
    try_view(entry, view);
    host_stripe_unlock(stripe);
}

static void fill(const struct view *view, struct host_attributes *attributes)
{
    attributes->size = view->size;
    attributes->used = view->used;
    attributes->mtime.tv_sec = view->mtime / 1000000000;
    attributes->mtime.tv_nsec = view->mtime % 1000000000;
    attributes->ctime.tv_sec = view->ctime / 1000000000;
    attributes->ctime.tv_nsec = view->ctime % 1000000000;
}

/* A view of that entry, without the lock. */
static bool view_remembered(const struct host_file *file, struct view *view)
{
    struct host_entry *entry = host_entry_remembered(file);
    if (!entry)
        return false;
    view_entry(entry, view);
    return view->generation == __atomic_load_n(&file->generation, __ATOMIC_RELAXED);
}

bool host_file_attributes(struct host_file *file, struct host_attributes *attributes,
                          uint64_t *verified_ns)
{
    struct view view;
    int error;
    if (!host_map.shared)
        return false;
    if (!view_remembered(file, &view)) {
        struct host_entry *entry = host_entry_lock(file, false, &error);
        if (!entry)
            return false;
        try_view(entry, &view);
        host_entry_unlock(file);
    }
    if (!(view.flags & HOST_ENTRY_KNOWN))
        return false;
    fill(&view, attributes);
    *verified_ns = view.verified_ns;
    return true;
}

uint64_t host_file_least_size(struct host_file *file)
{
    struct host_entry *entry = host_entry_peek(file);
    return entry ? atomic_load_explicit(&entry->size, memory_order_acquire) : 0;
}

bool host_file_peek(uint64_t device, uint64_t inode, struct host_attributes *attributes)
{
    struct view view;
    struct host_entry *entry = host_map.shared ? host_entry_next(device, inode, NULL) : NULL;
    if (!entry || host_entry_next(device, inode, entry))
        return false;
    view_entry(entry, &view);
    if (view.device != device || view.inode != inode ||
        (view.flags & (HOST_ENTRY_KNOWN | HOST_ENTRY_KERNEL)) != HOST_ENTRY_KNOWN)
        return false;
    fill(&view, attributes);
    return true;
}

/* ---- what the server says ---- */

static uint64_t epoch_of(const struct host_entry *entry)
{
    uint64_t changes = atomic_load_explicit(&entry->changes, memory_order_acquire);
    uint64_t truncations = atomic_load_explicit(&entry->truncations, memory_order_acquire);
    return changes << TRUNCATION_BITS | (truncations & ((1u << TRUNCATION_BITS) - 1));
}

uint64_t host_file_asking(struct host_file *file)
{
    uint64_t epoch = 0;
    int error;
    if (!host_map.shared)
        return 0;
    struct host_entry *entry = host_entry_remembered(file);
    if (entry)
        return epoch_of(entry);
    entry = host_entry_lock(file, true, &error);
    if (entry) {
        epoch = epoch_of(entry);
        host_entry_unlock(file);
    }
    return epoch;
}

/* The end of acknowledged data that the server may not have reported yet. */
static uint64_t uncommitted_end(struct host_entry *entry)
{
    uint64_t end = 0;
    for (uint32_t i = entry->first; i; i = host_record(i)->file_next) {
        if (host_record_end(host_record(i)) > end)
            end = host_record_end(host_record(i));
    }
    entry->uncommitted_end = end;
    return end;
}

static void put(_Atomic uint64_t *where, uint64_t value)
{
    atomic_store_explicit(where, value, memory_order_release);
}

static void put_time(_Atomic int64_t *where, int64_t value)
{
    atomic_store_explicit(where, value, memory_order_release);
}

void host_entry_learn(struct host_entry *entry, uint64_t epoch,
                      const struct host_attributes *attributes, uint64_t now_ns)
{
    if (host_entry_truncator(entry) == HOST_TRUNCATOR_HELD)
        return; /* the size may yet change */
    uint64_t difference = epoch_of(entry) ^ epoch;
    uint64_t size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
    bool truncated = difference & ((1u << TRUNCATION_BITS) - 1);
    bool known = flags & HOST_ENTRY_KNOWN;
    uint64_t verified_ns = atomic_load_explicit(&entry->verified_ns, memory_order_relaxed);
    if (!known && (truncated || now_ns < verified_ns))
        return; /* neither the old size nor this one can be trusted */
    bool newest = !known || now_ns >= verified_ns ||
                  host_nanoseconds(&attributes->ctime) > atomic_load(&entry->ctime);
    if (!truncated && newest && (difference == 0 || attributes->size > size))
        size = attributes->size;
    if (size < entry->uncommitted_end) {
        uint64_t end = uncommitted_end(entry);
        if (size < end)
            size = end;
    }
    host_entry_change(entry);
    put(&entry->size, size);
    if (!known || host_nanoseconds(&attributes->ctime) >=
                      atomic_load_explicit(&entry->ctime, memory_order_relaxed)) {
        put(&entry->used, attributes->used);
        put_time(&entry->mtime, host_nanoseconds(&attributes->mtime));
        put_time(&entry->ctime, host_nanoseconds(&attributes->ctime));
    }
    if (!truncated && now_ns > verified_ns)
        put(&entry->verified_ns, now_ns);
    flags |= HOST_ENTRY_KNOWN;
    if (difference == 0)
        flags &= ~(uint32_t)HOST_ENTRY_UNTOLD;
    atomic_store_explicit(&entry->flags, flags, memory_order_release);
    host_entry_changed(entry);
}

void host_file_learned(struct host_file *file, uint64_t epoch,
                       const struct host_attributes *attributes, uint64_t now_ns)
{
    int error;
    struct host_entry *entry = host_entry_lock(file, true, &error);
    if (!entry)
        return;
    host_entry_learn(entry, epoch, attributes, now_ns);
    host_entry_unlock(file);
}

void host_file_confirmed(struct host_file *file, const struct host_attributes *attributes,
                         uint64_t now_ns)
{
    int error;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return;
    if ((atomic_load(&entry->flags) & HOST_ENTRY_KNOWN) &&
        atomic_load(&entry->size) == attributes->size &&
        atomic_load(&entry->ctime) == host_nanoseconds(&attributes->ctime) &&
        host_entry_truncator(entry) == 0 && atomic_load(&entry->verified_ns) < now_ns) {
        host_entry_change(entry);
        put(&entry->verified_ns, now_ns);
        host_entry_changed(entry);
    }
    host_entry_unlock(file);
}

bool host_file_changed_by_other(struct host_file *file, uint64_t epoch,
                                const struct host_attributes *now)
{
    const uint32_t told = HOST_ENTRY_KNOWN;
    int error;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return false;
    bool changed = (atomic_load(&entry->flags) & (told | HOST_ENTRY_UNTOLD)) == told &&
                   epoch_of(entry) == epoch && !host_entry_truncator(entry) &&
                   !host_record_unsettled(entry, UINT64_MAX) &&
                   host_nanoseconds(&now->mtime) > atomic_load(&entry->mtime);
    host_entry_unlock(file);
    return changed;
}

/* ---- changes of size ---- */

int host_file_truncate_begin(struct host_file *file, uint64_t size)
{
    uint32_t stripe = host_stripe_of_file(file), slot = host_process_slot(), other;
    int error;
    struct host_entry *entry = host_entry_lock(file, true, &error);
    while (entry && (other = host_entry_truncator(entry)) != 0) {
        host_stripe_wait(stripe, other);
        host_entry_unlock(file);
        entry = host_entry_lock(file, true, &error);
    }
    if (!entry)
        return error;
    bool kernel = atomic_load(&entry->flags) & HOST_ENTRY_KERNEL;
    if (kernel || !slot) {
        host_entry_unlock(file);
        return kernel ? HOST_OF_KERNEL : -ENOSPC;
    }
    /* From here on the entry cannot be recycled, and writes and replays beyond `size` wait. */
    atomic_fetch_add(&host_map.shared->processes[slot].truncations, 1);
    entry->truncate_size = size;
    atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_APPENDING);
    atomic_store(&entry->truncator, slot);
    atomic_store(&entry->truncations, ++host_map.shared->stripes[stripe].births);
    while ((other = host_record_beyond(entry, size)) != 0)
        host_stripe_wait(stripe, atomic_load(&host_record(other)->owner));
    host_entry_unlock(file);
    return 0;
}

void host_entry_forget_size(struct host_entry *entry)
{
    struct host_stripe *stripe = &host_map.shared->stripes[host_stripe_of(host_entry_index(entry))];
    host_entry_change(entry);
    atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_KNOWN);
    atomic_store(&entry->size, uncommitted_end(entry));
    atomic_store(&entry->verified_ns, sys_now_ns()); /* what was asked for before is not news */
    atomic_store(&entry->truncations, ++stripe->births);
    host_entry_changed(entry);
}

void host_entry_set_size(struct host_entry *entry, uint64_t size, struct host_garbage *garbage)
{
    host_record_cut(entry, size, false, garbage);
    host_entry_change(entry);
    atomic_store(&entry->size, size);
    if (entry->uncommitted_end > size)
        entry->uncommitted_end = size;
    host_entry_changed(entry);
}

void host_file_truncate_end(struct host_file *file, uint64_t size, bool done)
{
    struct host_garbage garbage = {0};
    uint32_t stripe = host_stripe_of_file(file), slot = host_process_slot();
    int error;
    struct host_entry *entry = host_entry_lock(file, true, &error);
    if (!entry)
        return;
    bool ours = slot && atomic_load(&entry->truncator) == slot;
    atomic_fetch_or(&entry->flags, HOST_ENTRY_UNTOLD);
    if (done) {
        if (ours) /* who finds this process dead from here on cuts in its place */
            atomic_fetch_or(&entry->flags, HOST_ENTRY_TRUNCATED);
        host_entry_set_size(entry, size, &garbage);
    } else {
        host_entry_forget_size(entry); /* the error may be of the answer, not of the change */
    }
    if (ours) {
        atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_TRUNCATED);
        atomic_store(&entry->truncator, 0);
        atomic_fetch_sub(&host_map.shared->processes[slot].truncations, 1);
    }
    atomic_store(&entry->truncations, ++host_map.shared->stripes[stripe].births);
    host_entry_unlock(file);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
}

bool host_file_truncated_by_kernel(const struct host_file_key *key, uint64_t size,
                                   struct host_file *again)
{
    struct host_garbage garbage = {0};
    bool beyond = false;
    again->generation = 0;
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_inode(key->device, key->inode);
    host_stripe_lock(stripe);
    struct host_entry *entry =
        key->handle_length ? host_entry_find(key) : host_entry_next(key->device, key->inode, NULL);
    if (entry) {
        atomic_fetch_or(&entry->flags, HOST_ENTRY_UNTOLD);
        host_entry_set_size(entry, size, &garbage);
        atomic_store(&entry->truncations, ++host_map.shared->stripes[stripe].births);
        beyond = host_entry_truncator(entry) || host_record_beyond(entry, size);
        host_entry_name(entry, again);
    }
    host_stripe_unlock(stripe);
    host_arena_give(garbage.first);
    return beyond;
}
