/*
 * Entries of files: finding, making and recycling them, and what is known of a file's size.
 */
#include <string.h>

#include "host/shared.h"
#include "sys/sys.h"

enum { SPINS = 2000, TRUNCATION_BITS = 24 };

static uint32_t home_set(uint64_t device, uint64_t inode)
{
    uint64_t hash = (inode ^ device * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 31) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(hash >> 40) % HOST_SETS;
}

/* Sets of one stripe follow each other in a ring. */
static uint32_t next_set(uint32_t set)
{
    return (set + HOST_STRIPES) % HOST_SETS;
}

void host_stripe_lock(uint32_t stripe)
{
    struct host_stripe *s = &host_map.shared->stripes[stripe];
    if (pthread_mutex_lock(&s->lock) == EOWNERDEAD) {
        host_stripe_rebuild(stripe);
        atomic_fetch_add(&s->recoveries, 1);
        pthread_mutex_consistent(&s->lock);
    }
    if (atomic_load_explicit(&s->held_check, memory_order_relaxed))
        host_stripe_expire(stripe);
}

void host_stripe_unlock(uint32_t stripe)
{
    pthread_mutex_unlock(&host_map.shared->stripes[stripe].lock);
}

/*
 * ---- attributes without a lock ----
 *
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

static int64_t nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* ---- finding and making ---- */

static struct host_entry *find(uint64_t device, uint64_t inode)
{
    uint32_t home = home_set(device, inode), set = home;
    do {
        uint8_t state =
            atomic_load_explicit(&host_map.shared->set_state[set], memory_order_acquire);
        for (uint32_t i = 0; state && i < HOST_SET_SIZE; i++) {
            struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
            if (atomic_load_explicit(&entry->inode, memory_order_relaxed) == inode &&
                atomic_load_explicit(&entry->device, memory_order_relaxed) == device &&
                (atomic_load_explicit(&entry->flags, memory_order_relaxed) & HOST_ENTRY_PRESENT))
                return entry;
        }
        if (state != 2)
            return NULL;
        set = next_set(set);
    } while (set != home);
    return NULL;
}

/* Whatever the configuration calls its server: device, inode and handle are those of one file. */
static bool same_key(const struct host_entry *entry, const struct host_file_key *key)
{
    return !(atomic_load(&entry->flags) & HOST_ENTRY_RENAMING) &&
           entry->handle_length == key->handle_length &&
           memcmp(entry->handle, key->handle, key->handle_length) == 0;
}

static void set_name(struct host_entry *entry, const struct host_file_key *key)
{
    entry->server = key->server;
    entry->root = key->root;
    entry->handle_length = key->handle_length;
    memcpy(entry->handle, key->handle, key->handle_length);
}

static void begin_life(struct host_entry *entry, const struct host_file_key *key)
{
    struct host_stripe *stripe = &host_map.shared->stripes[host_stripe_of(host_entry_index(entry))];
    host_entry_change(entry);
    atomic_store(&entry->flags, 0); /* PRESENT comes last, should this process die here */
    atomic_store(&entry->generation, ++stripe->births);
    atomic_store(&entry->truncations, ++stripe->births);
    atomic_store(&entry->device, key->device);
    atomic_store(&entry->inode, key->inode);
    set_name(entry, key);
    atomic_store(&entry->size, 0);
    atomic_store(&entry->used, 0);
    atomic_store(&entry->mtime, 0);
    atomic_store(&entry->ctime, 0);
    atomic_store(&entry->verified_ns, 0);
    entry->uncommitted_end = 0;
    entry->emptied = 0;
    atomic_store(&entry->losses, 0);
    atomic_store(&entry->flags, HOST_ENTRY_PRESENT);
    host_entry_changed(entry);
}

/* The entry of a set that is free, or was not used for the longest time; NULL: all are needed. */
static struct host_entry *find_place(uint32_t set, bool desperate)
{
    struct host_entry *best = NULL;
    uint32_t clock = host_map.shared->stripes[set % HOST_STRIPES].clock, best_age = 0;
    for (uint32_t i = 0; i < HOST_SET_SIZE; i++) {
        struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
        uint32_t flags = atomic_load(&entry->flags), age = clock - entry->used_at;
        if (!(flags & HOST_ENTRY_PRESENT))
            return entry;
        if (entry->records || host_entry_truncator(entry) ||
            ((flags & HOST_ENTRY_KERNEL_WRITER) && !desperate))
            continue;
        if (!best || age > best_age) {
            best = entry;
            best_age = age;
        }
    }
    return best;
}

