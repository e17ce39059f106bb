/*
 * Entries of files: finding, making, recycling and renaming them.
 */
#include <string.h>

#include "host/shared.h"
#include "host/world.h"
#include "sys/sys.h"

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

/* ---- finding and making ---- */

struct host_entry *host_entry_next(uint64_t device, uint64_t inode, const struct host_entry *last)
{
    uint32_t home = home_set(device, inode), set = home, i = 0;
    if (last) {
        set = host_entry_index(last) / HOST_SET_SIZE;
        i = host_entry_index(last) % HOST_SET_SIZE + 1;
    }
    do {
        uint8_t state =
            atomic_load_explicit(&host_map.shared->set_state[set], memory_order_acquire);
        for (; state && i < HOST_SET_SIZE; i++) {
            struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
            if (atomic_load_explicit(&entry->inode, memory_order_relaxed) == inode &&
                atomic_load_explicit(&entry->device, memory_order_relaxed) == device &&
                (atomic_load_explicit(&entry->flags, memory_order_relaxed) & HOST_ENTRY_PRESENT))
                return entry;
        }
        if (state != 2)
            return NULL;
        set = next_set(set);
        i = 0;
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

struct host_entry *host_entry_find(const struct host_file_key *key)
{
    struct host_entry *entry = NULL;
    while ((entry = host_entry_next(key->device, key->inode, entry)) && !same_key(entry, key))
        ;
    return entry;
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
    atomic_store(&entry->losses, 0);
    atomic_store(&entry->told, 0);
    entry->pins = 0;
    bool kernel = host_world_is_pinned(key->device, key->inode);
    atomic_store(&entry->flags,
                 HOST_ENTRY_PRESENT | (kernel ? HOST_ENTRY_KERNEL | HOST_ENTRY_ARRIVED : 0));
    host_entry_changed(entry);
}

static bool has_untold_loss(const struct host_entry *entry)
{
    return atomic_load(&entry->losses) != atomic_load(&entry->told);
}

/* What it has is to be had nowhere else: it cannot be made again, nor be left out. */
static bool is_needed(struct host_entry *entry)
{
    return entry->records || host_entry_truncator(entry) || has_untold_loss(entry) ||
           (atomic_load(&entry->flags) & HOST_ENTRY_STUCK);
}

/* The entry of a set that is free, or was not used for the longest time; NULL: all are needed. What
 * must not be forgotten is not: then the file that has no room is the kernel's. */
static struct host_entry *find_place(uint32_t set)
{
    struct host_entry *best = NULL;
    uint32_t clock = host_map.shared->stripes[set % HOST_STRIPES].clock, best_age = 0;
    for (uint32_t i = 0; i < HOST_SET_SIZE; i++) {
        struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
        uint32_t age = clock - entry->used_at;
        if (!(atomic_load(&entry->flags) & HOST_ENTRY_PRESENT))
            return entry;
        if (is_needed(entry))
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
    uint32_t home = home_set(key->device, key->inode), set = home;
    do {
        _Atomic uint8_t *state = &host_map.shared->set_state[set];
        if (!atomic_load(state)) {
            if (host_registry_back(host_map.entries_at + (uint64_t)set * 4096, 4096) != 0)
                return NULL;
            atomic_store_explicit(state, 1, memory_order_release);
        }
        struct host_entry *entry = find_place(set);
        if (entry) {
            begin_life(entry, key);
            return entry;
        }
        atomic_store(state, 2);
        set = next_set(set);
    } while (set != home);
    return NULL;
}

/* Losses since this life of the entry began are news for who knew an earlier one. */
static void remember(struct host_file *file, const struct host_entry *entry)
{
    __atomic_store_n(&file->index, host_entry_index(entry), __ATOMIC_RELAXED);
    __atomic_store_n(&file->losses, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&file->generation, atomic_load(&entry->generation), __ATOMIC_RELAXED);
}

struct host_entry *host_entry_remembered(const struct host_file *file)
{
    uint32_t index = __atomic_load_n(&file->index, __ATOMIC_RELAXED);
    uint64_t generation = __atomic_load_n(&file->generation, __ATOMIC_RELAXED);
    if (generation == 0 || index >= HOST_FILES)
        return NULL;
    struct host_entry *entry = &host_map.entries[index];
    return atomic_load_explicit(&entry->generation, memory_order_acquire) == generation ? entry
                                                                                        : NULL;
}

struct host_entry *host_entry_peek(struct host_file *file)
{
    int error;
    struct host_entry *entry = host_map.shared ? host_entry_remembered(file) : NULL;
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

uint32_t host_stripe_of_inode(uint64_t device, uint64_t inode)
{
    return home_set(device, inode) % HOST_STRIPES;
}

struct host_entry *host_entry_of(const struct host_file *file)
{
    struct host_entry *entry = host_entry_remembered(file);
    return entry ? entry : host_entry_find(&file->key);
}

/* Was the entry got under another handle of the export's root than the key? One of the two is of
 * before the server gave all files new handles, and both may be of the same file. */
static bool of_other_root(const struct host_entry *entry, const struct host_file_key *key)
{
    return (atomic_load(&entry->flags) & HOST_ENTRY_RENAMING) ||
           (entry->server == key->server && entry->root != key->root);
}

static bool may_have_new_handle(const struct host_file_key *key)
{
    const struct host_entry *entry = NULL;
    while ((entry = host_entry_next(key->device, key->inode, entry)) && !of_other_root(entry, key))
        ;
    return entry != NULL;
}

struct host_entry *host_entry_lock(struct host_file *file, bool may_make, int *error)
{
    if (!host_map.shared) {
        *error = -ENOSPC;
        return NULL;
    }
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = host_entry_of(file);
    if (!entry) {
        *error = may_make ? -ENOSPC : -ENOENT;
        if (may_make && may_have_new_handle(&file->key))
            *error = -ESTALE;
        else if (may_make)
            entry = make(&file->key);
    }
    if (entry && entry != host_entry_remembered(file))
        remember(file, entry);
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

/* Frees an entry, with all that it has. Writes in flight go on, but leave nothing here. */
static void retire(struct host_entry *entry, struct host_garbage *garbage)
{
    struct host_stripe *stripe = &host_map.shared->stripes[host_stripe_of(host_entry_index(entry))];
    host_record_cut(entry, 0, true, garbage);
    host_records_detach(host_entry_index(entry), garbage);
    atomic_store(&entry->truncator, 0);
    host_entry_change(entry);
    atomic_store(&entry->flags, 0);
    atomic_store(&entry->generation, ++stripe->births);
    host_entry_changed(entry);
}

/* The same file has another handle. Who dies here leaves an entry that no handle is the same as. */
static void rename_entry(struct host_entry *entry, const struct host_file_key *key)
{
    atomic_fetch_or(&entry->flags, HOST_ENTRY_RENAMING);
    set_name(entry, key);
    atomic_fetch_and(&entry->flags, ~(uint32_t)HOST_ENTRY_RENAMING);
}

/* Entries of the same device and inode as a key, which none of them has. */
struct others {
    struct host_entry *idle;  /* one of another file that has nothing to keep; NULL: none */
    struct host_entry *other; /* the last that may be of the same file: see of_other_root() */
    unsigned count;           /* of those that may */
    struct host_entry *same;  /* the last of them that has the change time as well */
    unsigned same_count;
};

static struct others find_others(const struct host_file_key *key, const struct timespec *ctime)
{
    struct others others = {.count = 0};
    struct host_entry *entry = NULL;
    while ((entry = host_entry_next(key->device, key->inode, entry))) {
        if (!of_other_root(entry, key)) {
            others.idle = is_needed(entry) ? others.idle : entry;
            continue;
        }
        others.other = entry;
        others.count++;
        if ((atomic_load(&entry->flags) & HOST_ENTRY_KNOWN) &&
            atomic_load(&entry->ctime) == host_nanoseconds(ctime)) {
            others.same = entry;
            others.same_count++;
        }
    }
    return others;
}

/*
 * `entry` may be of the same file as `other`, which has a handle of before, or not: it inherits
 * that data is lost, and that the kernel writes the file. `only`: no other entry may be; then it
 * has been told, and who finds the handle of before stale may forget what is there. Bytes lost.
 */
static uint64_t inherit(struct host_entry *entry, struct host_entry *other, bool only,
                        struct host_garbage *garbage)
{
    uint32_t flags = atomic_load(&other->flags);
    uint64_t lost = atomic_load(&other->uncommitted);
    if (lost > 0 || has_untold_loss(other))
        atomic_store(&entry->losses, 1);
    atomic_fetch_or(&entry->flags, flags & (HOST_ENTRY_KERNEL | HOST_ENTRY_STUCK));
    if (only) {
        other->root = entry->root;
        atomic_store(&other->told, atomic_load(&other->losses));
    }
    if ((flags & HOST_ENTRY_RENAMING) || !is_needed(other))
        retire(other, garbage);
    return lost;
}

/*
 * The entry for a key that none has; NULL: no room. It is a new one but where the change time
 * proves that one with a handle of before is of the same file. Where such a one is not proven the
 * same, it stays: it may be of another file.
 */
static struct host_entry *make_or_rename(const struct host_file_key *key,
                                         const struct timespec *ctime, uint64_t *lost,
                                         struct host_garbage *garbage)
{
    struct others others = find_others(key, ctime);
    if (others.same_count == 1) {
        rename_entry(others.same, key);
        return others.same;
    }
    struct host_entry *entry = others.idle;
    if (entry)
        begin_life(entry, key); /* mostly it is of a file that is gone */
    else
        entry = make(key);
    struct host_entry *other = NULL;
    while (entry && others.count > 0 &&
           (other = host_entry_next(key->device, key->inode, other)) != NULL) {
        if (other != entry && of_other_root(other, key))
            *lost += inherit(entry, other, others.count == 1, garbage);
    }
    return entry;
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
    file->told = 0;
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_file(file);
    host_stripe_lock(stripe);
    struct host_entry *entry = host_entry_find(&file->key);
    if (!entry)
        entry = make_or_rename(&file->key, ctime, lost, &garbage);
    if (entry) {
        remember(file, entry);
        file->losses = atomic_load(&entry->told); /* others are news, as nobody knows of them */
        touch(entry);
    }
    host_stripe_unlock(stripe);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
    return entry != NULL;
}

/* `from`, which has a handle of before, is of the same file as `into`. What it has was written
 * before the file was changed under its new handle, and counts as lost. Bytes that nobody was told
 * of. */
static uint64_t merge(struct host_entry *from, struct host_entry *into,
                      struct host_garbage *garbage)
{
    bool told = from->root == into->root; /* see inherit() */
    uint64_t lost = told ? 0 : atomic_load(&from->uncommitted);
    if (from->records || has_untold_loss(from))
        atomic_fetch_add(&into->losses, 1);
    atomic_fetch_or(&into->flags,
                    atomic_load(&from->flags) & (HOST_ENTRY_KERNEL | HOST_ENTRY_STUCK));
    retire(from, garbage);
    return lost;
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
    struct host_entry *known = host_entry_of(file), *entry = host_entry_find(key);
    file->key.server = key->server; /* device and inode are read without the lock, and stay */
    __atomic_store_n(&file->key.root, key->root, __ATOMIC_RELAXED);
    file->key.handle_length = key->handle_length;
    memcpy(file->key.handle, key->handle, sizeof(key->handle));
    if (known && (!entry || entry == known)) {
        rename_entry(known, key);
        entry = known;
    } else if (known) {
        *lost = merge(known, entry, &garbage);
    } else if (!entry) {
        entry = make_or_rename(key, ctime, lost, &garbage);
    }
    if (entry && entry != host_entry_remembered(file))
        remember(file, entry);
    if (entry)
        touch(entry);
    host_stripe_unlock(stripe);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
    return entry != NULL;
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
    file->told = 0;
}

bool host_file_find(const struct host_file_key *key, uint32_t *cursor, struct host_file *file)
{
    if (!host_map.shared)
        return false;
    uint32_t stripe = host_stripe_of_inode(key->device, key->inode);
    host_stripe_lock(stripe);
    const struct host_entry *entry = *cursor ? &host_map.entries[*cursor - 1] : NULL;
    do
        entry = host_entry_next(key->device, key->inode, entry);
    while (entry && key->handle_length && !same_key(entry, key) && !of_other_root(entry, key));
    if (entry) {
        host_entry_name(entry, file);
        *cursor = host_entry_index(entry) + 1;
    }
    host_stripe_unlock(stripe);
    return entry != NULL;
}