static struct host_entry *make(const struct host_file_key *key)
{
    uint32_t home = home_set(key->device, key->inode);
    for (int desperate = 0; desperate <= 1; desperate++) {
        uint32_t set = home;
        do {
            _Atomic uint8_t *state = &host_map.shared->set_state[set];
            if (!atomic_load(state)) {
                if (host_registry_back(host_map.entries_at + (uint64_t)set * 4096, 4096) != 0)
                    return NULL;
                atomic_store_explicit(state, 1, memory_order_release);
            }
            struct host_entry *entry = find_place(set, desperate);
            if (entry) {
                begin_life(entry, key);
                return entry;
            }
            atomic_store(state, 2);
            set = next_set(set);
        } while (set != home);
    }
    return NULL;
}

/* Losses since this life of the entry began are news for who knew an earlier one. */
static void remember(struct host_file *file, const struct host_entry *entry)
{
    __atomic_store_n(&file->index, host_entry_index(entry), __ATOMIC_RELAXED);
    __atomic_store_n(&file->losses, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&file->generation, atomic_load(&entry->generation), __ATOMIC_RELAXED);
}

/* The entry that a process remembers, if it still is of the same file. Generations are unique in a
 * stripe, so a torn pair of index and generation matches nothing. */
static struct host_entry *remembered(const struct host_file *file)
{
    uint32_t index = __atomic_load_n(&file->index, __ATOMIC_RELAXED);
    uint64_t generation = __atomic_load_n(&file->generation, __ATOMIC_RELAXED);
    if (generation == 0 || index >= HOST_FILES)
        return NULL;
    struct host_entry *entry = &host_map.entries[index];
    return atomic_load_explicit(&entry->generation, memory_order_acquire) == generation ? entry
                                                                                        : NULL;
}

/* A view of that entry, without the lock. */
static bool view_remembered(const struct host_file *file, struct view *view)
{
    struct host_entry *entry = remembered(file);
    if (!entry)
        return false;
    view_entry(entry, view);
    return view->generation == __atomic_load_n(&file->generation, __ATOMIC_RELAXED);
}

struct host_entry *host_entry_peek(struct host_file *file)
{
    int error;
    struct host_entry *entry = host_map.shared ? remembered(file) : NULL;
    if (entry)
        return entry;
    entry = host_entry_lock(file, false, &error);
    if (entry)
        host_entry_unlock(file);
    return entry;
}

static void touch(struct host_entry *entry)
{
    entry->used_at = ++host_map.shared->stripes[host_stripe_of(host_entry_index(entry))].clock;
}

uint32_t host_stripe_of_file(const struct host_file *file)
{
    return home_set(file->key.device, file->key.inode) % HOST_STRIPES;
}

struct host_entry *host_entry_lock(struct host_file *file, bool may_make, int *error)
{
    if (!host_map.shared) {
        *error = -ENOSPC;
        return NULL;
    }
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = remembered(file);
    if (!entry) {
        entry = find(file->key.device, file->key.inode);
        *error = -ENOENT;
        if (entry && !same_key(entry, &file->key)) {
            *error = -ESTALE;
            entry = NULL;
        } else if (!entry && may_make) {
            *error = -ENOSPC;
            entry = make(&file->key);
        }
        if (entry)
            remember(file, entry);
    }
    if (!entry) {
        host_stripe_unlock(stripe);
        return NULL;
    }
    touch(entry);
    return entry;
}

void host_entry_unlock(const struct host_file *file)
{
    host_stripe_unlock(host_stripe_of_file(file));
}

/* Forgets all of a file that is gone. Writes in flight go on, but leave nothing here. */
static void empty(struct host_entry *entry, const struct host_file_key *key,
                  struct host_garbage *garbage)
{
    uint32_t index = host_entry_index(entry);
    host_record_cut(entry, 0, true, garbage);
    host_records_detach(index, garbage);
    atomic_store(&entry->truncator, 0);
    begin_life(entry, key);
}

/* The same file has another handle. Who dies here leaves an entry that no handle is the same as. */
static void rename_entry(struct host_entry *entry, const struct host_file_key *key)
{
    atomic_fetch_or(&entry->flags, HOST_ENTRY_RENAMING);
    set_name(entry, key);
    atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_RENAMING);
}

/* Gives the place of a file, of which the kernel says the same device and inode, to `key`. */
static uint64_t take_over(struct host_entry *entry, const struct host_file_key *key,
                          const struct timespec *ctime, struct host_garbage *garbage)
{
    uint32_t flags = atomic_load(&entry->flags);
    if (entry->root == key->root && !(flags & HOST_ENTRY_RENAMING)) {
        empty(entry, key, garbage);
        return 0;
    }
    if ((flags & HOST_ENTRY_KNOWN) && atomic_load(&entry->ctime) == nanoseconds(ctime)) {
        rename_entry(entry, key);
        return 0;
    }
    uint64_t lost = atomic_load(&entry->uncommitted);
    empty(entry, key, garbage);
    entry->emptied = lost;
    atomic_fetch_or(&entry->flags, flags & HOST_ENTRY_KERNEL_WRITER); /* it may be the same file */
    return lost;
}

bool host_file_attach(struct host_file *file, const struct host_file_key *key,
                      const struct timespec *ctime, uint64_t *lost)
{
    struct host_garbage garbage = {0};
    *lost = 0;
    file->key = *key;
    if (file->key.handle_length > HOST_HANDLE_MAX)
        file->key.handle_length = HOST_HANDLE_MAX;
    file->index = UINT32_MAX;
    file->generation = 0;
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = find(key->device, key->inode);
    if (entry && !same_key(entry, &file->key))
        *lost = take_over(entry, &file->key, ctime, &garbage);
    if (!entry)
        entry = make(&file->key);
    if (entry) {
        remember(file, entry);
        file->losses = atomic_load(&entry->losses); /* of before this use */
        touch(entry);
    }
    host_stripe_unlock(stripe);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
    return entry != NULL;
}

bool host_file_rename(struct host_file *file, const struct host_file_key *key,
                      const struct timespec *ctime, uint64_t *lost)
{
    struct host_garbage garbage = {0};
    *lost = 0;
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = find(key->device, key->inode);
    bool known = entry && entry == remembered(file),
         ours = known || (entry && same_key(entry, &file->key));
    file->key.server = key->server; /* device and inode are read without the lock, and stay */
    __atomic_store_n(&file->key.root, key->root, __ATOMIC_RELAXED);
    file->key.handle_length = key->handle_length;
    memcpy(file->key.handle, key->handle, sizeof(key->handle));
    if (ours) {
        rename_entry(entry, &file->key);
    } else if (entry) {
        *lost = entry->emptied;
        if (!same_key(entry, &file->key))
            *lost += take_over(entry, &file->key, ctime, &garbage);
    } else {
        entry = make(&file->key);
    }
    if (entry && !known)
        remember(file, entry);
    if (entry)
        touch(entry);
    host_stripe_unlock(stripe);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
    return entry != NULL;
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
    struct host_entry *entry = host_map.shared ? find(device, inode) : NULL;
    if (!entry)
        return false;
    view_entry(entry, &view);
    if (view.device != device || view.inode != inode || !(view.flags & HOST_ENTRY_KNOWN))
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
    struct host_entry *entry = remembered(file);
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
    if (truncated && !known)
        return; /* neither the old size nor this one can be trusted */
    if (!truncated && (difference == 0 || attributes->size > size))
        size = attributes->size;
    if (size < entry->uncommitted_end) {
        uint64_t end = uncommitted_end(entry);
        if (size < end)
            size = end;
    }
    host_entry_change(entry);
    put(&entry->size, size);
    if (!known || nanoseconds(&attributes->ctime) >=
                      atomic_load_explicit(&entry->ctime, memory_order_relaxed)) {
        put(&entry->used, attributes->used);
        put_time(&entry->mtime, nanoseconds(&attributes->mtime));
        put_time(&entry->ctime, nanoseconds(&attributes->ctime));
    }
    if (!truncated && now_ns > atomic_load_explicit(&entry->verified_ns, memory_order_relaxed))
        put(&entry->verified_ns, now_ns);
    atomic_store_explicit(&entry->flags, flags | HOST_ENTRY_KNOWN, memory_order_release);
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

void host_file_set_kernel_writer(struct host_file *file)
{
    int error;
    struct host_entry *entry = host_entry_lock(file, true, &error);
    if (entry) {
        atomic_fetch_or(&entry->flags, HOST_ENTRY_KERNEL_WRITER);
        host_entry_unlock(file);
    }
}

bool host_file_has_kernel_writer(struct host_file *file)
{
    struct view view;
    int error;
    if (!host_map.shared)
        return false;
    if (view_remembered(file, &view))
        return view.flags & HOST_ENTRY_KERNEL_WRITER;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return false;
    bool writer = atomic_load(&entry->flags) & HOST_ENTRY_KERNEL_WRITER;
    host_entry_unlock(file);
    return writer;
}

void host_entry_name(const struct host_entry *entry, struct host_file *file)
{
    file->key.device = atomic_load(&entry->device);
    file->key.inode = atomic_load(&entry->inode);
    file->key.server = entry->server;
    file->key.root = entry->root;
    file->key.handle_length = entry->handle_length;
    memcpy(file->key.handle, entry->handle, HOST_HANDLE_MAX);
    file->index = host_entry_index(entry);
    file->generation = atomic_load(&entry->generation);
}

bool host_file_find(uint64_t device, uint64_t inode, struct host_file *file)
{
    if (!host_map.shared)
        return false;
    uint32_t stripe = home_set(device, inode) % HOST_STRIPES;
    host_stripe_lock(stripe);
    const struct host_entry *entry = find(device, inode);
    if (entry)
        host_entry_name(entry, file);
    host_stripe_unlock(stripe);
    return entry != NULL;
}

/* ---- changes of size ---- */

bool host_file_truncate_begin(struct host_file *file, uint64_t size)
{
    uint32_t stripe = host_stripe_of_file(file), slot = host_process_slot(), other;
    int error;
    struct host_entry *entry = host_entry_lock(file, true, &error);
    if (!entry || !slot) {
        if (entry)
            host_entry_unlock(file);
        return false;
    }
    while ((other = host_entry_truncator(entry)) != 0) {
        host_stripe_wait(stripe, other);
        host_entry_unlock(file);
        entry = host_entry_lock(file, true, &error);
        if (!entry)
            return false;
    }
    /* From here on the entry cannot be recycled, and writes and replays beyond `size` wait. */
    atomic_fetch_add(&host_map.shared->processes[slot].truncations, 1);
    entry->truncate_size = size;
    atomic_store(&entry->truncator, slot);
    atomic_store(&entry->truncations, ++host_map.shared->stripes[stripe].births);
    while ((other = host_record_beyond(entry, size)) != 0)
        host_stripe_wait(stripe, atomic_load(&host_record(other)->owner));
    host_entry_unlock(file);
    return true;
}

void host_entry_forget_size(struct host_entry *entry)
{
    struct host_stripe *stripe = &host_map.shared->stripes[host_stripe_of(host_entry_index(entry))];
    host_entry_change(entry);
    atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_KNOWN);
    atomic_store(&entry->size, uncommitted_end(entry));
    atomic_store(&entry->truncations, ++stripe->births);
    host_entry_changed(entry);
}

/* Under the lock: the size is what a truncation made it. */
static void set_size(struct host_entry *entry, uint64_t size, struct host_garbage *garbage)
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
    if (slot && atomic_load(&entry->truncator) == slot) {
        atomic_store(&entry->truncator, 0);
        atomic_fetch_sub(&host_map.shared->processes[slot].truncations, 1);
    }
    if (done)
        set_size(entry, size, &garbage);
    atomic_store(&entry->truncations, ++host_map.shared->stripes[stripe].births);
    host_entry_unlock(file);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
}

bool host_file_truncated_by_kernel(uint64_t device, uint64_t inode, uint64_t size,
                                   struct host_file *again)
{
    struct host_garbage garbage = {0};
    bool beyond = false;
    again->generation = 0;
    if (!host_map.shared)
        return false;
    uint32_t stripe = home_set(device, inode) % HOST_STRIPES;
    host_stripe_lock(stripe);
    struct host_entry *entry = find(device, inode);
    if (entry) {
        set_size(entry, size, &garbage);
        atomic_store(&entry->truncations, ++host_map.shared->stripes[stripe].births);
        beyond = host_entry_truncator(entry) || host_record_beyond(entry, size);
        host_entry_name(entry, again);
    }
    host_stripe_unlock(stripe);
    host_arena_give(garbage.first);
    return beyond;
}
